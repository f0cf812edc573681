"""Names and their kinds from the beginnings of encyclopedia articles, as columns of word vectors.

    python scripts/typed_titles.py en-wikipedia-*.txt.xz --output titles.json \
        --vectors glove-100d.txt --first 20000 --more 15000 --vectors-to names-112d.txt

In the text, a blank line ends an article, its first line is the title and its second begins with
what it is about: "Port Moresby is the capital of Papua New Guinea." The last known noun of
that phrase says the kind: a capital is a place. An article with a year of birth is about a person.

titles.json has the kind of each title, and how often each word is the first and the last name of a
person; scripts/silver_names.py takes it. `--vectors-to` gets the `--first` frequent words of a file
of vectors and the `--more` words most frequent in titles, with twelve more columns: for each kind
PER, LOC, ORG, MISC, how often the word is first, inside and last in titles (0.3 log (1 + n)).
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from relmo.files import write_json
from relmo.tasks.data_files import numbered_lines
from relmo.text.documents import read_documents

KINDS = {
    "PER": (
        "actor actress politician player footballer singer writer author poet painter lawyer judge"
        " scientist physicist chemist mathematician historian journalist musician composer director"
        " producer bishop priest king queen emperor general officer soldier swimmer boxer wrestler"
        " golfer runner skier cyclist driver coach manager economist philosopher architect engineer"
        " businessman businesswoman artist sculptor comedian dancer model astronaut biologist"
        " professor prince princess duke earl baron saint theologian activist novelist screenwriter"
        " guitarist drummer rapper songwriter pianist violinist conductor diplomat minister"
        " president senator governor mayor pitcher outfielder quarterback linebacker cricketer"
        " athlete entrepreneur photographer designer chef personality presenter broadcaster"
        " translator critic scholar linguist psychologist botanist zoologist explorer pilot sailor"
        " fighter monk missionary rabbi pope"
    ),
    "ORG": (
        "company corporation university college school organization organisation club team band"
        " group association party agency institute institution foundation society union league"
        " airline bank newspaper publisher label network broadcaster station channel firm"
        " manufacturer brand retailer chain franchise hospital library ministry regiment battalion"
        " division squadron orchestra choir council committee federation charity academy seminary"
        " conglomerate studio government bureau troupe provider developer startup subsidiary"
    ),
    "LOC": (
        "city town village municipality county district province state country region river lake"
        " mountain island islands peninsula bay sea ocean valley hill hills park suburb"
        " neighborhood neighbourhood commune parish capital township hamlet settlement community"
        " locality borough creek stream glacier desert forest canal harbour harbor street road"
        " highway avenue square beach reservoir dam bridge station airport stadium castle church"
        " cathedral temple mosque monastery building tower house palace museum cemetery ward"
        " subdivision cape strait gulf volcano range peak pass waterfall area place comune"
        " department oblast raion voivodeship arena"
    ),
    "MISC": (
        "film album song novel book series game magazine award language event war battle"
        " competition tournament championship festival single episode ship submarine aircraft car"
        " play opera religion ethnic treaty program software website satellite"
    ),
}
"""Nouns of each kind; where two kinds have a noun, such as station, the first counts."""
ORDER = ("PER", "LOC", "ORG", "MISC")
KIND_OF = {noun: kind for kind in reversed(KINDS) for noun in KINDS[kind].split()}
MAX_WORDS = 6
"""Longer titles are lists and headlines."""
_BORN = re.compile(r"\((?:born|[^)]{0,60}\b(?:1\d{3}|20[01]\d))[^)]{0,80}[–-]|\(born ")
_IS = re.compile(r"\b(?:is|was|are|were|refers to)\b(?: (?:a|an|the|one of the|any of))?(.{0,140})")
_END = re.compile(
    r"\b(?:of|in|at|from|that|which|who|for|on|located|by|with|based|known|situated)\b|[,.;]"
)


def kind_of(text: str) -> str | None:
    """The kind of thing that an article is about, by how it begins; None if that is not clear."""
    if _BORN.search(text[:260]):
        return "PER"
    found = _IS.search(text)
    if found is None:
        return None
    words = re.findall("[a-z]+", _END.split(found[1])[0].lower())
    kinds = (KIND_OF.get(word) or KIND_OF.get(word.removesuffix("s")) for word in reversed(words))
    return next(filter(None, kinds), None)


def typed_titles(paths: Iterable[Path]) -> dict[str, dict[str, int] | dict[str, str]]:
    """Titles and their kinds, and first and last names of persons with their counts."""
    kinds: dict[str, Counter[str]] = {}
    first, last = Counter[str](), Counter[str]()
    for path in paths:
        for full, text, *_ in (each for each in read_documents(path) if len(each) > 1):
            kind, title = kind_of(text), re.sub(r" \(.*\)$", "", full)
            if kind is None:
                continue
            if kind == "PER" and len(words := title.split()) > 1:
                first[words[0]] += 1
                last[words[-1]] += 1
            title = title.split(",")[0] if kind == "LOC" else title  # Paris, Texas
            kinds.setdefault(title, Counter())[kind] += 1
    best = {title: found.most_common(1)[0][0] for title, found in kinds.items()}
    titles = {title: kind for title, kind in best.items() if len(title) > 2 and title[0].isupper()}
    return {"titles": titles, "first": dict(first), "last": dict(last)}


def columns_of(titles: dict[str, str]) -> dict[str, np.ndarray]:
    """How often each word, in lower case, is first, inside and last in titles of each kind."""
    found: dict[str, np.ndarray] = {}
    for title, kind in titles.items():
        words = title.lower().split()
        if len(words) > MAX_WORDS:
            continue
        for place, word in enumerate(words):
            counts = found.setdefault(word, np.zeros(3 * len(ORDER)))
            at = 3 * ORDER.index(kind)
            if len(words) == 1:
                counts[[at, at + 2]] += 1
            else:
                counts[at + (0 if place == 0 else 2 if place == len(words) - 1 else 1)] += 1
    return found


def write_vectors(titles: dict[str, str], source: Path, first: int, more: int, to: Path) -> None:
    """Write the frequent words of a file of vectors, and those of titles, with their columns."""
    columns, vectors = columns_of(titles), dict[str, str]()
    for _, line in numbered_lines(source):
        word, _, values = line.partition(" ")
        vectors[word] = values
    frequent = list(vectors)[:first]
    have = set(frequent)
    others = sorted((w for w in columns if w not in have), key=lambda w: -columns[w].sum())[:more]
    none = " ".join("0" * len(next(iter(vectors.values())).split()))
    with to.open("w", encoding="utf-8") as file:
        for word in (*frequent, *others):
            own = 0.3 * np.log1p(columns.get(word, np.zeros(3 * len(ORDER))))
            extra = " ".join(f"{x:.3f}" if x else "0" for x in own)
            file.write(f"{word} {vectors.get(word, none)} {extra}\n")


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("texts", type=Path, nargs="+", help="articles, packed or not")
    parser.add_argument("--output", type=Path, required=True, help="titles.json")
    parser.add_argument("--vectors", type=Path, help="static word vectors")
    parser.add_argument("--first", type=int, default=20_000, help="their frequent words")
    parser.add_argument("--more", type=int, default=15_000, help="words of titles")
    parser.add_argument("--vectors-to", type=Path, help="vectors with twelve more columns")
    given = parser.parse_args(arguments)
    found = typed_titles(given.texts)
    write_json(given.output, found)
    print(f"{len(found['titles']):,} titles: {dict(Counter(found['titles'].values()))}")
    if given.vectors_to is not None:
        write_vectors(found["titles"], given.vectors, given.first, given.more, given.vectors_to)


if __name__ == "__main__":
    main()
