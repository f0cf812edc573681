"""Measure small indexes with and without random texts as a prior (`relmo/search/encoder.py`).

    python scripts/measure_small_indexes.py --squad DIR --output experiments/search

Each article of SQuAD becomes an index with one row per paragraph, and each question should find
its paragraph, by vectors only. The size of the prior was chosen on 24 articles of the training
part; the report is on the development part.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

import numpy as np

from relmo import Elmo
from relmo.files import make_folder, sha256
from relmo.search import Document, SemanticIndex, encoder
from relmo.training.run import write_record

SIZES = (8, 16, 32)
QUESTIONS = 25
PRIOR_BELOW = encoder.PRIOR_BELOW


def ranks(elmo: Elmo, paragraphs: list[dict], lot: random.Random) -> list[float]:
    """Reciprocal rank of the right paragraph, for questions about one article."""
    documents = [
        Document(str(number), "article", each["context"], is_row=True)
        for number, each in enumerate(paragraphs)
    ]
    asked = [(q["question"], str(n)) for n, each in enumerate(paragraphs) for q in each["qas"]]
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        SemanticIndex.build(Path(folder, "index"), documents, elmo=elmo) as index,
    ):
        for question, wanted in lot.sample(asked, min(QUESTIONS, len(asked))):
            hits = index.search(question, len(index), by="vectors", by_document=True, copies=True)
            found.append(1 / (1 + [hit.document for hit in hits].index(wanted)))
    return found


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--squad", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="relmo-en-small")
    parser.add_argument("--articles", type=int, default=20)
    args = parser.parse_args()
    elmo = Elmo.from_pretrained(args.model)
    path = args.squad / "dev-v1.1.json"
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    articles = random.Random(0).sample(data, min(args.articles, len(data)))
    rows = []
    for size in SIZES:
        row: dict[str, float] = {"paragraphs": size}
        for name, below in (("without", 0), ("with", PRIOR_BELOW)):
            encoder.PRIOR_BELOW = below
            lot = random.Random(1)
            each = [r for a in articles for r in ranks(elmo, a["paragraphs"][:size], lot)]
            row[f"mrr_{name}"] = round(float(np.mean(each)), 4)
            row[f"first_{name}"] = round(float(np.mean(np.array(each) == 1)), 4)
        row["questions"] = len(each)
        print(row, flush=True)
        rows.append(row)
    make_folder(args.output)
    facts = {
        "task": "small indexes",
        "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
        "data": {"files": {path.name: sha256(path)}, "articles": len(articles)},
        "results": rows,
    }
    write_record(args.output / "small.json", facts)


if __name__ == "__main__":
    main()
