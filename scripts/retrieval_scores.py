"""Scores of a ranking and of similarities, and the collections to measure them on."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ndcg(ranking: Sequence[str], relevant: Collection[str], k: int = 10) -> float:
    """Normalized discounted cumulative gain at k, with binary relevance."""
    if not relevant:
        return 0.0
    gain = sum(1 / math.log2(i + 2) for i, each in enumerate(ranking[:k]) if each in relevant)
    best = sum(1 / math.log2(i + 2) for i in range(min(k, len(relevant))))
    return gain / best


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's rank correlation; tied values share the mean of their ranks."""
    return float(np.corrcoef(_ranks(np.asarray(first)), _ranks(np.asarray(second)))[0, 1])


def _ranks(values: NDArray[np.floating]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray(((last - counts + 1 + last) / 2)[inverse])


class Squad(NamedTuple):
    """Paragraphs of some of SQuAD's articles, and questions about them."""

    paragraphs: list[str]
    questions: list[str]
    sought: list[int]
    """Number of the paragraph that each question was asked about."""


def read_squad(path: Path, articles: int = 40, questions: int = 400) -> Squad:
    """The same articles and questions each time, of a file in SQuAD's format."""
    lot = random.Random(0)
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    some = lot.sample(data, min(articles, len(data)))
    paragraphs = [each for article in some for each in article["paragraphs"]]
    asked = [(n, each["question"]) for n, p in enumerate(paragraphs) for each in p["qas"]]
    asked = lot.sample(asked, min(questions, len(asked)))
    texts = [each["context"] for each in paragraphs]
    return Squad(texts, [text for _, text in asked], [number for number, _ in asked])


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """One by the rank of the first relevant document; 0 if there is none."""
    return next((1 / n for n, each in enumerate(ranking, 1) if each in relevant), 0.0)


class Cranfield(NamedTuple):
    """Abstracts on aeronautics, queries, and which abstracts are relevant to each."""

    documents: list[tuple[str, str]]
    """Number and text, which may be empty."""
    queries: list[str]
    relevant: list[set[str]]
    """Numbers of the documents relevant to each query."""


def read_cranfield(folder: Path) -> Cranfield:
    """Read the files in TREC format: cran.all.1400.xml, cran.qry.xml, cranqrel.trec.txt."""
    pages = (folder / "cran.all.1400.xml").read_text(encoding="utf-8")
    documents = re.findall(r"<docno>(\d+)</docno>.*?<text>(.*?)</text>", pages, re.DOTALL)
    asked = (folder / "cran.qry.xml").read_text(encoding="utf-8")
    queries = re.findall(r"<title>(.*?)</title>", asked, re.DOTALL)
    relevant: list[set[str]] = [set() for _ in queries]
    for line in (folder / "cranqrel.trec.txt").read_text(encoding="utf-8").splitlines():
        query, _, document, grade = line.split()
        if int(grade) > 0:
            relevant[int(query) - 1].add(document)
    return Cranfield(documents, queries, relevant)
