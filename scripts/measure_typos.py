"""Measure search with typing errors in the query: `relmo/search/spelling.py`.

    python scripts/measure_typos.py --cranfield DIR --squad DIR --output experiments/search

Every word of a query with four letters or more gets one wrong letter: substituted, deleted, or
swapped with its neighbor. Queries with and without errors are searched for as they are and
corrected. Choices were made on the even half of Cranfield's queries (nDCG@10) and on SQuAD's
training part (reciprocal rank among the first ten; 40 articles, 400 questions); `--held-out`
reports the odd half and SQuAD's development part.
"""

from __future__ import annotations

import argparse
import random
import re
import string
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from retrieval_scores import ndcg, read_cranfield, read_squad, reciprocal_rank

from relmo.files import make_folder, sha256
from relmo.search import Document, SemanticIndex
from relmo.search.models import open_model
from relmo.training.run import write_record

MIN_LETTERS = 4
WAYS = ("BM25", "vectors", "hybrid")
_WORD = re.compile(rf"[^\W\d_]{{{MIN_LETTERS},}}")


class Queries(NamedTuple):
    """An index's documents, the queries, and the keys of the documents they should find."""

    documents: list[Document]
    texts: list[str]
    relevant: list[set[str]]
    score: Callable[[Sequence[str], set[str]], float]


def mistype(word: str, lot: random.Random) -> str:
    """The word with one letter substituted, deleted, or swapped with another one beside it."""
    kind = lot.choice(("substitution", "deletion", "swap"))
    uneven = [i for i in range(len(word) - 1) if word[i] != word[i + 1]]
    if kind == "swap" and uneven:
        i = lot.choice(uneven)
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    i = lot.randrange(len(word))
    others = [each for each in string.ascii_lowercase if each != word[i].lower()]
    return word[:i] + ("" if kind == "deletion" else lot.choice(others)) + word[i + 1 :]


def with_typos(texts: Sequence[str], seed: int) -> list[str]:
    """The texts with an error in each word of MIN_LETTERS or more."""
    lot = random.Random(seed)
    return [_WORD.sub(lambda match: mistype(match[0], lot), text) for text in texts]


def cranfield(folder: Path, half: int) -> Queries:
    """Every second query of Cranfield."""
    found, texts, relevant = read_cranfield(folder)
    documents = [Document(number, number, text, is_row=True) for number, text in found]
    texts = [" ".join(text.split()) for text in texts]
    return Queries(documents, texts[half::2], relevant[half::2], ndcg)


def squad(path: Path) -> Queries:
    """Paragraphs of SQuAD and questions about them."""
    found = read_squad(path)
    texts = enumerate(found.paragraphs)
    documents = [Document(str(number), "squad", text, is_row=True) for number, text in texts]
    relevant = [{str(number)} for number in found.sought]
    return Queries(documents, found.questions, relevant, reciprocal_rank)


def find(index: SemanticIndex, query: str, way: str, correct: bool) -> list[str]:
    """The keys of the ten best documents."""
    if way != "BM25":
        hits = index.search(query, hybrid=way == "hybrid", correct=correct)
    else:
        terms = index.correct(query).terms if correct else index.analyze(query)
        hits = index.store.hits(index.store.matching(terms, 10))
    return [hit.document for hit in hits]


def measure(index: SemanticIndex, queries: Queries, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each way to search: right queries, wrong ones, and both corrected."""
    wrong = [with_typos(queries.texts, seed) for seed in seeds]
    rows = []
    for way in WAYS:
        row: dict[str, Any] = {"way": way}
        for corrected in (False, True):
            for name, parts in (("right", [queries.texts]), ("wrong", wrong)):
                scores = [
                    queries.score(find(index, text, way, corrected), relevant)
                    for texts in parts
                    for text, relevant in zip(texts, queries.relevant, strict=True)
                ]
                key = f"{name}_corrected" if corrected else name
                row[key] = round(float(np.mean(scores)), 4)
        row["kept"] = round(row["wrong"] / row["right"], 3) if row["right"] else None
        row["kept_corrected"] = (
            round(row["wrong_corrected"] / row["right"], 3) if row["right"] else None
        )
        print(row, flush=True)
        rows.append(row)
    return rows


def milliseconds(index: SemanticIndex, texts: Sequence[str]) -> float:
    """Median processor time of a correction, without the first, which reads the index's terms."""
    taken = []
    for text in texts:
        begun = time.process_time()
        index.correct(text)
        taken.append(1000 * (time.process_time() - begun))
    return round(float(np.median(taken[1:])), 2)


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cranfield", type=Path, required=True)
    parser.add_argument("--squad", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="relmo-en-search")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--held-out", action="store_true", help="Report what nothing was chosen on")
    args = parser.parse_args()
    model = open_model(args.model)
    path = args.squad / f"{'dev' if args.held_out else 'train'}-v1.1.json"
    data = {"cranfield": cranfield(args.cranfield, int(args.held_out)), "squad": squad(path)}
    results = {}
    for name, queries in data.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            SemanticIndex.build(Path(folder, "index"), queries.documents, elmo=model) as index,
        ):
            results[name] = {
                "rows": measure(index, queries, args.seeds),
                "queries": len(queries.texts),
                "passages": len(index),
                "correction_ms": milliseconds(index, with_typos(queries.texts, args.seeds[0])),
            }
    make_folder(args.output)
    files = [*sorted(args.cranfield.glob("cran*")), path]
    facts = {
        "task": "typing errors",
        "model": {"name": args.model, "fingerprint": model.fingerprint()},
        "data": {"files": {each.name: sha256(each) for each in files}},
        "part": "held out" if args.held_out else "development",
        "seeds": args.seeds,
        "results": results,
    }
    write_record(args.output / f"typos_{'held_out' if args.held_out else 'dev'}.json", facts)


if __name__ == "__main__":
    main()
