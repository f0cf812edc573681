"""Does a word mean the same in two sentences? A threshold on the cosine of its two vectors.

PART.data.txt       word, part of speech, places (2-5), both sentences: columns parted by tabs
PART.gold.txt       T or F, a line for each of the data file
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import DataError
from relmo.lab.probes.find import need_file
from relmo.lab.probes.layers import (
    Span,
    Words,
    read_layers,
    read_one,
    read_senses,
    read_static,
    readings,
)
from relmo.lab.probes.outcome import Outcome, data_facts
from relmo.tasks.data_files import PARTS, Part, numbered_lines
from relmo.types import Vectors

STATIC = "static"
SENSES = "sense_vectors"
COLUMNS = 5
PLACES = re.compile(r"(\d+)-(\d+)")
ANSWERS = {"T": True, "F": False}

Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pair:
    """A word in two sentences."""

    sentences: tuple[Words, Words]
    places: tuple[int, int]
    is_same: bool
    """Whether it means the same in both."""


def probe_wic(
    elmo: Elmo, data: Path, *, vectors: Path | None = None, cache: Path | None = None, seed: int = 0
) -> Outcome:
    """Accuracy on each part by each reading.

    The threshold is chosen on the training part; whether the mean of all its vectors is taken off
    before, on the dev part.

    Args:
        elmo: the model.
        data: folder in which, or below which, the parts' files lie.
        vectors: static vectors, probed as "static"; without them that is layer 0, the model's own
            vectors that know no context.
        cache: folder where the layers are kept.
        seed: not used: nothing here is random.
    """
    kinds = ("data", "gold")
    files = {part: [need_file(data, f"{part}.{kind}.txt") for kind in kinds] for part in PARTS}
    pairs = {part: read_pairs(*found) for part, found in files.items()}
    truths = {part: np.array([pair.is_same for pair in found]) for part, found in pairs.items()}
    words = {part: _words(found) for part, found in pairs.items()}
    tables = {part: read_layers(elmo, *found, cache) for part, found in words.items()}
    vectors_of = {
        reading: {part: read_one(table, reading) for part, table in tables.items()}
        for reading in readings(elmo.config.num_layers)
    }
    vectors_of[SENSES] = {part: read_senses(elmo, *found) for part, found in words.items()}
    static = vectors_of["layer_0"] if vectors is None else read_static(vectors, words)
    results: dict[str, float] = {}
    rules: dict[str, Any] = {}
    for reading, found in {**vectors_of, STATIC: static}.items():
        scores, rules[reading] = score_pairs(found, truths)
        for part, score in scores.items():
            results[f"{part}_accuracy_{reading}"] = round(score, 4)
    counts: dict[str, Any] = {part: {"pairs": len(found)} for part, found in pairs.items()}
    used = [path for found in files.values() for path in found]
    used += [] if vectors is None else [vectors]
    return Outcome(data_facts(data, counts, used), {"rules": rules}, results)


def score_pairs(
    vectors: Mapping[Part, Vectors], truths: Mapping[Part, Truths]
) -> tuple[dict[Part, float], dict[str, Any]]:
    """Accuracy of each part in percent, and the rule that was chosen.

    Args:
        vectors: (2 N, D) of each part, those of a pair one after the other.
        truths: (N,) of each part.
    """
    best: tuple[dict[Part, float], dict[str, Any]] = {}, {}
    for centre, taken_off in (("none", 0.0), ("all", vectors["train"].mean(0))):
        moved = {part: values - taken_off for part, values in vectors.items()}
        cosines = {part: cosine(values[::2], values[1::2]) for part, values in moved.items()}
        threshold = best_threshold(cosines["train"], truths["train"])
        scores = {
            part: 100 * float(((values >= threshold) == truths[part]).mean())
            for part, values in cosines.items()
        }
        if not best[0] or scores["dev"] > best[0]["dev"]:
            best = scores, {"centre": centre, "threshold": round(threshold, 6)}
    return best


def read_pairs(data: Path, gold: Path) -> list[Pair]:
    """The pairs of one part."""
    answers = []
    for number, line in numbered_lines(gold):
        if line.strip() not in ANSWERS:
            raise DataError(gold, number, f"{line!r}; T or F is needed")
        answers.append(ANSWERS[line.strip()])
    lines = list(numbered_lines(data))
    if not lines or len(lines) != len(answers):
        shorter, longer = (data, gold) if len(lines) <= len(answers) else (gold, data)
        count = min(len(lines), len(answers))
        what = f"the file ends after {count} lines; as many as in {longer.name} are needed"
        raise DataError(shorter, count + 1, what)
    return [
        _pair(data, number, line, is_same)
        for (number, line), is_same in zip(lines, answers, strict=True)
    ]


def best_threshold(values: NDArray[np.floating], truths: Truths) -> float:
    """The threshold that parts most values rightly, those at or above it being true.

    It stands halfway between two values; of equally good ones the lowest is taken.
    """
    order = np.argsort(values, kind="stable")
    ranked, is_true = values[order], truths[order]
    bounds = np.concatenate([ranked[:1] - 1, (ranked[1:] + ranked[:-1]) / 2, ranked[-1:] + 1])
    falses_below = np.concatenate([[0], np.cumsum(~is_true)])
    trues_above = is_true.sum() - np.concatenate([[0], np.cumsum(is_true)])
    right = falses_below + trues_above
    can_part = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])  # equals stay together
    return float(bounds[np.argmax(np.where(can_part, right, -1))])


def cosine(one: Vectors, other: Vectors) -> Vectors:
    """Cosine of each row with its counterpart, (N,); 0 where a vector is zero."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    products: Vectors = (one * other).sum(-1) / np.maximum(lengths, 1e-12)
    return products.round(6)  # the same vector twice is 1, whatever the last bits say


def _pair(path: Path, number: int, line: str, is_same: bool) -> Pair:
    cells = line.split("\t")
    if len(cells) != COLUMNS:
        raise DataError(path, number, f"{len(cells)} columns parted by tabs; {COLUMNS} are needed")
    places = PLACES.fullmatch(cells[2].strip())
    if places is None:
        raise DataError(path, number, f"{cells[2]!r}; the words' places are needed, such as 2-5")
    first, second = int(places[1]), int(places[2])
    sentences = tuple(cells[3].split()), tuple(cells[4].split())
    if first >= len(sentences[0]) or second >= len(sentences[1]):
        raise DataError(path, number, f"place {cells[2]} is past the end of its sentence")
    return Pair(sentences, (first, second), is_same)


def _words(pairs: list[Pair]) -> tuple[list[Words], list[list[Span]]]:
    """All sentences, those of a pair side by side, and where the word stands in each."""
    sentences = [sentence for pair in pairs for sentence in pair.sentences]
    return sentences, [[(place, place + 1)] for pair in pairs for place in pair.places]
