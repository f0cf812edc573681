"""Semantic role labeling as a task: the arguments of a given predicate.

They are scored by the definition of CoNLL-2005: label and extent must both be right. The predicate
itself (V) does not count. A C-X continues the latest X before it: both are one argument X, correct
only if all its pieces are; without an X before it, it is an X of its own. R-X is a label like any
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from relmo.tasks.chunk_tags import OUTSIDE, Tags, spans_of
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenInput
from relmo.tasks.metrics import MatchScores, count_matches
from relmo.tasks.model_task import TaggingTask
from relmo.tasks.plain_text import sentences_of_lines
from relmo.tasks.srl.data import Frame, read_frames
from relmo.tasks.srl.model import SrlModel, SrlSettings

Argument = tuple[str, tuple[tuple[int, int], ...]]
"""Label, and first and last word of each piece."""


class SrlTask(TaggingTask[Frame, SrlSettings]):
    """Tags the words of a sentence with their roles for one predicate; scored by arguments."""

    score = "dev_f1"
    answers_lines = True
    noun = "predicates"
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
        perfect = 100 * found.num_perfect / max(found.num_frames, 1)
        return {**found.arguments.overall.percent(), "perfect": perfect}


class SrlScore(NamedTuple):
    """Counts of arguments and of frames."""

    arguments: MatchScores
    num_frames: int
    num_perfect: int
    """Frames whose predicted arguments are exactly the gold ones."""


def evaluate(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> SrlScore:
    """Score predicted tags of frames against gold tags, frame by frame in the same order."""
    pairs = []
    for gold_tags, tags in zip(gold, predicted, strict=True):
        assert len(gold_tags) == len(tags), "a frame has one tag per word"
        pairs.append((arguments(gold_tags), arguments(tags)))
    num_perfect = sum(wanted == found for wanted, found in pairs)
    return SrlScore(count_matches(pairs, lambda argument: argument[0]), len(pairs), num_perfect)


def arguments(tags: Sequence[str]) -> frozenset[Argument]:
    """The arguments of a frame that count, with their continuations."""
    found: list[Argument] = []
    latest: dict[str, int] = {}
    for span in spans_of(tags):
        label, piece = span.label.removeprefix("C-"), (span.first, span.last)
        if label != span.label and label in latest:
            found[latest[label]] = (label, (*found[latest[label]][1], piece))
        else:
            latest[label] = len(found)
            found.append((label, (piece,)))
    return frozenset(argument for argument in found if argument[0] != "V")
