"""Choose how search turns text into vectors, and report the quality of the choice.

    python scripts/choose_pooling.py --sts DIR --cranfield DIR --squad DIR --output DIR

Every text is embedded once, with all layers. Then every combination of layer, word weights and
isotropy is scored on STS-B dev (Spearman correlation of cosines) and on the even half of the
Cranfield queries (nDCG@10; a document scores as its best passage), and the combination with the
highest sum is chosen. Fitting uses text only: the sentences of the training part for STS-B, the
documents for Cranfield. STS-B test and the odd half of the queries are used for the report only.

How BM25 and vectors are combined is chosen on the same even half, where many documents are
relevant, and on questions about paragraphs in 40 articles of SQuAD's training part, where one is
(mean reciprocal rank among the first ten). SQuAD's development part is used for the report.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
from retrieval_scores import ndcg, read_cranfield, read_squad, spearman

from relmo import Elmo
from relmo.files import make_folder, sha256
from relmo.search.documents import Document, split_passages
from relmo.search.encoder import IsotropyTransform, WordWeights
from relmo.search.lexical import Fusion, bm25, make_analyzer
from relmo.search.settings import IndexSettings, IsotropyMethod
from relmo.training.run import write_record
from relmo.types import Vectors

LAYERS = {
    "0": (1, 0, 0),
    "1": (0, 1, 0),
    "2": (0, 0, 1),
    "lower": (2 / 3, 1 / 3, 0),
    "0 and 1": (1 / 2, 1 / 2, 0),
    "mean": (1 / 3, 1 / 3, 1 / 3),
}
"""The weight of each layer; `0 and 1` is "bottom" in `IndexSettings`."""
REMOVE = (3, 8, 12, 24)
WEIGHTS = [
    ("none", 0.0),
    *(("vocabulary", at) for at in (1e-3, 1e-4, 3e-5, 1e-5)),
    *(("corpus", at) for at in (1e-3, 1e-4)),
]
RAW = ("mean", "none", 0.0, "none", 0)
FUSIONS = {
    "first": (5, 10), "feedback": (2.0,), "trust": (0.0, 2.0), "share": (0.5, 1.5, 2.5),
    "sharpness": (1.0, 2.0, 3.0),
}  # fmt: skip


class Texts:
    """Texts with the vectors of their tokens in all layers."""

    def __init__(self, elmo: Elmo, texts: list[str]) -> None:
        parts = [elmo.sentences([text]) for text in texts]
        self.sentences = [sentence for text in parts for sentence in text]
        self.words = [word for sentence in self.sentences for word in sentence]
        self.owner = np.repeat(np.arange(len(texts)), [sum(map(len, text)) for text in parts])
        stream = elmo.embed_stream(self.sentences, dtype="float16")
        self.vectors = np.concatenate(list(stream), axis=1)  # (L + 1, N, D) float16
        self.size = len(texts)

    def pooled(self, weights: WordWeights) -> Vectors:
        """Weighted means, (L + 1, texts, D)."""
        each = weights.of(self.words)  # (N,)
        starts = np.flatnonzero(np.diff(self.owner, prepend=-1))
        at = self.owner[starts]
        total = np.zeros((len(self.vectors), self.size, self.vectors.shape[2]), np.float32)
        for layer, vectors in zip(total, self.vectors, strict=True):
            layer[at] = np.add.reduceat(vectors.astype(np.float32) * each[:, None], starts, axis=0)
            layer[at] /= np.add.reduceat(each, starts)[:, None]
        return total


class Sts:
    """STS-B: human similarity scores, and training sentences to fit to."""

    def __init__(self, elmo: Elmo, folder: Path) -> None:
        self.gold, self.texts = {}, {}
        for part in ("train", "dev", "test"):
            lines = (folder / f"sts-{part}.csv").read_text(encoding="utf-8").splitlines()
            rows = [line.split("\t") for line in lines]
            self.gold[part] = [float(row[4]) for row in rows]
            self.texts[part] = Texts(elmo, [row[column] for column in (5, 6) for row in rows])

    def score(self, part: str, vectors: Vectors) -> float:
        """Spearman correlation of the cosines of pairs with human scores."""
        first, second = np.split(vectors, 2)
        return spearman((first * second).sum(1), self.gold[part])


class Cranfield:
    """Cranfield: documents split into passages as in an index, queries, relevance judgments."""

    def __init__(self, elmo: Elmo, folder: Path, settings: IndexSettings) -> None:
        found, self.queries, self.relevant = read_cranfield(folder)
        documents = [Document(number, number, text, is_row=True) for number, text in found]
        cut = [split_passages(each, settings.passages, settings.max_words) for each in documents]
        self.names = [each.key for each in documents]
        self.owner = np.repeat(np.arange(len(cut)), [len(passages) for passages in cut])
        passages = [passage.text for passages in cut for passage in passages]
        self.whole = bm25_of(
            self.queries, [text for _, text in found], make_analyzer(settings.language)
        )
        self.passages, self.asked = Texts(elmo, passages), Texts(elmo, self.queries)
        self.words = bm25_of(self.queries, passages, make_analyzer(settings.language))

    def score(self, scores: Vectors, half: int) -> float:
        """Mean nDCG@10 of every second query; scores (queries, passages)."""
        best = scores
        if scores.shape[1] != len(self.names):
            best = np.full((len(scores), len(self.names)), -np.inf, np.float32)
            np.maximum.at(best.T, self.owner, scores.T)
        order = np.argsort(-best, axis=1, kind="stable")[:, :10]
        chosen = range(half, len(scores), 2)
        ranks = [[self.names[i] for i in order[q]] for q in chosen]
        pairs = zip(ranks, chosen, strict=True)
        return float(np.mean([ndcg(rank, self.relevant[q]) for rank, q in pairs]))


class Squad:
    """Paragraphs of SQuAD's articles, and questions about them."""

    def __init__(self, elmo: Elmo, path: Path) -> None:
        passages, queries, sought = read_squad(path)
        self.sought = np.array(sought)  # (questions,)
        self.words = bm25_of(queries, passages, make_analyzer(IndexSettings().language))
        self.passages, self.asked = Texts(elmo, passages), Texts(elmo, queries)

    def score(self, scores: Vectors) -> float:
        """Mean reciprocal rank of the right paragraph; scores (questions, paragraphs)."""
        order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        found = order == self.sought[:, None]  # (questions, 10)
        return float((found / np.arange(1, order.shape[1] + 1)).sum(1).mean())


def bm25_of(queries: list[str], passages: list[str], terms: Callable[[str], list[str]]) -> Vectors:
    """BM25 of all passages for all queries, (queries, passages)."""
    held: dict[str, dict[int, int]] = {}
    lengths = np.zeros(len(passages))
    for number, text in enumerate(passages):
        for term in terms(text):
            lengths[number] += 1
            counts = held.setdefault(term, {})
            counts[number] = counts.get(number, 0) + 1
    scores = np.zeros((len(queries), len(passages)), np.float32)
    for row, query in zip(scores, queries, strict=True):
        for term in terms(query):
            counts = held.get(term, {})
            at = np.array(list(counts), dtype=np.intp)
            often = np.array(list(counts.values()), dtype=np.float64)
            row[at] += bm25(often, lengths[at], lengths.mean(), len(passages))
    return scores


def join(fusion: Fusion, words: Vectors, queries: Vectors, passages: Vectors) -> Vectors:
    """Hybrid scores of all passages, (queries, passages)."""
    rows = []
    for query, held in zip(queries, words, strict=True):
        first = np.argsort(-held, kind="stable")[: fusion.first]
        first = first[held[first] > 0]
        if len(first):
            moved = fusion.refine(query, held[first], passages[first])
            rows.append(fusion.combine(held, passages @ moved))
        else:
            rows.append(passages @ query)
    return np.stack(rows)


class Study:
    """Scores all combinations, on texts that are embedded once."""

    def __init__(self, elmo: Elmo, sts: Sts, cranfield: Cranfield, squad: dict[str, Squad]) -> None:
        self.elmo, self.sts, self.cranfield, self.squad = elmo, sts, cranfield, squad

    def pooled(self, kind: str, at: float) -> dict[str, Vectors]:
        """All texts pooled with one kind of weights, (L + 1, N, D) each."""
        texts = {**self.sts.texts, "passages": self.cranfield.passages}
        texts["queries"] = self.cranfield.asked
        source = {"passages": "passages", "queries": "passages"}
        return {
            name: each.pooled(self._weights(kind, at, texts[source.get(name, "train")]))
            for name, each in texts.items()
        }

    def _weights(self, kind: str, at: float, corpus: Texts) -> WordWeights:
        if kind == "none":
            return WordWeights()
        if kind == "corpus":
            return WordWeights.from_sentences(corpus.sentences, at)
        assert self.elmo.lexicon is not None
        return WordWeights.from_lexicon(self.elmo.lexicon, at)

    def scores(
        self, pooled: dict[str, Vectors], layer: str, fix: IsotropyMethod, remove: int, part: str
    ) -> dict[str, float]:
        """STS-B, Cranfield by vectors alone, and hybrid; `part` is dev or test."""
        flat = _flat(pooled, layer)
        half = ("dev", "test").index(part)
        fitted = IsotropyTransform.fit(flat["train"], fix, remove)
        sts = self.sts.score(part, fitted.apply(flat[part]))
        fitted = IsotropyTransform.fit(flat["passages"], fix, remove)
        queries, passages = fitted.apply(flat["queries"]), fitted.apply(flat["passages"])
        vector = self.cranfield.score(queries @ passages.T, half)
        joined = join(Fusion(), self.cranfield.words, queries, passages)
        hybrid = self.cranfield.score(joined, half)
        return {"sts": round(sts, 4), "cranfield": round(vector, 4), "hybrid": round(hybrid, 4)}

    def grid(self) -> list[dict[str, Any]]:
        """Every combination on the development parts."""
        fixes: list[tuple[IsotropyMethod, int]] = [("none", 0), ("mean", 0), ("whiten", 0)]
        fixes += [("directions", count) for count in REMOVE]
        assert {fix for fix, _ in fixes} == set(get_args(IsotropyMethod))
        rows = []
        for kind, at in WEIGHTS:
            pooled = self.pooled(kind, at)
            for layer, (fix, remove) in itertools.product(LAYERS, fixes):
                scores = self.scores(pooled, layer, fix, remove, "dev")
                how = {"layer": layer, "weighting": kind, "weight_at": at}
                rows.append({**how, "isotropy": fix, "remove": remove, **scores})
            print(f"{kind} {at}: best {max(row['sts'] + row['cranfield'] for row in rows):.4f}")
        return sorted(rows, key=lambda row: -(row["sts"] + row["cranfield"]))

    def fusions(self, best: dict[str, Any]) -> list[dict[str, float]]:
        """Ways to combine BM25 and vectors, on the development parts, the best sum first."""
        flat = _flat(self.pooled(best["weighting"], best["weight_at"]), best["layer"])
        fitted = IsotropyTransform.fit(flat["passages"], best["isotropy"], best["remove"])
        queries, passages = fitted.apply(flat["queries"]), fitted.apply(flat["passages"])
        train = self.squad["train"]
        asked, paragraphs = self.squad_vectors("train", best)
        rows = []
        for values in itertools.product(*FUSIONS.values()):
            settings = dict(zip(FUSIONS, values, strict=True))
            fusion = Fusion(**settings)
            many = self.cranfield.score(join(fusion, self.cranfield.words, queries, passages), 0)
            one = train.score(join(fusion, train.words, asked, paragraphs))
            rows.append({**settings, "cranfield": round(many, 4), "squad": round(one, 4)})
        return sorted(rows, key=lambda row: -(row["cranfield"] + row["squad"]))

    def squad_vectors(self, part: str, best: dict[str, Any]) -> tuple[Vectors, Vectors]:
        """Vectors of the questions and paragraphs of a part, with the chosen settings."""
        texts = self.squad[part]
        weights = self._weights(best["weighting"], best["weight_at"], texts.passages)
        flat = {"asked": texts.asked.pooled(weights), "paragraphs": texts.passages.pooled(weights)}
        flat = _flat(flat, best["layer"])
        fitted = IsotropyTransform.fit(flat["paragraphs"], best["isotropy"], best["remove"])
        return fitted.apply(flat["asked"]), fitted.apply(flat["paragraphs"])

    def squad_rows(self, best: dict[str, Any]) -> Iterator[tuple[str, float]]:
        """Scores on the questions of the development part."""
        dev = self.squad["dev"]
        asked, paragraphs = self.squad_vectors("dev", best)
        yield "ELMo, chosen", dev.score(asked @ paragraphs.T)
        yield "BM25", dev.score(dev.words)
        yield "hybrid", dev.score(join(Fusion(), dev.words, asked, paragraphs))

    def report(self, best: dict[str, Any]) -> dict[str, dict[str, float]]:
        """The rows of the table, on the parts that were not used for the choice."""
        keys = ("layer", "weighting", "weight_at", "isotropy", "remove")
        rows = {
            "static average (layer 0)": ("0", *RAW[1:]),
            "ELMo raw mean": RAW,
            "ELMo, chosen": tuple(best[key] for key in keys),
        }
        table: dict[str, dict[str, float]] = {}
        for name, (layer, kind, at, fix, remove) in rows.items():
            table[name] = self.scores(self.pooled(kind, at), layer, fix, remove, "test")
            hybrid = table[name].pop("hybrid")
        table["BM25"] = {"cranfield": round(self.cranfield.score(self.cranfield.words, 1), 4)}
        whole = self.cranfield.score(self.cranfield.whole, 1)
        table["BM25 over whole documents"] = {"cranfield": round(whole, 4)}
        table["hybrid"] = {"cranfield": hybrid}
        for name, score in self.squad_rows(best):
            table[name]["squad"] = round(score, 4)
        return table


def _flat(pooled: dict[str, Vectors], layer: str) -> dict[str, Vectors]:
    """The weighted sum of the layers of each set, (N, D)."""
    return {name: np.einsum("l,lnd->nd", LAYERS[layer], each) for name, each in pooled.items()}


def main() -> None:
    """Run the study and write its record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sts", type=Path, required=True)
    parser.add_argument("--cranfield", type=Path, required=True)
    parser.add_argument("--squad", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="relmo-en-small")
    args = parser.parse_args()
    begun = time.monotonic()
    elmo = Elmo.from_pretrained(args.model)
    sts, cranfield = Sts(elmo, args.sts), Cranfield(elmo, args.cranfield, IndexSettings())
    asked = {part: args.squad / f"{part}-v1.1.json" for part in ("train", "dev")}
    squad = {part: Squad(elmo, path) for part, path in asked.items()}
    study = Study(elmo, sts, cranfield, squad)
    grid = study.grid()
    fusions = study.fusions(grid[0])
    table = study.report(grid[0])
    files = [*sorted(args.sts.glob("*.csv")), *sorted(args.cranfield.glob("cran*"))]
    files += asked.values()
    facts = {
        "task": "search",
        "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
        "data": {"files": {path.name: sha256(path) for path in files}},
        "chosen": grid[0],
        "fusion": dataclasses.asdict(Fusion()),
        "seconds": round(time.monotonic() - begun),
        "results": table,
        "dev": {
            "bm25": round(cranfield.score(cranfield.words, 0), 4),
            "squad_bm25": round(squad["train"].score(squad["train"].words), 4),
            "grid": grid,
        },
        "dev_fusions": fusions,
    }
    make_folder(args.output)
    write_record(args.output / "run.json", facts)
    for row in [*grid[:5], *fusions[:5]]:
        print(row)
    for name, scores in table.items():
        row = " | ".join(str(scores.get(part, "–")) for part in ("sts", "cranfield", "squad"))
        print(f"| {name} | {row} |")


if __name__ == "__main__":
    main()
