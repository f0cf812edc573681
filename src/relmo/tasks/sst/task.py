"""Text classification as a task: sentiment trees, or any classes of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import Inputs, TokenInput, Words
from relmo.tasks.labelled import BatchSettings, LabelledTask, check_labels
from relmo.tasks.plain_text import split_text
from relmo.tasks.sst.data import FORMATS, LABELS, LabelledText, read_table, read_trees
from relmo.tasks.sst.metrics import accuracy, binary_accuracy, macro_f1
from relmo.tasks.sst.model import SstModel, SstSettings


class SstTask(LabelledTask[LabelledText, str, SstSettings]):
    """Says of a text which class it is of."""

    score = "dev_accuracy"
    settings_type = SstSettings
    suffixes = (*FORMATS, ".txt")
    learns_phrases = False
    """Whether the phrases of the training trees are learned besides their sentences."""

    def __init__(
        self,
        settings: SstSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[LabelledText] = (),
        dev: Sequence[LabelledText] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.labels: list[str] = facts["labels"]
        self.inputs = inputs
        self._number_of = {label: i for i, label in enumerate(self.labels)}
        self.net = SstModel(settings, tokens, len(self.labels))
        super().__init__(self.net, train, dev, batches or BatchSettings(), seed, inputs.device)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[LabelledText]:
        """Texts of a table by its suffix, `text` and `label` its columns; else of trees."""
        if FORMATS.keys() & set(path.suffixes):
            return read_table(path, tokenize=split_text)
        return read_trees(path, phrases=cls.learns_phrases and part == "train")

    @classmethod
    def read_text(cls, lines: Iterable[str]) -> Iterator[LabelledText]:
        """The text of each line that has one."""
        texts = (tuple(split_text(line)) for line in lines)
        return (LabelledText(words, "") for words in texts if words)

    @classmethod
    def facts_of(cls, train: Sequence[LabelledText]) -> dict[str, Any]:
        """The labels there are; what a trained model needs to know besides its weights."""
        return {"labels": sorted({text.label for text in train})}

    @classmethod
    def check(cls, path: Path, examples: Sequence[LabelledText], facts: Mapping[str, Any]) -> None:
        """Raise TextError where no label is one that can be answered."""
        check_labels(path, (text.label for text in examples), facts["labels"])

    @classmethod
    def sentences(cls, example: LabelledText) -> list[Words]:
        """What of an example is read as a sentence."""
        return [example.words]

    def describe(self, example: LabelledText, prediction: str) -> dict[str, Any]:
        """Words and label."""
        return {"words": example.words, "label": prediction}

    def render(self, example: LabelledText, prediction: str) -> str:
        """Label, tab, words."""
        return f"{prediction}\t{' '.join(example.words)}"

    def length(self, example: LabelledText) -> int:
        """Words."""
        return len(example.words)

    def batch_loss(self, examples: Sequence[LabelledText]) -> Tensor:
        """The mean loss of a batch."""
        numbers = torch.tensor([self._number_of[e.label] for e in examples])  # (B,)
        return self.net.loss(
            self.inputs([e.words for e in examples]), to_device(numbers, self.device)
        )

    def predict_batch(self, examples: Sequence[LabelledText]) -> list[str]:
        """The label of each text."""
        found = self.net.classify(self.inputs([e.words for e in examples]))
        return [self.labels[i] for i in found]

    def scores(
        self, examples: Sequence[LabelledText], predictions: Sequence[str]
    ) -> dict[str, float]:
        """The share of right labels, the labels' mean F1; of trees the share of right sides too."""
        wanted = [e.label for e in examples]
        found = {
            "accuracy": 100 * accuracy(wanted, predictions),
            "macro_f1": 100 * macro_f1(wanted, predictions),
        }
        if self.labels == list(LABELS):
            found["binary_accuracy"] = 100 * binary_accuracy(wanted, predictions)
        return found


class SstPhrasesTask(SstTask):
    """The same, learned from every phrase of the training trees; scored on sentences as before."""

    learns_phrases = True
