"""One training set of named entities from openly licensed ones: PER, LOC, ORG and MISC.

    python scripts/open_ner_data.py open-ner OUTPUT [SILVER…]

`open-ner` is a folder with uner-ewt, wikigold, wnut17, btc and crossner, each in its own column
format. OUTPUT gets train.conll, dev.conll and test.conll, a word and its tag per line:

- train: half of UNER English-EWT's dev part (documents, chosen by a hash of their names), several
  times, and all of the other sets, or instead of these the files SILVER, sentences labeled by a
  model as UNER would (scripts/silver_names.py): the other sets mark names in other ways;
- dev: the other half of it; test: its test part.

Types are mapped by TYPES; a type that is not there is no name (an algorithm, a music genre, an
enzyme) and becomes O. Sets without MISC leave out names of that kind. User names (@somebody) in
tweets are no names of persons here, and a title (Dr.) is no part of a name, as in UNER. Every tenth
sentence with a name is read in lower case, too, since much of the web is, and every twentieth in
capitals, since headlines are.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

NAMES = {
    "PER": "PER person Person researcher writer musicalartist politician scientist",
    "LOC": "LOC location Location country",
    "ORG": "ORG organisation corporation group Group university band politicalparty",
    "MISC": (
        "MISC misc product Product creative-work CreativeWorks event election award book poem album"
        " song magazine academicjournal conference programlang astronomicalobject"
    ),
}
"""Our types, and those of the sets that become them."""
TYPES = {theirs: ours for ours, all_of in NAMES.items() for theirs in all_of.split()}
TITLES = ("mr", "mrs", "ms", "miss", "dr", "doctor", "prof", "professor")
LOWERED, RAISED = 10, 20
"""Of so many sentences with a name one is read in lower case, too; in capitals."""
REPEATS = 5
"""How often the training half of UNER is read: it is small, and written as the test part is."""

Sentence = list[tuple[str, str]]
"""Words and tags."""


def sentences(path: Path, word: int, tag: int) -> Iterator[tuple[str, Sentence]]:
    """(document, sentence) of a file of columns; a blank line or a comment ends a sentence."""
    document, rows = "", list[tuple[str, str]]()
    for line in [*path.read_text(encoding="utf-8").split("\n"), ""]:
        cells = line.split("\t") if "\t" in line else line.split()
        if line.startswith("# newdoc"):
            document = line
        if len(cells) <= max(word, tag) or line.startswith("# "):
            if rows:
                yield document, rows
            rows = []
        elif cells[word].strip():
            rows.append((cells[word].strip(), cells[tag]))


def mapped(sentence: Sentence) -> Sentence:
    """The sentence with our types, in IOB2."""
    found: Sentence = []
    before = ""
    for place, (word, tag) in enumerate(sentence):
        prefix, _, kind = tag.partition("-")
        kind = TYPES.get(kind, "")
        if word == "@" or (place and sentence[place - 1][0] == "@"):
            kind = ""  # a user's name
        starts = prefix in ("B", "S") or kind != before
        if starts and kind == "PER" and word.lower().rstrip(".") in TITLES:
            kind = ""
        found.append((word, f"{'B' if starts else 'I'}-{kind}" if kind else "O"))
        before = kind
    return found


def is_chosen(document: str) -> bool:
    """Whether a document of UNER's dev part is trained on: half of them."""
    return hashlib.sha256(document.encode()).digest()[0] % 2 == 0


def with_other_case(found: Iterable[Sentence]) -> list[Sentence]:
    """The sentences, and of those with a name some in lower case and some in capitals."""
    all_of = list(found)
    named = [each for each in all_of if any(TYPES.get(tag[2:]) for _, tag in each)]
    lowered = ([(word.lower(), tag) for word, tag in each] for each in named[::LOWERED])
    raised = ([(word.upper(), tag) for word, tag in each] for each in named[1::RAISED])
    return [*all_of, *lowered, *raised]


def write(path: Path, found: Iterable[Sentence]) -> int:
    """Write sentences; return their number."""
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in mapped(each)) for each in found]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return len(blocks)


def main() -> None:
    """Write the three parts and say how many sentences each has."""
    source, output, *silver = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    uner = list(sentences(source / "uner-ewt/dev.iob2", 1, 2))
    train = REPEATS * [each for document, each in uner if is_chosen(document)]
    folders = ("wikigold/*.conll", "wnut17/*.conll", "btc/*.conll", "crossner/*/*.conll")
    others = silver or [path for each in folders for path in sorted(source.glob(each))]
    train += with_other_case(each for path in others for _, each in sentences(path, 0, 1))
    dev = [each for document, each in uner if not is_chosen(document)]
    test = [each for _, each in sentences(source / "uner-ewt/test.iob2", 1, 2)]
    for name, part in {"train": train, "dev": dev, "test": test}.items():
        print(f"{name}: {write(output / f'{name}.conll', part):,} sentences")


if __name__ == "__main__":
    main()
