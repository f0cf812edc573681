"""Entailment as a task: one label for two sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relmo.tasks.data_files import Part, tab_pairs
from relmo.tasks.inputs import Words
from relmo.tasks.model_task import ClassificationTask
from relmo.tasks.plain_text import split_text
from relmo.tasks.snli.data import SentencePair, read_sick, read_snli
from relmo.tasks.snli.model import SnliModel, SnliSettings


class SnliTask(ClassificationTask[SentencePair, SnliSettings]):
    """Predicts whether a premise entails a hypothesis, contradicts it or neither."""

    answers_lines = True
    noun = "pairs"
    settings_type = SnliSettings
    model_type = SnliModel
    suffixes = (".jsonl", ".txt", ".tsv")
    """SNLI's files exist as .jsonl and .txt; the former are read. A lone .txt is SICK's."""

    @classmethod
    def read(cls, path: Path, part: Part) -> list[SentencePair]:
        """Labeled pairs of SNLI's JSONL, else of SICK's table."""
        return (read_snli if ".jsonl" in path.suffixes else read_sick)(path, split_text)

    @classmethod
    def read_text(cls, lines: Iterable[str]) -> Iterator[SentencePair]:
        """The pair of each line that is not blank: premise, tab, hypothesis."""
        for _, premise, hypothesis in tab_pairs(lines, "a premise", "a hypothesis"):
            yield SentencePair(tuple(split_text(premise)), tuple(split_text(hypothesis)), "")

    @classmethod
    def sentences(cls, example: SentencePair) -> list[Words]:
        """The premise and the hypothesis."""
        return [example.premise, example.hypothesis]

    @classmethod
    def split_by(cls, example: SentencePair) -> tuple[str, Any]:
        """The label; pairs with the same premise stay together."""
        return example.label, example.premise

    def describe(self, example: SentencePair, prediction: str) -> dict[str, Any]:
        """The words of both sentences, and the label."""
        both = {"premise": example.premise, "hypothesis": example.hypothesis}
        return {**both, "label": prediction}

    def render(self, example: SentencePair, prediction: str) -> str:
        """Label, tab, premise, tab, hypothesis."""
        return "\t".join([prediction, " ".join(example.premise), " ".join(example.hypothesis)])
