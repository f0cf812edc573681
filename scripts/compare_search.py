"""Compare ways to find texts: words, averages of word vectors, ELMo, trained encoders, others'.

    python scripts/compare_search.py --sts STS-B --cranfield CRANFIELD --squad SQUAD \
        --glove glove-100d.txt --models relmo-en-small relmo-en-search --output experiments/search

Writes compared.json and prints a table: Spearman's correlation on STS-B's test part, nDCG@10 of the
odd half of Cranfield's queries, mean reciprocal rank among ten of the paragraphs that 400 questions
of SQuAD's development part were asked about, passages of SQuAD indexed in a second, milliseconds of
a query. Nothing was chosen on these parts; `--choose` scores those that choices are made on.

`--sentence-transformers FOLDER` adds a model of that library, where it is installed; its vectors
are compared exactly, outside an index.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from retrieval_scores import ndcg, read_cranfield, read_squad, reciprocal_rank, spearman

from relmo import SemanticIndex
from relmo.files import make_folder, write_json
from relmo.runtime.pooling import normalize
from relmo.search import Document
from relmo.search.index import Ranking
from relmo.search.models import open_model
from relmo.search.settings import IndexSettings
from relmo.tasks.encoder.data import read_text
from relmo.tasks.static_vectors import read_vectors
from relmo.types import Vectors

Encode = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True)
class Collection:
    """Documents, queries, and which documents each query should find."""

    name: str
    documents: list[tuple[str, str]]
    queries: list[str]
    relevant: list[set[str]]

    def score(self, ranking: Sequence[str], number: int) -> float:
        """nDCG@10 of many documents, or the reciprocal rank of the only one."""
        wanted = self.relevant[number]
        if len(wanted) > 1 or self.name == "cranfield":
            return ndcg(ranking, wanted)
        return reciprocal_rank(ranking, wanted)


def cranfield(folder: Path, half: int) -> Collection:
    """Every second query of the collection."""
    found = read_cranfield(folder)
    documents = [(name, text) for name, text in found.documents if text.strip()]
    return Collection("cranfield", documents, found.queries[half::2], found.relevant[half::2])


def squad(path: Path) -> Collection:
    """Paragraphs and questions, those of scripts/choose_pooling.py."""
    found = read_squad(path)
    documents = [(str(number), text) for number, text in enumerate(found.paragraphs)]
    relevant = [{str(number)} for number in found.sought]
    return Collection("squad", documents, found.questions, relevant)


def sts(path: Path, encode: Encode) -> float:
    """Spearman's correlation of cosines with human scores."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    first, second = (normalize(encode([row[column] for row in rows])) for column in (5, 6))
    return spearman((first * second).sum(1), [float(row[4]) for row in rows])


def glove(path: Path) -> Encode:
    """The mean of the word vectors of a file."""
    static = read_vectors(path, set(), 10**9)

    def encode(texts: Sequence[str]) -> Vectors:
        found = np.zeros((len(texts), static.table.shape[1]), np.float32)
        for row, text in zip(found, texts, strict=True):
            numbers = static.rows(word for words in read_text(text) for word in words)
            if (numbers := numbers[numbers > 1]).size:
                row[:] = static.table[numbers].mean(0)
        return found

    return encode


def by_vectors(encode: Encode, collections: Sequence[Collection]) -> dict[str, float]:
    """Scores, speed and latency of an encoder whose vectors are compared exactly."""
    found: dict[str, float] = {}
    for each in collections:
        begun = time.monotonic()
        passages = normalize(encode([text for _, text in each.documents]))
        found["passages_per_second"] = len(passages) / (time.monotonic() - begun)
        scores, times = [], []
        for number, query in enumerate(each.queries):
            begun = time.monotonic()
            order = np.argsort(-(passages @ normalize(encode([query]))[0]), kind="stable")[:10]
            times.append(time.monotonic() - begun)
            scores.append(each.score([each.documents[i][0] for i in order], number))
        found |= {each.name: statistics.fmean(scores), "ms": 1000 * statistics.median(times)}
    return found


def by_index(
    name: str, rankings: Sequence[Ranking], collections: Sequence[Collection]
) -> Iterator[tuple[Ranking, dict[str, float]]]:
    """Scores, speed and latency of indexes with a model, by ways to rank."""
    model = open_model(name)
    found: dict[Ranking, dict[str, float]] = {by: {} for by in rankings}
    for each in collections:
        documents = [Document(key, "all", text, is_row=True) for key, text in each.documents]
        with tempfile.TemporaryDirectory() as folder:
            begun, settings = time.monotonic(), IndexSettings(model=name)
            path = Path(folder) / "index"
            with SemanticIndex.build(path, documents, settings=settings, elmo=model) as index:
                speed = len(documents) / (time.monotonic() - begun)
                for by, row in found.items():
                    row |= {"passages_per_second": speed, **_queried(index, by, each)}
    yield from found.items()


def _queried(index: SemanticIndex, by: Ranking, collection: Collection) -> dict[str, float]:
    scores, times = [], []
    for number, query in enumerate(collection.queries):
        begun = time.monotonic()
        hits = index.search(query, 10, by=by, by_document=True, copies=True)
        times.append(time.monotonic() - begun)
        scores.append(collection.score([hit.document for hit in hits], number))
    return {collection.name: statistics.fmean(scores), "ms": 1000 * statistics.median(times)}


def systems(args: argparse.Namespace, part: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Each system's name and scores."""
    half = {"dev": 0, "test": 1}[part]
    asked = {"dev": "train", "test": "dev"}[part]  # of SQuAD, whose test part is not public
    collections = [
        cranfield(args.cranfield, half),
        squad(args.squad / f"{asked}-v1.1.json"),
    ]
    pairs = args.sts / f"sts-{part}.csv"
    if args.glove:
        encode = glove(args.glove)
        yield "average of GloVe", {"sts": sts(pairs, encode), **by_vectors(encode, collections)}
    for name in args.models:
        model = open_model(name)
        for by, row in by_index(name, ("words", "vectors", "hybrid"), collections):
            if by == "vectors":
                row["sts"] = sts(pairs, model.encode)
            if by != "words" or name == args.models[-1]:
                yield "BM25" if by == "words" else f"{name}, {by}", row
    if args.sentence_transformers:
        from sentence_transformers import SentenceTransformer

        other = SentenceTransformer(str(args.sentence_transformers), device="cpu")
        yield (
            args.sentence_transformers.name,
            {"sts": sts(pairs, other.encode), **by_vectors(other.encode, collections)},
        )


def main() -> None:
    """Parse the command line, score all systems, write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("sts", "cranfield", "squad"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--glove", type=Path)
    parser.add_argument("--models", nargs="*", default=["relmo-en-small", "relmo-en-search"])
    parser.add_argument("--sentence-transformers", type=Path)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    rows: dict[str, Any] = {}
    columns = ("sts", "cranfield", "squad", "passages_per_second", "ms")
    print(f"| | {' | '.join(columns)} |")
    for name, row in systems(args, "dev" if args.choose else "test"):
        rows[name] = {key: round(value, 4) for key, value in row.items()}
        print(f"| {name} | " + " | ".join(str(rows[name].get(key, "–")) for key in columns) + " |")
    if args.output:
        make_folder(args.output)
        write_json(
            args.output / "compared.json", {"part": "dev" if args.choose else "test", **rows}
        )


if __name__ == "__main__":
    main()
