"""Grammar by minimal pairs: is the grammatical sentence likelier than the ungrammatical one?

NAME.jsonl      {"sentence_good": …, "sentence_bad": …, "UID": paradigm, "linguistics_term":
                phenomenon} per line, as BLiMP's files are; any folder of such files will do

No training: a pair is right if the model gives the good sentence the higher probability, read from
its start state, the end counted. A tie is wrong. Sentences are tokenized by the model's tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult, find_files
from relmo.tasks.data_files import numbered_lines

DIRECTIONS = ("forward", "backward", "both")
OVERALL, PARADIGM = "overall", "paradigm/"
SAME = {"s-selection": "argument_structure"}
"""Phenomena that BLiMP's tables count with another."""


class MinimalPair(NamedTuple):
    """Two sentences that differ in little but their grammar."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str


def probe_minimal_pairs(inputs: ProbeInputs) -> ProbeResult:
    """Accuracy overall, by phenomenon and by paradigm, each as the mean over its paradigms."""
    files = find_files(inputs.data, "*.jsonl")
    if not files:
        raise ConfigError(f"{inputs.data}: contains no .jsonl files; expected minimal pairs")
    pairs = [pair for path in files for pair in read_pairs(path)]
    elmo = inputs.elmo
    words = [[token.text for token in elmo.tokens(text)] for pair in pairs for text in pair[:2]]
    gains = elmo.lm.prefer(list(zip(words[::2], words[1::2], strict=True)))  # (N, 2)
    gains = np.column_stack([gains, gains.sum(1)])  # (N, 3)
    assert elmo.lexicon is not None
    unknown = sum(word not in elmo.lexicon for sentence in words for word in sentence)
    settings = {
        "ties": int((gains == 0).any(1).sum()),
        "unknown_words": round(100 * unknown / max(1, sum(map(len, words))), 4),
    }
    counts = {"pairs": {"count": len(pairs)}}
    return ProbeResult(inputs.describe(counts, files), settings, accuracies(pairs, gains))


def accuracies(pairs: Sequence[MinimalPair], gains: NDArray[np.float64]) -> dict[str, float]:
    """PART_accuracy_DIRECTION -> percent; parts are all, phenomena, and `paradigm/NAME`s.

    Args:
        pairs: N of them.
        gains: (N, 3) how much likelier the good sentence is: forward, backward, both together.
    """
    names = np.array([pair.paradigm for pair in pairs])
    terms = {pair.paradigm: pair.phenomenon for pair in pairs}
    right = {name: 100 * (gains[names == name] > 0).mean(0) for name in sorted(terms)}  # (3,) each
    parts: dict[str, list[NDArray[np.float64]]] = {OVERALL: list(right.values())}
    for name, values in right.items():
        parts.setdefault(terms[name], []).append(values)
    parts |= {f"{PARADIGM}{name}": [values] for name, values in right.items()}
    return {
        f"{part}_accuracy_{direction}": round(float(value), 4)
        for part, found in parts.items()
        for direction, value in zip(DIRECTIONS, np.mean(found, 0), strict=True)
    }


def read_pairs(path: Path) -> list[MinimalPair]:
    """The pairs of a file; where they do not name a paradigm, the file's name does."""
    name = path.name.partition(".jsonl")[0]
    found = []
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except ValueError as error:
            raise DataError(path, number, f"not JSON ({error})") from error
        found.append(_parse_pair(path, number, values, name))
    if not found:
        raise DataError(path, 1, "contains no pairs; expected one JSON object per line")
    return found


def _parse_pair(path: Path, number: int, values: object, name: str) -> MinimalPair:
    keys = ("sentence_good", "sentence_bad")
    if not isinstance(values, Mapping) or not all(isinstance(values.get(k), str) for k in keys):
        raise DataError(path, number, f"expected an object with the strings {' and '.join(keys)}")
    paradigm = str(values.get("UID") or name)
    phenomenon = str(values.get("linguistics_term") or paradigm)
    phenomenon = SAME.get(phenomenon, phenomenon)
    return MinimalPair(values[keys[0]], values[keys[1]], paradigm, phenomenon)
