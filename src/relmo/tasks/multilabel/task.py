"""Labels of a text, any number of them, as a task: tables of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from relmo.errors import TextError
from relmo.kernels.device import to_device
from relmo.progress import tell
from relmo.tasks.calibration import Judged
from relmo.tasks.inputs import TokenInput
from relmo.tasks.metrics import label_set_scores
from relmo.tasks.mistakes import MISSED, SPURIOUS, TaskError
from relmo.tasks.model_task import check_labels
from relmo.tasks.multilabel.data import MultilabelText, read_table
from relmo.tasks.multilabel.model import MultilabelModel, best_thresholds
from relmo.tasks.plain_text import split_text
from relmo.tasks.results import Label
from relmo.tasks.sst.texts import LABEL_NAMES, TableTask
from relmo.tasks.tables import TEXT_NAMES, Columns

PLURALS = ("labels", "tags", "topics", "categories", "genres", "emotions", "classes", "targets")
Labels = tuple[str, ...]
"""The labels of a text, sorted."""


class MultilabelTask(TableTask[MultilabelText, Labels]):
    """Predicts which labels a text has, each for itself.

    Thresholds are chosen on the development part whenever the model is scored on it, and saved with
    the weights that they suit; so scores of that part are a little too good, those of others not.
    """

    score = "dev_macro_f1"
    result_name = "labels"
    has_one_result = False
    has_scores = True
    usual_columns: ClassVar = {"text": TEXT_NAMES, "label": (*PLURALS, *LABEL_NAMES)}
    net: MultilabelModel

    @classmethod
    def read_table(cls, path: Path, columns: Columns) -> list[MultilabelText]:
        """Texts of a table."""
        return read_table(path, split_text, columns)

    def read_input(self, *texts: str) -> list[MultilabelText]:
        """The text, unless it has no words."""
        (text,) = texts
        words = tuple(split_text(text))
        return [MultilabelText(words, ())] if words else []

    @classmethod
    def facts_of(cls, train: Sequence[MultilabelText]) -> dict[str, Any]:
        """The set of labels."""
        return {"labels": sorted({label for example in train for label in example.labels})}

    @classmethod
    def check_training(cls, train: Sequence[MultilabelText]) -> None:
        """Raise TextError if there are fewer than two labels, or nearly as many as texts."""
        labels = cls.facts_of(train)["labels"]
        if len(labels) < 2:
            only = f"the only label of {len(train):,} texts is {labels[0]!r}" if labels else ""
            what = only or f"none of {len(train):,} texts has a label"
            raise TextError(f"{what}; expected at least two different labels")
        super().check_training(train)

    @classmethod
    def split_by(cls, example: MultilabelText) -> tuple[str, Any]:
        """Its first label, as sets of labels may all differ; equal texts stay together."""
        return next(iter(example.labels), ""), example.words

    @classmethod
    def check(
        cls, path: Path, examples: Sequence[MultilabelText], facts: Mapping[str, Any]
    ) -> None:
        """Raise TextError if the training part has none of the examples' labels."""
        check_labels(path, set(cls.facts_of(examples)["labels"]), set(facts["labels"]))

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over the labels and build the model."""
        self.labels: list[str] = facts["labels"]
        self.net = MultilabelModel(self.settings, tokens, len(self.labels))

    def targets(self, examples: Sequence[MultilabelText]) -> tuple[Tensor, ...]:
        """(B, K) whether an example has a label; labels that are not trained are left out."""
        has_label = [[label in example.labels for label in self.labels] for example in examples]
        return (to_device(np.array(has_label), self.device),)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────

    def predict_batch(self, examples: Sequence[MultilabelText]) -> list[Labels]:
        """The labels of each text."""
        return self.decide(self.outputs(examples))

    def decide(self, outputs: Tensor) -> list[Labels]:
        """The labels whose scores, (B, K), reach their thresholds."""
        is_given = outputs.float() >= self.net.thresholds  # (B, K)
        return [tuple(compress(self.labels, row)) for row in is_given.tolist()]

    def evaluate(self) -> dict[str, float]:
        """Scores on the development part, by the thresholds that are best there."""
        what = f"evaluating: dev {self.noun}"
        rows = self._in_batches(lambda some: list(self.outputs(some)), self.dev, what)
        outputs = torch.stack(rows)  # (N, K)
        self.net.thresholds.copy_(best_thresholds(outputs, *self.targets(self.dev)))
        scores = self.scores(self.dev, self.decide(outputs))
        return {f"dev_{name}": value for name, value in scores.items()}

    def scores(
        self, examples: Sequence[MultilabelText], predictions: Sequence[Labels]
    ) -> dict[str, float]:
        """F1 as a mean over labels and of all labels together; accuracy of whole sets."""
        gold = [example.labels for example in examples]
        found = label_set_scores(gold, predictions)
        exact = sum(a == b for a, b in zip(gold, predictions, strict=True)) / max(1, len(gold))
        return {
            "macro_f1": 100 * found.macro_f1,
            "micro_f1": 100 * found.overall.f1,
            "accuracy": 100 * exact,
        }

    def review(self, examples: Sequence[MultilabelText], predictions: Sequence[Labels]) -> None:
        """Say so if all examples, whose labels differ, are given the same labels."""
        answers = set(predictions)
        if len(answers) == 1 and len({example.labels for example in examples}) > 1:
            said = ", ".join(map(repr, answers.pop())) or "no labels"
            tell(
                f"relmo: the model answers {said} for all {len(examples):,} {self.noun} of the "
                f"test part: it has not learned to tell the labels apart; add more {self.noun}, "
                f"or train longer (--set training.epochs=100)"
            )

    def errors_of(self, example: MultilabelText, found: Sequence[Label]) -> list[TaskError]:
        """Labels that a text has and was not given, and the reverse."""
        text = " ".join(example.words)
        given = {label.label: label.score for label in found}
        missed = (label for label in example.labels if label not in given)
        return [
            *(TaskError(kind=MISSED, label=m, gold=m, predicted="", text=text) for m in missed),
            *(
                TaskError(kind=SPURIOUS, label=s, gold="", predicted=s, score=score, text=text)
                for s, score in given.items()
                if s not in example.labels
            ),
        ]

    def gold_labels(self, example: MultilabelText) -> Labels:
        """The labels of a text."""
        return example.labels

    # ── probabilities ───────────────────────────────────────────────────────────────────────────

    def results(
        self, examples: Sequence[MultilabelText], outputs: Tensor, temperature: float
    ) -> list[list[Label]]:
        """The labels of each text, the most probable first; outputs are (B, K).

        A temperature changes probabilities, not which labels are given.
        """
        rows = zip(self.decide(outputs), shares(outputs, temperature).tolist(), strict=True)
        found = []
        for given, row in rows:
            share_of = dict(zip(self.labels, row, strict=True))
            results = [Label(label, share_of[label]) for label in given]
            found.append(sorted(results, key=lambda result: -result.score))
        return found

    def is_right(self, example: MultilabelText, result: Label) -> bool:
        """Whether the text has the label."""
        return result.label in example.labels

    def judged(
        self, examples: Sequence[MultilabelText], outputs: Tensor, temperature: float
    ) -> Judged:
        """The probability of every label for every text, given or not, and whether it has it."""
        (has_label,) = self.targets(examples)
        found = shares(outputs, temperature).flatten().tolist()
        return list(zip(found, has_label.flatten().tolist(), strict=True))

    def thresholds(self) -> dict[str, float]:
        """The probability from which on a text is given a label, by label."""
        found = shares(self.net.thresholds, self.temperature).tolist()
        return dict(zip(self.labels, found, strict=True))


def shares(scores: Tensor, temperature: float) -> Tensor:
    """The probabilities of labels with these scores."""
    return (scores.double() / temperature).sigmoid()
