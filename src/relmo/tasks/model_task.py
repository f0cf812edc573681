"""Two kinds of tasks that several task folders build on.

LabelledTask
├── ClassificationTask      one label per example
└── TaggingTask             one tag per word
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relmo.errors import TextError
from relmo.kernels.device import to_device
from relmo.progress import tell
from relmo.tasks.chunk_tags import Tags, spans_of
from relmo.tasks.inputs import TokenInput, Words
from relmo.tasks.labelled import LabelledTask, ModelSettings
from relmo.tasks.metrics import accuracy
from relmo.tasks.plain_text import Places
from relmo.tasks.results import Label, Span


class HasLabel(Protocol):
    """An example of a classification task."""

    @property
    def label(self) -> str:
        """Its class; "" if unknown."""


class TaggedWords(Protocol):
    """An example of a tagging task."""

    @property
    def words(self) -> Words:
        """The words of the sentence."""

    @property
    def tags(self) -> Tags:
        """A tag for each word; empty if unknown."""

    @property
    def places(self) -> Places | None:
        """Where the words are in the text, if known."""


Classified = TypeVar("Classified", bound=HasLabel)
Tagged = TypeVar("Tagged", bound=TaggedWords)


class ClassificationTask(LabelledTask[Classified, str, ModelSettings]):
    """Predicts the label of an example; the model scores the labels, (B, K)."""

    score = "dev_accuracy"
    result_name = "label"
    has_scores = True
    model_type: Callable[[ModelSettings, TokenInput, int], nn.Module]
    """Makes the model from settings, token input and the number of labels."""

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over the labels and build the model."""
        self.labels: list[str] = facts["labels"]
        self.net = type(self).model_type(self.settings, tokens, len(self.labels))

    @classmethod
    def facts_of(cls, train: Sequence[Classified]) -> dict[str, Any]:
        """The set of labels."""
        return {"labels": sorted({example.label for example in train})}

    @classmethod
    def check_training(cls, train: Sequence[Classified]) -> None:
        """Raise TextError if all have the same label."""
        labels = cls.facts_of(train)["labels"]
        if len(labels) == 1:
            what = f"all {len(train):,} {cls.noun} have the label {labels[0]!r}"
            raise TextError(f"{what}; expected at least two different labels")

    @classmethod
    def split_by(cls, example: Classified) -> tuple[str, Any]:
        """The label; equal texts stay together."""
        return example.label, tuple(cls.sentences(example))

    @classmethod
    def check(cls, path: Path, examples: Sequence[Classified], facts: Mapping[str, Any]) -> None:
        """Raise TextError if the training part has none of the examples' labels."""
        check_labels(path, {example.label for example in examples}, set(facts["labels"]))

    def targets(self, examples: Sequence[Classified]) -> tuple[Tensor, ...]:
        """(B,) numbers of the labels."""
        number_of = {label: number for number, label in enumerate(self.labels)}
        numbers = np.array([number_of[example.label] for example in examples])  # (B,)
        return (to_device(numbers, self.device),)

    def batch_loss(self, examples: Sequence[Classified]) -> Tensor:
        """Mean -log p of the labels, plus the penalty of the mixes."""
        scores = self.net(*self.model_inputs(examples)).float()  # (B, K)
        (labels,) = self.targets(examples)
        loss: Tensor = cross_entropy(scores, labels) + self.net.tokens.penalty()
        return loss

    def predict_batch(self, examples: Sequence[Classified]) -> list[str]:
        """The most probable label of each example."""
        numbers = self.net(*self.model_inputs(examples)).argmax(-1).tolist()  # (B,)
        return [self.labels[number] for number in numbers]

    def results(
        self, examples: Sequence[Classified], outputs: Tensor, temperature: float
    ) -> list[list[Label]]:
        """The most probable label of each example; outputs are (B, K)."""
        shares = (outputs.double() / temperature).softmax(-1).tolist()  # (B, K)
        found = []
        for each in shares:
            pairs = sorted(zip(self.labels, each, strict=True), key=lambda pair: -pair[1])
            found.append([Label(*pairs[0], dict(pairs))])
        return found

    def is_right(self, example: Classified, result: Label) -> bool:
        """Whether the label is the example's."""
        return result.label == example.label

    def scores(
        self, examples: Sequence[Classified], predictions: Sequence[str]
    ) -> dict[str, float]:
        """The accuracy of labels."""
        return {"accuracy": 100 * accuracy([e.label for e in examples], predictions)}

    def review(self, examples: Sequence[Classified], predictions: Sequence[str]) -> None:
        """Say so if all examples, whose labels differ, are given the same label."""
        answers = set(predictions)
        if len(answers) == 1 and len({example.label for example in examples}) > 1:
            tell(
                f"relmo: the model answers {answers.pop()!r} for all {len(examples):,} {self.noun} "
                f"of the test part: it has not learned to tell the labels apart; add more "
                f"{self.noun}, or train longer (--set training.epochs=100)"
            )


class TaggingTask(LabelledTask[Tagged, Tags, ModelSettings]):
    """Predicts a tag for each word of a sentence."""

    has_one_result = False
    has_scores = True
    tags: list[str]
    """The K tags of the training data, in the order of their numbers."""

    @classmethod
    def sentences(cls, example: Tagged) -> list[Words]:
        """The example's sentence."""
        return [example.words]

    def targets(self, examples: Sequence[Tagged]) -> tuple[Tensor, ...]:
        """(B, T) numbers of the tags, 0 past the end of a sentence."""
        number_of = {tag: number for number, tag in enumerate(self.tags)}
        T = max(1, *(len(e.words) for e in examples))
        numbers = np.zeros((len(examples), T), np.int64)  # (B, T)
        for row, example in zip(numbers, examples, strict=True):
            row[: len(example.tags)] = [number_of[tag] for tag in example.tags]
        return (to_device(numbers, self.device),)

    def predict_batch(self, examples: Sequence[Tagged]) -> list[Tags]:
        """The tags of each sentence."""
        found = self.net.decode(*self.model_inputs(examples))
        return [tuple(self.tags[number] for number in numbers) for numbers in found]


def check_labels(path: Path, found: set[str], known: set[str]) -> None:
    """Raise TextError if a file has labels, none of which is known from the training part."""
    if found and not found & known:
        firsts = [[label[:30] for label in sorted(each)[:5]] for each in (found, known)]
        shown = [", ".join(map(repr, each)) for each in firsts]
        raise TextError(
            f"{path}: none of its labels ({shown[0]}) occurs in the training part "
            f"({shown[1]}); use the same labels"
        )


def marked_spans(tags: Tags, places: Places) -> set[Span]:
    """The spans that the tags of words mark, with their places in the text."""
    return {(span.label, *places.span(span.first, span.last)[1:]) for span in spans_of(tags)}


def mask_of(examples: Sequence[TaggedWords], scores: Tensor) -> Tensor:
    """(B, T) true at the words of sentences whose tags have the scores (B, T, K)."""
    lengths = to_device(np.array([len(e.words) for e in examples]), scores.device)  # (B,)
    return torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]
