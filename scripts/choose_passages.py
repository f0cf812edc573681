"""Choose how text is split into passages, and report the quality of the choice.

    python scripts/choose_passages.py --squad DIR --cranfield DIR --output experiments/search

Long documents: the articles of SQuAD, one document each, with the title first and blank lines
between paragraphs. A hit answers a question if it contains the answer in the paragraph that the
question is about; `read300` is the share of questions whose answer is within the first 300 words of
the hits. Short documents: those of Cranfield, one text file each (nDCG@10 of documents). The choice
is made on articles of SQuAD's training part and the even half of Cranfield's queries; SQuAD's
development part and the odd half are used for the report only. All queries go through a
`SemanticIndex`, as in `relmo search`.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from retrieval_scores import ndcg, read_cranfield

from relmo import Elmo
from relmo.files import make_folder, sha256
from relmo.search import Document, Hit, IndexSettings, SemanticIndex
from relmo.search.settings import PassageUnit
from relmo.training.run import write_record

WAYS: list[tuple[PassageUnit, int]] = [
    ("window", 512),
    ("window", 128),
    ("sentence", 512),
    ("paragraph", 512),
    ("paragraph", 128),
]
REPORTED: list[tuple[PassageUnit, int]] = [("window", 512), ("paragraph", 512)]
KINDS = ("vectors", "bm25", "hybrid")
DEPTH = 60
"""Hits that are examined."""


@dataclass(frozen=True)
class Question:
    """A question of SQuAD, the position of its paragraph, and its answers."""

    text: str
    article: str
    start: int
    end: int
    answers: tuple[str, ...]

    def words_before(self, hit: Hit) -> int | None:
        """Words of the hit up to the end of the answer; None if it does not contain it."""
        if hit.document != self.article:
            return None
        first = max(self.start - hit.start, 0)
        inside = hit.text[first : max(self.end - hit.start, 0)]
        places = [inside.find(answer) + len(answer) for answer in self.answers if answer in inside]
        return len(hit.text[: first + min(places)].split()) if places else None


def read_squad(path: Path, articles: int, questions: int) -> tuple[list[Document], list[Question]]:
    """Articles as documents, and questions about them; the same sample each time."""
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    lot = random.Random(0)
    documents, asked = [], []
    for article in lot.sample(data, min(articles, len(data))):
        name, text = article["title"], article["title"].replace("_", " ")
        for paragraph in article["paragraphs"]:
            start = len(text) + 2
            text += "\n\n" + paragraph["context"]
            for asks in paragraph["qas"]:
                answers = tuple(answer["text"] for answer in asks["answers"])
                asked.append(Question(asks["question"], name, start, len(text), answers))
        documents.append(Document(name, name, text))
    return documents, lot.sample(asked, min(questions, len(asked)))


def search(index: SemanticIndex, query: str, kind: str, *, by_document: bool = False) -> list[Hit]:
    """The hits of one kind of search."""
    if kind != "bm25":
        return index.search(query, DEPTH, by=kind, by_document=by_document, copies=True)
    return index.store.hits(index.store.matching(index.analyze(query), DEPTH))


def score_squad(index: SemanticIndex, questions: Sequence[Question], kind: str) -> dict[str, float]:
    """How early answers are found."""
    ranks, reads = [], []
    for question in questions:
        read, rank = 0, 0.0
        for place, hit in enumerate(search(index, question.text, kind), start=1):
            words = question.words_before(hit)
            if words is not None:
                rank, read = (1 / place if place <= 10 else 0.0), read + words
                break
            read += len(hit.text.split())
        else:
            read = 10**9
        ranks.append(rank)
        reads.append(read)
    scores = {
        "first": np.mean([rank == 1 for rank in ranks]),
        "mrr10": np.mean(ranks),
        "read300": np.mean([read <= 300 for read in reads]),
    }
    return {name: round(float(score), 4) for name, score in scores.items()}


class Cranfield:
    """Cranfield: documents as text files, queries and relevance judgments."""

    def __init__(self, folder: Path) -> None:
        found, self.queries, self.relevant = read_cranfield(folder)
        self.documents = [Document(number, number, text) for number, text in found if text.strip()]

    def score(self, index: SemanticIndex, half: int, kind: str) -> float:
        """Mean nDCG@10 of every second query."""
        scores = []
        for number in range(half, len(self.queries), 2):
            hits = search(index, self.queries[number], kind, by_document=True)
            best = list(dict.fromkeys(hit.document for hit in hits))[:10]
            scores.append(ndcg(best, self.relevant[number]))
        return round(float(np.mean(scores)), 4)


def measure(
    elmo: Elmo,
    way: tuple[PassageUnit, int],
    squad: tuple[list[Document], list[Question]],
    cranfield: Cranfield,
    half: int,
) -> dict[str, Any]:
    """Score one way to split on both collections."""
    settings = IndexSettings(passages=way[0], max_words=way[1])
    row: dict[str, Any] = {"passages": way[0], "max_words": way[1]}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "squad")
        with SemanticIndex.build(place, squad[0], settings=settings, elmo=elmo) as index:
            row["count"] = len(index)
            row["squad"] = {kind: score_squad(index, squad[1], kind) for kind in KINDS}
        place = Path(folder, "cranfield")
        with SemanticIndex.build(place, cranfield.documents, settings=settings, elmo=elmo) as index:
            row["cranfield"] = {kind: cranfield.score(index, half, kind) for kind in KINDS}
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Run the study and write its record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--squad", type=Path, required=True)
    parser.add_argument("--cranfield", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="relmo-en-small")
    parser.add_argument("--articles", type=int, default=40)
    parser.add_argument("--questions", type=int, default=400)
    args = parser.parse_args()
    begun = time.monotonic()
    elmo, cranfield = Elmo.from_pretrained(args.model), Cranfield(args.cranfield)
    files = [args.squad / f"{part}-v1.1.json" for part in ("train", "dev")]
    train, dev = (read_squad(path, args.articles, args.questions) for path in files)
    tried = [measure(elmo, way, train, cranfield, 0) for way in WAYS]
    report = [measure(elmo, way, dev, cranfield, 1) for way in REPORTED]
    make_folder(args.output)
    facts = {
        "task": "search passages",
        "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
        "data": {
            "files": {
                path.name: sha256(path) for path in [*files, *sorted(args.cranfield.glob("cran*"))]
            },
            "articles": args.articles,
            "questions": args.questions,
        },
        "seconds": round(time.monotonic() - begun),
        "results": report,
        "dev": tried,
    }
    write_record(args.output / "passages.json", facts)


if __name__ == "__main__":
    main()
