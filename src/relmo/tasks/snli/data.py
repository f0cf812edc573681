"""Pairs of sentences and how they stand to each other: SNLI's JSONL and SICK's table.

{"gold_label": "entailment", "sentence1": "A cat sleeps .", "sentence2": "It rests ."}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relmo.errors import DataError
from relmo.tasks.sst.data import Row, Tokenize, cell, plain_word, rows_of, split_at_spaces, words_in

NO_LABEL = "-"
"""SNLI's label of a pair on which its judges did not agree."""
SICK_LABELS = {
    "ENTAILMENT": "entailment",
    "NEUTRAL": "neutral",
    "CONTRADICTION": "contradiction",
}
"""SICK's labels -> SNLI's words for them."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """Two sentences and what the first says about the second."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of a file that have a label, in its order."""

    pairs: list[SentencePair]
    num_unlabelled: int
    """Pairs left out because their label is "-"."""


def read_snli(path: str | Path, tokenize: Tokenize = split_at_spaces) -> Pairs:
    """The pairs of a JSONL file with `gold_label`, `sentence1` and `sentence2`.

    The words are those of `sentence1_binary_parse` and `sentence2_binary_parse` where these are
    given, as in the official files. Labels may be any words, so that other pairs can be read too.

    Args:
        path: the file.
        tokenize: splits sentences without a parse; those already split need nothing here.
    """
    pairs: list[SentencePair] = []
    num_unlabelled = 0
    for number, row in rows_of(path, "jsonl"):
        label = cell(path, number, row, "gold_label")
        if label == NO_LABEL:
            num_unlabelled += 1
            continue
        premise = _words(path, number, row, "sentence1", tokenize)
        hypothesis = _words(path, number, row, "sentence2", tokenize)
        pairs.append(SentencePair(premise, hypothesis, label))
    return Pairs(_not_empty(path, pairs), num_unlabelled)


def read_sick(path: str | Path, tokenize: Tokenize) -> Pairs:
    """The pairs of a SICK 2014 file, tab-separated; labels come out as SNLI writes them."""
    pairs: list[SentencePair] = []
    for number, row in rows_of(path, "tsv"):
        label = cell(path, number, row, "entailment_judgment")
        if label not in SICK_LABELS:
            wanted = ", ".join(SICK_LABELS)
            raise DataError(path, number, f"label {label!r}; SICK's are {wanted}")
        premise = words_in(path, number, row, "sentence_A", tokenize)
        hypothesis = words_in(path, number, row, "sentence_B", tokenize)
        pairs.append(SentencePair(premise, hypothesis, SICK_LABELS[label]))
    return Pairs(_not_empty(path, pairs), 0)


def _words(
    path: str | Path, number: int, row: Row, name: str, tokenize: Tokenize
) -> tuple[str, ...]:
    parse = f"{name}_binary_parse"
    if parse in row:
        return words_in(path, number, row, parse, _leaves)
    return words_in(path, number, row, name, tokenize)


def _leaves(parse: str) -> list[str]:
    """`( ( A cat ) ( sleeps . ) )` -> A cat sleeps ."""
    return [plain_word(word) for word in split_at_spaces(parse) if word not in ("(", ")")]


def _not_empty(path: str | Path, pairs: list[SentencePair]) -> list[SentencePair]:
    if not pairs:
        raise DataError(path, 1, "no labelled pair in the file; give one per line")
    return pairs
