"""Entailment as a task: one label for two sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relmo.errors import TextError
from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import Inputs, TokenBatch, TokenInput, Words
from relmo.tasks.labelled import BatchSettings, LabelledTask, check_labels
from relmo.tasks.plain_text import split_text
from relmo.tasks.snli.data import SentencePair, read_sick, read_snli
from relmo.tasks.snli.metrics import accuracy
from relmo.tasks.snli.model import SnliModel, SnliSettings


class SnliTask(LabelledTask[SentencePair, str, SnliSettings]):
    """Says how a hypothesis stands to its premise."""

    score = "dev_accuracy"
    settings_type = SnliSettings
    suffixes = (".jsonl", ".txt", ".tsv")
    """SNLI comes in the first and, besides, in the second, which is SICK's alone here."""

    def __init__(
        self,
        settings: SnliSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[SentencePair] = (),
        dev: Sequence[SentencePair] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.labels: list[str] = facts["labels"]
        self.inputs = inputs
        self._number_of = {label: i for i, label in enumerate(self.labels)}
        self.net = SnliModel(settings, tokens, len(self.labels))
        super().__init__(self.net, train, dev, batches or BatchSettings(), seed, inputs.device)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[SentencePair]:
        """Labelled pairs of SNLI's JSONL, else of SICK's table."""
        if ".jsonl" in path.suffixes:
            return read_snli(path, split_text).pairs
        return read_sick(path, split_text).pairs

    @classmethod
    def read_text(cls, lines: Iterable[str]) -> Iterator[SentencePair]:
        """The pair of each line that is not blank: premise, tab, hypothesis."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            premise, tab, hypothesis = line.partition("\t")
            if not tab:
                raise TextError(f"line {number}: {line[:40]!r} has no tab; part the two by one")
            if not premise.strip() or not hypothesis.strip():
                what = "a premise, a tab and a hypothesis are needed"
                raise TextError(f"line {number}: {line[:40]!r}: {what}")
            yield SentencePair(tuple(split_text(premise)), tuple(split_text(hypothesis)), "")

    @classmethod
    def facts_of(cls, train: Sequence[SentencePair]) -> dict[str, Any]:
        """The labels there are; what a trained model needs to know besides its weights."""
        return {"labels": sorted({pair.label for pair in train})}

    @classmethod
    def check(cls, path: Path, examples: Sequence[SentencePair], facts: Mapping[str, Any]) -> None:
        """Raise TextError where no label is one that can be answered."""
        check_labels(path, (pair.label for pair in examples), facts["labels"])

    @classmethod
    def sentences(cls, example: SentencePair) -> list[Words]:
        """What of an example is read as a sentence."""
        return [example.premise, example.hypothesis]

    def describe(self, example: SentencePair, prediction: str) -> dict[str, Any]:
        """The words of both, and the label."""
        return {
            "premise": example.premise,
            "hypothesis": example.hypothesis,
            "label": prediction,
        }

    def render(self, example: SentencePair, prediction: str) -> str:
        """Label, tab, premise, tab, hypothesis."""
        return "\t".join([prediction, " ".join(example.premise), " ".join(example.hypothesis)])

    def length(self, example: SentencePair) -> int:
        """Words of the longer sentence."""
        return max(len(example.premise), len(example.hypothesis))

    def batch_loss(self, examples: Sequence[SentencePair]) -> Tensor:
        """The mean loss of a batch."""
        numbers = torch.tensor([self._number_of[e.label] for e in examples])  # (B,)
        return self.net.loss(self._batch(examples), to_device(numbers, self.device))

    def predict_batch(self, examples: Sequence[SentencePair]) -> list[str]:
        """The label of each pair."""
        return [self.labels[i] for i in self.net.classify(self._batch(examples))]

    def scores(
        self, examples: Sequence[SentencePair], predictions: Sequence[str]
    ) -> dict[str, float]:
        """The share of right labels."""
        return {"accuracy": 100 * accuracy([e.label for e in examples], predictions)}

    def _batch(self, examples: Sequence[SentencePair]) -> TokenBatch:
        """All premises, then all hypotheses."""
        return self.inputs([*(e.premise for e in examples), *(e.hypothesis for e in examples)])
