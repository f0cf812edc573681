"""Pairs of a query and the text that it should find, from open text: data of relmo-en-search.

    python scripts/search_pairs.py --squad train-v1.1.json --entailment snli-train.jsonl \
        --encyclopedia en-wikipedia-*.txt.xz --news en-wikinews.txt.xz --output search-pairs

Writes train, dev and test.jsonl with query, positive and kind:

    question   a question of SQuAD and its paragraph (of all articles but the 40 by which
               scripts/choose_pooling.py chooses; a part of those questions is the dev part)
    title      an article's title and its first paragraph; `news`: a headline and the first one
    section    title and heading of a section, and a paragraph of it
    next       a paragraph and the one after it; `newsnext`: those of news
    sentence   a sentence and the rest of its paragraph
    span       three to eight words in a row, and the paragraph they are from, or the rest of it
    entailed   two sentences of which the second follows from the first

Of each hundred articles two are held out, by a checksum: one for the dev and one for the test part.
"""

from __future__ import annotations

import argparse
import json
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from relmo.files import make_folder, replacing
from relmo.text.documents import read_documents
from relmo.text.sentences import split_sentences

MAX_WORDS = 110
"""Words of a text; what is longer is cut."""
MIN_WORDS = 25
"""Words of a paragraph, so that there is something to find in it."""
HEADING = 8
"""Words that a title or a heading has at most."""
ASKED = 1000
"""Questions of the articles that are held out."""
SAMPLE = 40
"""Articles of SQuAD that scripts/choose_pooling.py chooses by."""


class Pair(NamedTuple):
    """A query, the text that it should find, and where both come from."""

    kind: str
    query: str
    positive: str


def questions(path: Path) -> tuple[list[Pair], list[Pair]]:
    """Questions and their paragraphs, to train on and of the articles held out."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    held_out = random.Random(0).sample(range(len(articles)), min(SAMPLE, len(articles) // 2))
    kept, others = list[Pair](), list[Pair]()
    for number, article in enumerate(articles):
        for part in article["paragraphs"]:
            text = cut(part["context"])
            found = [Pair("question", asked["question"].strip(), text) for asked in part["qas"]]
            (others if number in set(held_out) else kept).extend(found)
    return kept, random.Random(1).sample(others, min(ASKED, len(others)))


def entailed(path: Path) -> Iterator[Pair]:
    """Sentences of which the second follows from the first."""
    with path.open(encoding="utf-8") as lines:  # str.splitlines would end one at any U+2028
        for row in map(json.loads, lines):
            if row["gold_label"] == "entailment":
                yield Pair("entailed", row["sentence1"], row["sentence2"])


def of_article(lines: Sequence[str], lot: random.Random) -> Iterator[Pair]:
    """Pairs of an encyclopedia's article."""
    title = lines[0] if is_heading(lines[0]) else ""
    paragraphs, heading = list[tuple[str, str]](), ""
    for line in lines[1:] if title else lines:
        if is_heading(line):
            heading = line.rstrip(". ")
        elif len(line.split()) >= MIN_WORDS:
            paragraphs.append((heading, line))
    if not paragraphs:
        return
    if title:
        yield Pair("title", title, cut(paragraphs[0][1]))
    if len(paragraphs) > 1:
        number = lot.randrange(1, len(paragraphs))
        heading, text = paragraphs[number]
        if title and heading:
            both = f"{title} {heading}" if lot.random() < 0.7 else f"{heading} of {title}"
            yield Pair("section", both, cut(text))
        if number + 1 < len(paragraphs) and lot.random() < 0.5:
            yield Pair("next", cut(text, 60), cut(paragraphs[number + 1][1]))
    yield from of_paragraph(title, lot.choice(paragraphs)[1], lot)


def of_paragraph(title: str, text: str, lot: random.Random) -> Iterator[Pair]:
    """A sentence and a span of a paragraph, each with the paragraph or the rest of it."""
    text = cut(text, 160)
    sentences = [text[first:last] for first, last in split_sentences(text)]
    if len(sentences) < 3:
        return
    number = lot.randrange(len(sentences))
    rest = " ".join(sentences[:number] + sentences[number + 1 :])
    yield Pair("sentence", sentences[number], cut(rest if lot.random() < 0.8 else text))
    words = lot.choice(sentences).split()
    if len(words) >= 10:
        size = lot.randint(3, 8)
        first = lot.randrange(len(words) - size + 1)
        span = " ".join(words[first : first + size])
        where = text if lot.random() < 0.5 else text.replace(span, "", 1)
        before = f"{title}. " if title and lot.random() < 0.3 else ""
        yield Pair("span", span, cut(before + where))


def of_news(lines: Sequence[str]) -> Iterator[Pair]:
    """Pairs of a news article."""
    body = [line for line in lines[1:] if len(line.split()) >= MIN_WORDS // 2]
    if body and is_heading(lines[0], most=16):
        yield Pair("news", lines[0], cut(body[0]))
    if len(body) > 1:
        yield Pair("newsnext", cut(body[0], 50), cut(body[1]))


def is_heading(line: str, most: int = HEADING) -> bool:
    """Whether a line is a title or a heading, as far as its length tells."""
    return len(line.split()) <= most and not line.startswith(("!", "<", "|", "*"))


def cut(text: str, most: int = MAX_WORDS) -> str:
    """The first words of a text."""
    words = text.split()
    return " ".join(words[:most])


def part_of(lines: Iterable[str]) -> str:
    """The part that a document is of: dev and test have one of a hundred each."""
    number = zlib.crc32("\n".join(lines).encode()) % 100
    return {0: "dev", 1: "test"}.get(number, "train")


def main() -> None:
    """Parse the command line and write the pairs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--squad", type=Path, required=True)
    parser.add_argument("--entailment", type=Path, required=True)
    parser.add_argument("--encyclopedia", type=Path, nargs="+", required=True)
    parser.add_argument("--news", type=Path, nargs="+", required=True)
    parser.add_argument("--articles", type=int, default=20_000, help="of each encyclopedia file")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    make_folder(args.output)
    counts: Counter[tuple[str, str]] = Counter()
    with ExitStack() as stack:
        files = {}
        for part in ("train", "dev", "test"):
            place = stack.enter_context(replacing(args.output / f"{part}.jsonl"))
            files[part] = stack.enter_context(place.open("w", encoding="utf-8"))

        def write(part: str, pairs: Iterable[Pair]) -> None:
            for pair in pairs:
                files[part].write(json.dumps(pair._asdict(), ensure_ascii=False) + "\n")
                counts[part, pair.kind] += 1

        kept, others = questions(args.squad)
        write("train", kept)
        write("dev", others)
        write("train", entailed(args.entailment))
        lot = random.Random(2)
        for path in args.encyclopedia:
            for _, lines in zip(range(args.articles), read_documents(path), strict=False):
                write(part_of(lines), of_article(lines, lot))
        for path in args.news:
            for lines in read_documents(path):
                write(part_of(lines), of_news(lines))
    for (part, kind), count in sorted(counts.items()):
        print(f"{part:5} {kind:10} {count:8,}")


if __name__ == "__main__":
    main()
