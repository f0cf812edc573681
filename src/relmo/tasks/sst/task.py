"""Text classification as a task: sentiment trees, or any classes of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from relmo.errors import ConfigError, TextError
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenBatch, Words
from relmo.tasks.metrics import check_lengths, macro_f1
from relmo.tasks.model_task import ClassificationTask
from relmo.tasks.plain_text import split_text
from relmo.tasks.sst.data import (
    TREE_LABELS,
    LabelledText,
    polarity_of,
    read_table,
    read_trees,
    windows,
)
from relmo.tasks.sst.model import SstModel, SstSettings
from relmo.tasks.tables import FORMATS, NO_COLUMNS, TEXT_NAMES, Columns

LABEL_NAMES = (
    "label", "labels", "sentiment", "class", "category", "target", "topic", "intent", "emotion",
    "polarity", "mood", "rating", "stars", "genre", "tag", "type", "y",
)  # fmt: skip
MANY_LABELS = 20
"""More labels than these are refused where most texts have one of their own."""


class SstTask(ClassificationTask[LabelledText, SstSettings]):
    """Predicts the class of a text."""

    answers_lines = True
    noun = "texts"
    settings_type = SstSettings
    model_type = SstModel
    suffixes = ((*FORMATS, ".txt"),)
    tables = tuple(FORMATS)
    usual_columns: ClassVar = {"text": TEXT_NAMES, "label": LABEL_NAMES}
    learns_phrases = False
    """Whether training uses the phrases of the trees in addition to the sentences."""

    @classmethod
    def read(cls, path: Path, part: Part) -> list[LabelledText]:
        """Texts of a table, by its suffix, from the columns with common names; else of trees."""
        if cls.is_table(path):
            return cls.read_table(path, cls.columns_of(path, NO_COLUMNS))
        return read_trees(path, phrases=cls.learns_phrases and part == "train")

    @classmethod
    def read_table(cls, path: Path, columns: Columns) -> list[LabelledText]:
        """Texts of a table."""
        return read_table(path, split_text, columns)

    @classmethod
    def read_text(cls, lines: Iterable[str]) -> Iterator[LabelledText]:
        """The text of each line that is not blank."""
        texts = (tuple(split_text(line)) for line in lines)
        return (LabelledText(words, "", number) for number, words in enumerate(texts, 1) if words)

    @classmethod
    def sentences(cls, example: LabelledText) -> list[Words]:
        """The text, read as one sentence, or the windows of a long one."""
        return windows(example.words)

    def length(self, example: LabelledText) -> int:
        """Words of the text."""
        return len(example.words)

    def model_inputs(self, examples: Sequence[LabelledText]) -> tuple[TokenBatch, Tensor | None]:
        """The batch of all windows, and how many each text has, if any has more than one."""
        texts = [self.sentences(example) for example in examples]
        counts = torch.tensor([len(each) for each in texts])  # (B,)
        is_long = len(examples) > 0 and bool(counts.max() > 1)
        return self.inputs(list(chain.from_iterable(texts))), counts if is_long else None

    def describe(self, example: LabelledText, prediction: str) -> dict[str, Any]:
        """Words and label."""
        return {"words": example.words, "label": prediction}

    def render(self, example: LabelledText, prediction: str) -> str:
        """Label, tab, words."""
        return f"{prediction}\t{' '.join(example.words)}"

    def scores(
        self, examples: Sequence[LabelledText], predictions: Sequence[str]
    ) -> dict[str, float]:
        """Accuracy and macro F1; for the labels of trees the accuracy of polarity too."""
        gold = [e.label for e in examples]
        found = super().scores(examples, predictions)
        found["macro_f1"] = 100 * macro_f1(gold, predictions)
        if self.labels == list(TREE_LABELS):
            found["binary_accuracy"] = 100 * binary_accuracy(gold, predictions)
        return found


class SstPhrasesTask(SstTask):
    """The same, trained on every phrase of the training trees; scored on sentences as before."""

    learns_phrases = True
    splits_one_file = False  # a phrase of a test sentence must not be in the training part


class ClassifyTask(SstTask):
    """Predicts the class of a text, from a table of one's own."""

    few_recipe = "classify-few"
    suffixes = (tuple(FORMATS),)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[LabelledText]:
        """Texts of a table from the columns with common names."""
        return cls.read_table(path, cls.columns_of(path, NO_COLUMNS))

    @classmethod
    def columns_of(
        cls, path: Path, asked: Columns, needed: Sequence[str] = ("text", "label")
    ) -> Columns:
        """The columns of a table to read; other files are refused."""
        if not cls.is_table(path):
            raise ConfigError(
                f"{path}: expected a table; its name must end in {', '.join(FORMATS)}"
            )
        return super().columns_of(path, asked, needed)

    @classmethod
    def check_training(cls, train: Sequence[LabelledText]) -> None:
        """Raise TextError if all have the same label, or most have one of their own."""
        super().check_training(train)
        labels = cls.facts_of(train)["labels"]
        if len(labels) > MANY_LABELS and 2 * len(labels) > len(train):
            shown = ", ".join(map(repr, labels[:3]))
            raise TextError(
                f"{len(train):,} texts have {len(labels):,} different labels ({shown}, …); choose "
                f"another column with --label, whose labels have several texts each"
            )

    def describe(self, example: LabelledText, prediction: str) -> dict[str, Any]:
        """Line or row, label and words."""
        line = {"line": example.line} if example.line else {}
        return {**line, "label": prediction, "words": example.words}


def binary_accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of tree labels 0 to 4 with the right polarity; neutral sentences are left out.

    A neutral prediction for a sentence that is not neutral counts as wrong.
    """
    check_lengths(len(gold), len(predicted), "labels")
    pairs = [(polarity_of(a), polarity_of(b)) for a, b in zip(gold, predicted, strict=True)]
    correct = [wanted == found for wanted, found in pairs if wanted is not None]
    return sum(correct) / len(correct) if correct else 0.0
