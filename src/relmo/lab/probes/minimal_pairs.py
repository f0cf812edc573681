"""Grammar by minimal pairs: is the grammatical sentence likelier than the ungrammatical one?

NAME.jsonl      {"sentence_good": …, "sentence_bad": …, "UID": paradigm, "linguistics_term":
                phenomenon} per line, as BLiMP's files are; any such file or folder of them will do

No training: a pair is right if the model gives the good sentence the higher probability, read from
its start state, the end counted. A tie is wrong. Sentences are tokenized by the model's tokenizer;
a word outside the vocabulary has the probability of `<UNK>`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import COMPRESSIONS, ProbeInputs, ProbeResult, find_files
from relmo.tasks.data_files import numbered_lines

DIRECTIONS = ("forward", "backward", "both")
OVERALL, PARADIGM, PHENOMENON = "overall", "paradigm/", "phenomenon/"
"""Names of parts: all, prefix of a paradigm, prefix of a phenomenon whose name looks like those."""
ENDING, KEYS = ".jsonl", ("sentence_good", "sentence_bad")
SAME = {"s-selection": "argument_structure"}
"""Phenomena that BLiMP's tables count with another."""


class MinimalPair(NamedTuple):
    """Two sentences that differ in little but their grammar."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str
    path: Path
    line: int


class PairRow(NamedTuple):
    """How a pair was judged: a row of `relmo probe blimp --pairs`."""

    paradigm: str
    phenomenon: str
    file: str
    """Below the data folder."""
    line: int
    """From 1."""
    sentence_good: str
    sentence_bad: str
    nats_forward: float
    """log p(good) - log p(bad)."""
    nats_backward: float
    nats_both: float
    """The sum of the two."""
    right_forward: bool
    right_backward: bool
    right_both: bool
    unknown_words: int
    """Of both sentences."""


def probe_minimal_pairs(inputs: ProbeInputs) -> ProbeResult:
    """Accuracy overall, by phenomenon and by paradigm, each as the mean over its paradigms."""
    files = find_pairs(inputs.data)
    pairs = [pair for path in files for pair in read_pairs(path)]
    check_paradigms(pairs)
    elmo = inputs.elmo
    words = [_words(elmo, pair) for pair in pairs]
    gains = elmo.lm.prefer(words)  # (N, 2)
    gains = np.column_stack([gains, gains.sum(1)])  # (N, 3)
    lexicon = elmo.lm.lexicon
    unknown = [sum(word not in lexicon for text in texts for word in text) for texts in words]
    of_words = sum(len(text) for texts in words for text in texts)
    sizes = Counter(pair.paradigm for pair in pairs)
    counts = {
        "pairs": len(pairs),
        "paradigms": len(sizes),
        "tied_pairs": int((gains == 0).any(1).sum()),
        "identical_pairs": sum(good == bad for good, bad in words),
        "unknown_words_percent": round(100 * sum(unknown) / of_words, 4),
        **{f"{PARADIGM}{name}_pairs": size for name, size in sorted(sizes.items())},
    }
    described = inputs.describe({"pairs": {"count": len(pairs)}}, files)
    scores = {**accuracies(pairs, gains), **counts}
    folder = inputs.data if inputs.data.is_dir() else inputs.data.parent
    rows = [_row(folder, *judged) for judged in zip(pairs, gains, unknown, strict=True)]
    return ProbeResult(described, {}, scores, rows)


def _words(elmo: Elmo, pair: MinimalPair) -> tuple[list[str], list[str]]:
    """The words of both sentences."""
    good, bad = ([token.text for token in elmo.tokens(text)] for text in (pair.good, pair.bad))
    if not good or not bad:
        key = KEYS[bool(good)]
        raise DataError(pair.path, pair.line, f"{key} has no words; expected a sentence")
    return good, bad


def _row(folder: Path, pair: MinimalPair, gains: NDArray[np.float64], unknown: int) -> PairRow:
    file = pair.path.relative_to(folder).as_posix()
    place = pair.paradigm, pair.phenomenon, file, pair.line, pair.good, pair.bad
    return PairRow._make((*place, *gains.tolist(), *(gains > 0).tolist(), unknown))


def pairs_in_words(results: Mapping[str, float]) -> str:
    """What was counted, for people."""
    same = results["identical_pairs"]
    text = (
        f"{results['pairs']:,} pairs, {results['paradigms']:,} paradigms, "
        f"{results['tied_pairs']:,} ties (counted as wrong), "
        f"{results['unknown_words_percent']:.2f} % of the words unknown"
    )
    are = "pair is" if same == 1 else "pairs are"
    return f"{text}, {same:,} {are} the same after tokenization" if same else text


def accuracies(pairs: Sequence[MinimalPair], gains: NDArray[np.float64]) -> dict[str, float]:
    """PART_accuracy_DIRECTION -> percent; parts are all, phenomena, and `paradigm/NAME`s.

    Args:
        pairs: N of them.
        gains: (N, 3) how much likelier the good sentence is: forward, backward, both together.
    """
    names = np.array([pair.paradigm for pair in pairs])
    terms = {pair.paradigm: _part(pair.phenomenon) for pair in pairs}
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


def _part(phenomenon: str) -> str:
    """What results call a phenomenon: its name, with a prefix if that could mean another part."""
    taken = phenomenon == OVERALL or phenomenon.startswith((PARADIGM, PHENOMENON))
    return f"{PHENOMENON}{phenomenon}" if taken else phenomenon


def find_pairs(data: Path) -> list[Path]:
    """The files at or below a folder, or the one file that is given."""
    if data.is_file():
        if not data.name.endswith(tuple(f"{ENDING}{end}" for end in COMPRESSIONS)):
            raise ConfigError(f"{data}: expected a .jsonl file, a JSON object per pair")
        return [data]
    files = find_files(data, f"*{ENDING}")
    if not files:
        raise ConfigError(f"{data}: contains no .jsonl files; expected minimal pairs")
    seen: dict[str, Path] = {}
    for path in files:
        if (other := seen.setdefault(str(path).rpartition(ENDING)[0], path)) != path:
            raise ConfigError(f"{other} and {path} are one file twice; remove one of them")
    return files


def check_paradigms(pairs: Sequence[MinimalPair]) -> None:
    """Raise DataError if a paradigm belongs to two phenomena."""
    first: dict[str, MinimalPair] = {}
    for pair in pairs:
        known = first.setdefault(pair.paradigm, pair)
        if known.phenomenon != pair.phenomenon:
            raise DataError(
                pair.path,
                pair.line,
                f"paradigm {pair.paradigm!r} has the phenomenon {pair.phenomenon!r} here and "
                f"{known.phenomenon!r} in {known.path}, line {known.line}; expected one",
            )


def read_pairs(path: Path) -> list[MinimalPair]:
    """The pairs of a file; where they do not name a paradigm, the file's name does."""
    name = path.name.partition(ENDING)[0]
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
    if not isinstance(values, Mapping) or not all(isinstance(values.get(k), str) for k in KEYS):
        raise DataError(path, number, f"expected an object with the strings {' and '.join(KEYS)}")
    paradigm = str(values.get("UID") or name)
    phenomenon = str(values.get("linguistics_term") or paradigm)
    phenomenon = SAME.get(phenomenon, phenomenon)
    return MinimalPair(values[KEYS[0]], values[KEYS[1]], paradigm, phenomenon, path, number)
