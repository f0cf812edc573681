"""Tasks whose examples are texts of any length, with one label each (sst) or several (multilabel).

LabelledTask
└── TextTask                a text is read in windows by the network of sst
    └── TableTask           texts come from a table alone
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from relmo.errors import ConfigError, TextError
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenBatch, Words
from relmo.tasks.labelled import LabelledTask
from relmo.tasks.sst.data import windows
from relmo.tasks.sst.model import SstSettings
from relmo.tasks.tables import FORMATS, NO_COLUMNS, TEXT_NAMES, Columns

LABEL_NAMES = (
    "label", "labels", "sentiment", "class", "category", "target", "topic", "intent", "emotion",
    "polarity", "mood", "rating", "stars", "genre", "tag", "type", "y",
)  # fmt: skip
MANY_LABELS = 20
"""More labels than these are refused where most texts have one of their own."""


class HasWords(Protocol):
    """A text."""

    @property
    def words(self) -> Words:
        """All of its words."""


Text = TypeVar("Text", bound=HasWords)
Prediction = TypeVar("Prediction")


class TextTask(LabelledTask[Text, Prediction, SstSettings]):
    """Reads texts of any length."""

    noun = "texts"
    settings_type = SstSettings
    tables = tuple(FORMATS)
    usual_columns: ClassVar = {"text": TEXT_NAMES, "label": LABEL_NAMES}

    @classmethod
    def sentences(cls, example: Text) -> list[Words]:
        """The text, read as one sentence, or the windows of a long one."""
        return windows(example.words)

    def length(self, example: Text) -> int:
        """Words of the text."""
        return len(example.words)

    def model_inputs(self, examples: Sequence[Text]) -> tuple[TokenBatch, Tensor | None]:
        """The batch of all windows, and how many each text has, if any has more than one."""
        texts = [self.sentences(example) for example in examples]
        counts = torch.tensor([len(each) for each in texts])  # (B,)
        is_long = len(examples) > 0 and bool(counts.max() > 1)
        return self.inputs(list(chain.from_iterable(texts))), counts if is_long else None


class TableTask(TextTask[Text, Prediction]):
    """Reads texts of a table."""

    few_recipe = "classify-few"
    suffixes = (tuple(FORMATS),)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Text]:
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
    def check_training(cls, train: Sequence[Text]) -> None:
        """Raise TextError if the task does, or if most texts have a label of their own."""
        super().check_training(train)
        labels = cls.facts_of(train)["labels"]
        if len(labels) > MANY_LABELS and 2 * len(labels) > len(train):
            shown = ", ".join(map(repr, labels[:3]))
            raise TextError(
                f"{len(train):,} texts have {len(labels):,} different labels ({shown}, …); choose "
                f"another column with --label, whose labels have several texts each"
            )
