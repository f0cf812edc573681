"""Semantic role labeling as a task: the arguments of a given predicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from relmo.tasks.chunk_tags import OUTSIDE, Tags
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenInput
from relmo.tasks.model_task import TaggingTask
from relmo.tasks.plain_text import sentences_of_lines
from relmo.tasks.srl.data import Frame, read_frames
from relmo.tasks.srl.metrics import evaluate
from relmo.tasks.srl.model import SrlModel, SrlSettings


class SrlTask(TaggingTask[Frame, SrlSettings]):
    """Tags the words of a sentence with their roles for one predicate; scored by arguments."""

    score = "dev_f1"
    settings_type = SrlSettings
    net: SrlModel

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over tags and predicates, and build the model."""
        self.tags = facts["tags"]
        self.predicates = frozenset(facts["predicates"])
        self.net = SrlModel(self.settings, tokens, self.tags)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Frame]:
        """The frames of a file of columns."""
        return read_frames(path)

    @classmethod
    def facts_of(cls, train: Sequence[Frame]) -> dict[str, Any]:
        """The set of tags, and the words that are predicates in most of their occurrences."""
        sentences = {frame.words for frame in train}
        seen = Counter(word.lower() for words in sentences for word in words)
        marked = Counter(frame.words[frame.predicate].lower() for frame in train)
        return {
            "tags": sorted({tag for frame in train for tag in frame.tags} | {OUTSIDE}),
            "predicates": sorted(word for word, count in marked.items() if 2 * count > seen[word]),
        }

    def read_text(self, lines: Iterable[str]) -> Iterator[Frame]:
        """A frame for each word of each sentence that is known as a predicate."""
        for words, places in sentences_of_lines(lines):
            for number, word in enumerate(words):
                if word.lower() in self.predicates:
                    yield Frame(words, number, (), places)

    def describe(self, example: Frame, prediction: Tags) -> dict[str, Any]:
        """Words, the predicate's position and the arguments."""
        arguments = self.describe_spans(example, prediction)
        return {"words": example.words, "predicate": example.predicate, "arguments": arguments}

    def model_inputs(self, examples: Sequence[Frame]) -> tuple[Any, ...]:
        """The sentences, and the positions (B,) of their predicates."""
        predicates = torch.tensor([e.predicate for e in examples], device=self.device)  # (B,)
        return (*super().model_inputs(examples), predicates)

    def scores(self, examples: Sequence[Frame], predictions: Sequence[Tags]) -> dict[str, float]:
        """Precision, recall and F1 of arguments, and the share of frames without an error."""
        found = evaluate([e.tags for e in examples], predictions)
        overall = found.arguments.overall
        return {
            "f1": 100 * overall.f1,
            "precision": 100 * overall.precision,
            "recall": 100 * overall.recall,
            "perfect": 100 * found.num_perfect / max(found.num_frames, 1),
        }
