"""Does a word mean the same in two sentences? A threshold on the cosine of its two vectors.

PART.data.txt       word, part of speech, positions (2-5), both sentences: tab-separated columns
PART.gold.txt       T or F, one line for each line of the data file
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import DataError
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult, ProbeText, each_reading, need_file
from relmo.tasks.data_files import PARTS, Part, numbered_lines
from relmo.types import Vectors

COLUMNS = 5
POSITIONS = re.compile(r"(\d+)-(\d+)")
ANSWERS = {"T": True, "F": False}


def probe_wic(inputs: ProbeInputs) -> ProbeResult:
    """Accuracy on each part by each reading.

    The threshold is chosen on the training part; whether the mean of the training vectors is
    subtracted first is chosen on the dev part.
    """
    files = {p: [need_file(inputs.data, f"{p}.{k}.txt") for k in ("data", "gold")] for p in PARTS}
    texts: dict[Part, ProbeText] = {}
    gold: dict[Part, NDArray[np.bool_]] = {}
    for part, paths in files.items():
        texts[part], gold[part] = read_pairs(*paths)
    tables = inputs.tables(texts)
    vectors_of = dict(each_reading(tables))
    senses = {part: span_senses(inputs.elmo, text) for part, text in texts.items()}
    vectors_of |= {"sense_vectors": senses, "static": inputs.static(texts, tables)}
    scores: dict[str, float] = {}
    rules: dict[str, Any] = {}
    for reading, found in vectors_of.items():
        accuracies, rules[reading] = score_pairs(found, gold)
        for part, accuracy in accuracies.items():
            scores[f"{part}_accuracy_{reading}"] = round(accuracy, 4)
    counts = {part: {"pairs": len(is_same)} for part, is_same in gold.items()}
    used = [path for found in files.values() for path in found]
    return ProbeResult(inputs.describe(counts, used), {"rules": rules}, scores)


def span_senses(elmo: Elmo, text: ProbeText) -> Vectors:
    """`Elmo.sense_vectors` of each span, (N, F): the mean over its words."""
    vectors = elmo.sense_vectors(text[0], show_progress_bar=True)  # (T, F) each
    found = zip(vectors, text[1], strict=True)
    return np.stack([words[start:end].mean(0) for words, own in found for start, end in own])


def score_pairs(
    vectors: Mapping[Part, Vectors], gold: Mapping[Part, NDArray[np.bool_]]
) -> tuple[dict[Part, float], dict[str, Any]]:
    """Accuracy of each part in percent, and the chosen rule.

    Args:
        vectors: (2 N, D) of each part; the two vectors of a pair are adjacent rows.
        gold: (N,) of each part, true where the meaning is the same.
    """
    best: tuple[dict[Part, float], dict[str, Any]] = {}, {}
    for center, subtracted in (("none", 0.0), ("all", vectors["train"].mean(0))):
        moved = {part: values - subtracted for part, values in vectors.items()}  # each (2 N, D)
        cosines = {part: cosine(values[::2], values[1::2]) for part, values in moved.items()}
        threshold = best_threshold(cosines["train"], gold["train"])
        accuracies = {
            part: 100 * float(((values >= threshold) == gold[part]).mean())
            for part, values in cosines.items()
        }
        if not best[0] or accuracies["dev"] > best[0]["dev"]:
            best = accuracies, {"centre": center, "threshold": round(threshold, 6)}
    return best


def read_pairs(data: Path, gold: Path) -> tuple[ProbeText, NDArray[np.bool_]]:
    """One part: sentences, those of a pair adjacent, with the word's span; which pairs are same."""
    lines = list(numbered_lines(data))
    answers = list(numbered_lines(gold))
    for number, line in answers:
        if line.strip() not in ANSWERS:
            raise DataError(gold, number, f"expected T or F, got {line!r}")
    if not lines or len(lines) != len(answers):
        shorter, longer = (data, gold) if len(lines) <= len(answers) else (gold, data)
        count = min(len(lines), len(answers))
        reason = f"the file ends after {count} lines; expected as many as in {longer.name}"
        raise DataError(shorter, count + 1, reason)
    found = [pair for number, line in lines for pair in _parse_pair(data, number, line)]
    text = [words for words, _ in found], [[(place, place + 1)] for _, place in found]
    return text, np.array([ANSWERS[line.strip()] for _, line in answers])


def best_threshold(values: NDArray[np.floating], gold: NDArray[np.bool_]) -> float:
    """The threshold with the highest accuracy, values at or above it being predicted true.

    It lies halfway between two values; ties go to the lowest threshold.
    """
    order = np.argsort(values, kind="stable")
    ranked, is_true = values[order], gold[order]  # both (N,), by ascending value
    bounds = np.concatenate([ranked[:1] - 1, (ranked[1:] + ranked[:-1]) / 2, ranked[-1:] + 1])
    falses_below = np.concatenate([[0], np.cumsum(~is_true)])  # (N + 1,)
    trues_above = is_true.sum() - np.concatenate([[0], np.cumsum(is_true)])  # (N + 1,)
    is_bound = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])  # ties stay together
    return float(bounds[np.argmax(np.where(is_bound, falses_below + trues_above, -1))])


def cosine(one: Vectors, other: Vectors) -> Vectors:
    """Cosine of each row with its counterpart, (N,); 0 for a zero vector."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)  # (N,)
    products: Vectors = (one * other).sum(-1) / np.maximum(lengths, 1e-12)
    return products.round(6)  # the same vector twice gives exactly 1, whatever its last bits


def _parse_pair(path: Path, number: int, line: str) -> list[tuple[tuple[str, ...], int]]:
    """Both sentences of a line, with the position of the word in each."""
    cells = line.split("\t")
    if len(cells) != COLUMNS:
        raise DataError(path, number, f"expected {COLUMNS} tab-separated columns, got {len(cells)}")
    positions = POSITIONS.fullmatch(cells[2].strip())
    if positions is None:
        raise DataError(path, number, f"expected two positions such as 2-5, got {cells[2]!r}")
    sentences = [tuple(cell.split()) for cell in cells[3:]]
    pair = list(zip(sentences, map(int, positions.groups()), strict=True))
    if any(place >= len(words) for words, place in pair):
        raise DataError(path, number, f"position {cells[2]} is past the end of its sentence")
    return pair
