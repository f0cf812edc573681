"""Text classification as a task: sentiment trees, or any classes of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relmo.tasks.data_files import Part
from relmo.tasks.metrics import check_lengths, macro_f1
from relmo.tasks.model_task import ClassificationTask
from relmo.tasks.plain_text import split_text
from relmo.tasks.sst.data import TREE_LABELS, LabelledText, polarity_of, read_table, read_trees
from relmo.tasks.sst.model import SstModel, SstSettings
from relmo.tasks.sst.texts import TableTask, TextTask
from relmo.tasks.tables import FORMATS, NO_COLUMNS, Columns


class SstTask(TextTask[LabelledText, str], ClassificationTask[LabelledText, SstSettings]):
    """Predicts the class of a text."""

    model_type = SstModel
    suffixes = ((*FORMATS, ".txt"),)
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

    def read_input(self, *texts: str) -> list[LabelledText]:
        """The text, unless it has no words."""
        (text,) = texts
        words = tuple(split_text(text))
        return [LabelledText(words, "")] if words else []

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


class ClassifyTask(TableTask[LabelledText, str], SstTask):
    """Predicts the class of a text, from a table of one's own."""


def binary_accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of tree labels 0 to 4 with the right polarity; neutral sentences are left out.

    A neutral prediction for a sentence that is not neutral counts as wrong.
    """
    check_lengths(len(gold), len(predicted), "labels")
    pairs = [(polarity_of(a), polarity_of(b)) for a, b in zip(gold, predicted, strict=True)]
    correct = [wanted == found for wanted, found in pairs if wanted is not None]
    return sum(correct) / len(correct) if correct else 0.0
