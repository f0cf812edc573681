"""Semantic roles as a task: the arguments of a given predicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import Inputs, TokenInput, Words
from relmo.tasks.labelled import BatchSettings, LabelledTask
from relmo.tasks.plain_text import describe_span, sentences_of_lines
from relmo.tasks.srl.data import Frame, read_frames
from relmo.tasks.srl.metrics import bio_spans, evaluate
from relmo.tasks.srl.model import SrlModel, SrlSettings

Tags = tuple[str, ...]


class SrlTask(LabelledTask[Frame, Tags, SrlSettings]):
    """Tags the words of a sentence with their roles for one predicate; scored by arguments."""

    score = "dev_f1"
    settings_type = SrlSettings

    def __init__(
        self,
        settings: SrlSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[Frame] = (),
        dev: Sequence[Frame] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.tags: list[str] = facts["tags"]
        self.predicates = frozenset(facts["predicates"])
        self.inputs = inputs
        self._number_of = {tag: i for i, tag in enumerate(self.tags)}
        self.net = SrlModel(settings, tokens, self.tags)
        super().__init__(self.net, train, dev, batches or BatchSettings(), seed, inputs.device)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Frame]:
        """The frames of a file of columns."""
        return list(read_frames(path).items)

    @classmethod
    def facts_of(cls, train: Sequence[Frame]) -> dict[str, Any]:
        """The tags there are, and the words that are predicates more often than not."""
        sentences = {frame.words for frame in train}
        seen = Counter(word.lower() for words in sentences for word in words)
        marked = Counter(frame.words[frame.predicate].lower() for frame in train)
        return {
            "tags": sorted({tag for frame in train for tag in frame.tags} | {"O"}),
            "predicates": sorted(word for word, count in marked.items() if 2 * count > seen[word]),
        }

    @classmethod
    def sentences(cls, example: Frame) -> list[Words]:
        """What of an example is read as a sentence."""
        return [example.words]

    def read_text(self, lines: Iterable[str]) -> Iterator[Frame]:
        """A frame for each word of each sentence that mostly was a predicate in training."""
        for words, places in sentences_of_lines(lines):
            for number, word in enumerate(words):
                if word.lower() in self.predicates:
                    yield Frame(words, number, (), places)

    def describe(self, example: Frame, prediction: Tags) -> dict[str, Any]:
        """Words, the predicate's place and the arguments."""
        arguments = [
            {"label": label, **describe_span(example.words, example.places, first, last)}
            for label, first, last in bio_spans(prediction)
        ]
        return {"words": example.words, "predicate": example.predicate, "arguments": arguments}

    def render(self, example: Frame, prediction: Tags) -> str:
        """`[ARG0 The cat] [V sat] …`."""
        words = list(example.words)
        for label, first, last in bio_spans(prediction):
            words[first] = f"[{label} {words[first]}"
            words[last] += "]"
        return " ".join(words)

    def length(self, example: Frame) -> int:
        """Words."""
        return len(example.words)

    def batch_loss(self, examples: Sequence[Frame]) -> Tensor:
        """The mean loss of a batch."""
        batch = self.inputs([e.words for e in examples])
        numbers = np.zeros(batch.mask.shape, np.int64)  # (B, T)
        for b, example in enumerate(examples):
            numbers[b, : len(example.tags)] = [self._number_of[tag] for tag in example.tags]
        tags = to_device(numbers, self.device)
        return self.net.loss(batch, self._predicates(examples), tags)

    def predict_batch(self, examples: Sequence[Frame]) -> list[Tags]:
        """The tags of each frame; those it has are not looked at."""
        batch = self.inputs([e.words for e in examples])
        found = self.net.decode(batch, self._predicates(examples))
        return [tuple(self.tags[i] for i in numbers) for numbers in found]

    def scores(self, examples: Sequence[Frame], predictions: Sequence[Tags]) -> dict[str, float]:
        """Arguments' precision, recall and F1, and the share of frames that are all right."""
        found = evaluate([e.tags for e in examples], predictions)
        return {
            "f1": found.overall.f1,
            "precision": found.overall.precision,
            "recall": found.overall.recall,
            "perfect": 100 * found.num_perfect / max(found.num_frames, 1),
        }

    def _predicates(self, examples: Sequence[Frame]) -> Tensor:
        """(B,) position of each predicate."""
        return torch.tensor([e.predicate for e in examples], device=self.device)
