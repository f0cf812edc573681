"""Scores of a ranking and of similarities, and the Cranfield collection to measure them on."""

from __future__ import annotations

import math
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
