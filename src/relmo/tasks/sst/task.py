"""Text classification as a task: sentiment trees, or any classes of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from relmo.tasks.data_files import FORMATS, Part
from relmo.tasks.inputs import Words
from relmo.tasks.metrics import check_lengths, macro_f1
from relmo.tasks.model_task import ClassificationTask
from relmo.tasks.plain_text import split_text
from relmo.tasks.sst.data import TREE_LABELS, LabelledText, polarity_of, read_table, read_trees
from relmo.tasks.sst.model import SstModel, SstSettings


class SstTask(ClassificationTask[LabelledText, SstSettings]):
    """Predicts the class of a text."""

    settings_type = SstSettings
    model_type = SstModel
    suffixes = (*FORMATS, ".txt")
    learns_phrases = False
    """Whether training uses the phrases of the trees in addition to the sentences."""

    @classmethod
    def read(cls, path: Path, part: Part) -> list[LabelledText]:
        """Texts of a table with the columns `text` and `label`, by its suffix; else of trees."""
        if FORMATS.keys() & set(path.suffixes):
            return read_table(path, tokenize=split_text)
        return read_trees(path, phrases=cls.learns_phrases and part == "train")

    @classmethod
    def read_text(cls, lines: Iterable[str]) -> Iterator[LabelledText]:
        """The text of each line that is not blank."""
        texts = (tuple(split_text(line)) for line in lines)
        return (LabelledText(words, "") for words in texts if words)

    @classmethod
    def sentences(cls, example: LabelledText) -> list[Words]:
        """The text, read as one sentence."""
        return [example.words]

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


def binary_accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of tree labels 0 to 4 with the right polarity; neutral sentences are left out.

    A neutral prediction for a sentence that is not neutral counts as wrong.
    """
    check_lengths(len(gold), len(predicted), "labels")
    pairs = [(polarity_of(a), polarity_of(b)) for a, b in zip(gold, predicted, strict=True)]
    correct = [wanted == found for wanted, found in pairs if wanted is not None]
    return sum(correct) / len(correct) if correct else 0.0
