"""Pairs of sentences and their relation: SNLI's JSONL and SICK's table.

{"gold_label": "entailment", "sentence1": "A cat sleeps .", "sentence2": "It rests ."}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relmo.tasks.data_files import Tokenize, not_empty, split_at_spaces
from relmo.tasks.sst.data import plain_word
from relmo.tasks.tables import TableRow, table_rows

NO_LABEL = "-"
"""SNLI's label of a pair on which its annotators did not agree; such pairs are left out."""
SICK_LABELS = ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")
"""SNLI has the same in lower case."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """Two sentences and whether the first entails the second."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str


def read_snli(path: str | Path, tokenize: Tokenize = split_at_spaces) -> list[SentencePair]:
    """The labeled pairs of a JSONL file with `gold_label`, `sentence1` and `sentence2`.

    The words are those of `sentence1_binary_parse` and `sentence2_binary_parse` where these are
    given, as in the official files; `tokenize` splits sentences without a parse. Labels may be any
    strings, so that other pairs can be read too.
    """
    pairs: list[SentencePair] = []
    for row in table_rows(path, "jsonl"):
        if (label := row.text("gold_label")) != NO_LABEL:
            premise, hypothesis = (_words(row, f"sentence{n}", tokenize) for n in (1, 2))
            pairs.append(SentencePair(premise, hypothesis, label))
    return not_empty(path, pairs, "labeled pairs; expected one")


def read_sick(path: str | Path, tokenize: Tokenize) -> list[SentencePair]:
    """The pairs of a SICK 2014 file, tab-separated, with SNLI's labels."""
    pairs: list[SentencePair] = []
    for row in table_rows(path, "tsv"):
        label = row.text("entailment_judgment")
        if label not in SICK_LABELS:
            raise row.error(f"label {label!r}; expected one of {', '.join(SICK_LABELS)}")
        premise, hypothesis = (row.words(f"sentence_{x}", tokenize) for x in "AB")
        pairs.append(SentencePair(premise, hypothesis, label.lower()))
    return not_empty(path, pairs, "labeled pairs; expected one")


def _words(row: TableRow, name: str, tokenize: Tokenize) -> tuple[str, ...]:
    parse = f"{name}_binary_parse"
    return row.words(parse, _leaves) if parse in row.cells else row.words(name, tokenize)


def _leaves(parse: str) -> list[str]:
    """`( ( A cat ) ( sleeps . ) )` -> A cat sleeps ."""
    return [plain_word(word) for word in split_at_spaces(parse) if word not in ("(", ")")]
