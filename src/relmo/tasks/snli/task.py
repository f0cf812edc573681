"""Entailment as a task: one label for two sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relmo.tasks.data_files import Part
from relmo.tasks.inputs import Words
from relmo.tasks.model_task import ClassificationTask
from relmo.tasks.plain_text import split_text
from relmo.tasks.snli.data import SentencePair, read_sick, read_snli
from relmo.tasks.snli.model import SnliModel, SnliSettings


class SnliTask(ClassificationTask[SentencePair, SnliSettings]):
    """Predicts whether a premise entails a hypothesis, contradicts it or neither."""

    text_names = ("premise", "hypothesis")
    noun = "pairs"
    settings_type = SnliSettings
    model_type = SnliModel
    suffixes = (".jsonl", ".txt", ".tsv")
    """SNLI's files exist as .jsonl and .txt; the former are read. A lone .txt is SICK's."""

    @classmethod
    def read(cls, path: Path, part: Part) -> list[SentencePair]:
        """Labeled pairs of SNLI's JSONL, else of SICK's table."""
        return (read_snli if ".jsonl" in path.suffixes else read_sick)(path, split_text)

    def read_input(self, *texts: str) -> list[SentencePair]:
        """The pair of a premise and a hypothesis, unless one of them has no words."""
        premise, hypothesis = (tuple(split_text(text)) for text in texts)
        return [SentencePair(premise, hypothesis, "")] if premise and hypothesis else []

    @classmethod
    def sentences(cls, example: SentencePair) -> list[Words]:
        """The premise and the hypothesis."""
        return [example.premise, example.hypothesis]

    @classmethod
    def split_by(cls, example: SentencePair) -> tuple[str, Any]:
        """The label; pairs with the same premise stay together."""
        return example.label, example.premise
