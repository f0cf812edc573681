"""Semantic role labeling as a task: the arguments of a predicate, given or found.

They are scored by the definition of CoNLL-2005: label and extent must both be right. The predicate
itself (V) does not count. A C-X continues the latest X before it: both are one argument X, correct
only if all its pieces are; without an X before it, it is an X of its own. R-X is a label like any
other.

Labelled data give the predicates. In a text they are found by the model's finder or, in a model
without one, looked up in a list of words that mostly were predicates in training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from relmo.errors import TextError
from relmo.kernels.device import to_device
from relmo.nn.blocks.crf import make_lattice, viterbi
from relmo.tasks import results
from relmo.tasks.calibration import Judged, best_temperature
from relmo.tasks.chunk_tags import OUTSIDE, Tags, spans_of
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenInput, Words
from relmo.tasks.metrics import MatchCounts, MatchScores, count_matches
from relmo.tasks.mistakes import TaskError, span_errors
from relmo.tasks.model_task import TaggingTask, marked_spans, mask_of
from relmo.tasks.plain_text import places_in, sentences_of
from relmo.tasks.srl.data import NO_PREDICATE, Frame, read_frames
from relmo.tasks.srl.model import RoleTagger, SrlModel, SrlSettings
from relmo.tasks.srl.pairs import PairModel

Argument = tuple[str, tuple[tuple[int, int], ...]]
"""Label, and first and last word of each piece."""
FoundPredicate = tuple[int, float]
"""Position and probability."""
FoundFrame = results.Frame


class SrlTask(TaggingTask[Frame, SrlSettings]):
    """Tags the words of a sentence with their roles for one predicate; scored by arguments."""

    score = "dev_f1"
    result_name = "frames"
    noun = "predicates"
    settings_type = SrlSettings
    net: RoleTagger
    finder_temperature: float = 1.0
    """By which the finder's log odds are divided before they become probabilities."""

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over tags and predicates, and build the model."""
        self.tags = facts["tags"]
        self.predicates = frozenset(facts["predicates"])
        self.reads_once = self.settings.reads == "sentences"
        make = PairModel if self.reads_once else SrlModel
        self.net = make(self.settings, tokens, self.tags)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Frame]:
        """The frames of a file of columns; to train on, also its sentences without a predicate."""
        return read_frames(path, keeps_all=part == "train")

    @classmethod
    def check_training(cls, train: Sequence[Frame]) -> None:
        """Raise TextError if there is no predicate."""
        if train and all(frame.predicate == NO_PREDICATE for frame in train):
            what = f"none of the {len(train):,} sentences to train on has a predicate"
            raise TextError(f"{what}; its frame should be in column 8")

    @classmethod
    def split_by(cls, example: Frame) -> tuple[str, Any]:
        """The sentence; one without a predicate is trained on, as there are no roles to score."""
        return ("", None) if example.predicate == NO_PREDICATE else super().split_by(example)

    @classmethod
    def facts_of(cls, train: Sequence[Frame]) -> dict[str, Any]:
        """The set of tags, and the words that are predicates in most of their occurrences."""
        sentences = {frame.words for frame in train}
        seen = Counter(word.lower() for words in sentences for word in words)
        framed = [frame for frame in train if frame.predicate != NO_PREDICATE]
        marked = Counter(frame.words[frame.predicate].lower() for frame in framed)
        return {
            "tags": sorted({tag for frame in train for tag in frame.tags} | {OUTSIDE}),
            "predicates": sorted(word for word, count in marked.items() if 2 * count > seen[word]),
        }

    def prepare(self, train: Sequence[Frame]) -> Sequence[Frame]:
        """Without a finder, leave out sentences without a predicate: they have nothing to teach."""
        if self.net.finder is not None:
            return train
        return [frame for frame in train if frame.predicate != NO_PREDICATE]

    def read_input(self, *texts: str) -> list[Frame]:
        """A frame for each predicate of each sentence."""
        return self.read_inputs([texts])[0]

    def read_inputs(self, inputs: Sequence[tuple[str, ...]]) -> list[list[Frame]]:
        """A frame for each predicate of each input; the sentences of all are read together."""
        sentences = [list(sentences_of(text)) for (text,) in inputs]
        found = iter(self.find([words for each in sentences for words, _ in each]))
        return [
            [
                Frame(words, position, (), places, score=score)
                for words, places in each
                for position, score in next(found)
            ]
            for each in sentences
        ]

    def find(self, sentences: Sequence[Words]) -> list[list[FoundPredicate]]:
        """The predicates of each sentence: words that are more likely one than not."""
        if self.net.finder is None:
            return [
                [(n, 1.0) for n, word in enumerate(words) if word.lower() in self.predicates]
                for words in sentences
            ]
        temperature = self.finder_temperature
        return [
            [(n, _probability(odds, temperature)) for n, odds in enumerate(each) if odds >= 0]
            for each in self._log_odds(sentences)
        ]

    def _log_odds(self, sentences: Sequence[Words]) -> list[list[float]]:
        """Log odds of each word of each sentence that it is a predicate."""
        bare = [Frame(words, NO_PREDICATE, ()) for words in sentences]
        return self._in_batches(self._log_odds_of_batch, bare)

    def _log_odds_of_batch(self, examples: Sequence[Frame]) -> list[list[float]]:
        odds = self.net.find(*super().model_inputs(examples)).tolist()  # (S, T)
        return [row[: len(e.words)] for e, row in zip(examples, odds, strict=True)]

    def results(
        self, examples: Sequence[Frame], outputs: Tensor, temperature: float
    ) -> list[list[results.Frame]]:
        """The frame of each predicate; outputs are (B, T, K)."""
        mask = mask_of(examples, outputs)
        lattice = make_lattice(
            outputs, mask, self.net.steps, self.net.first, temperature=temperature
        )
        paths = viterbi(outputs, mask, self.net.steps, self.net.first)
        number_of = {tag: number for number, tag in enumerate(self.tags)}
        found: list[list[results.Frame]] = []
        for row, (example, path) in enumerate(zip(examples, paths, strict=True)):
            places = places_in(example)
            arguments_ = []
            for first, last, label in spans_of([self.tags[number] for number in path]):
                if label == "V":
                    continue
                text, start, end = places.span(first, last)
                onward = number_of.get(f"I-{label}")
                score = lattice.span_probability(row, first, path[first : last + 1], onward)
                arguments_.append(results.Argument(text, label, start, end, score))
            place = places.span(example.predicate, example.predicate)
            predicate = results.Predicate(*place, example.score)
            found.append([results.Frame(predicate, tuple(arguments_))])
        return found

    def judged(self, examples: Sequence[Frame], outputs: Tensor, temperature: float) -> Judged:
        """Scores of arguments, and which of them are right."""
        found: list[tuple[float, bool]] = []
        frames = self.results(examples, outputs, temperature)
        for example, (frame,) in zip(examples, frames, strict=True):
            gold = marked_spans(example.tags, places_in(example))
            found += [(a.score, (a.label, a.start, a.end) in gold) for a in frame.arguments]
        return found

    def calibrate(self, examples: Sequence[Frame]) -> None:
        """Choose the temperatures of roles and finder by frames that were not trained on."""
        super().calibrate(examples)
        if self.net.finder is None:
            return
        words, gold = by_sentence(examples)
        found = [
            (log_odds, position in numbers)
            for numbers, each in zip(gold, self._log_odds(words), strict=True)
            for position, log_odds in enumerate(each)
            if log_odds >= 0
        ]
        if found:
            self.finder_temperature = best_temperature(
                lambda t: [(_probability(log_odds, t), is_right) for log_odds, is_right in found]
            )

    def calibration(self) -> dict[str, float]:
        """The temperatures."""
        if self.net.finder is None:
            return super().calibration()
        return {**super().calibration(), "finder_temperature": self.finder_temperature}

    def use_calibration(self, found: Mapping[str, float]) -> None:
        """Take over what `calibration` returned."""
        super().use_calibration(found)
        self.finder_temperature = found.get("finder_temperature", 1.0)

    def targets(self, examples: Sequence[Frame]) -> tuple[Tensor, ...]:
        """(B, T) numbers of the tags and, for a finder, (B, T) which words are predicates."""
        (tags,) = super().targets(examples)
        if self.net.finder is None:
            return (tags,)
        are_predicates = np.zeros(tags.shape, bool)  # (B, T)
        for row, example in zip(are_predicates, examples, strict=True):
            row[list(example.predicates)] = True
        return tags, to_device(are_predicates, self.device)

    def errors_of(self, example: Frame, found: Sequence[FoundFrame]) -> list[TaskError]:
        """Pieces of arguments that differ; gold and predicted ones follow their predicate."""
        places = places_in(example)
        gold = {span for span in marked_spans(example.tags, places) if not is_predicate(span[0])}
        arguments_ = [a for frame in found for a in frame.arguments if not is_predicate(a.label)]
        scores = {(a.label, a.start, a.end): a.score for a in arguments_}
        verb = example.words[example.predicate]
        return [
            replace(
                error,
                gold=error.gold and f"{verb}: {error.gold}",
                predicted=error.predicted and f"{verb}: {error.predicted}",
            )
            for error in span_errors(places.text, gold, scores)
        ]

    def gold_labels(self, example: Frame) -> list[str]:
        """The labels of the pieces of arguments."""
        return [s.label for s in spans_of(example.tags) if not is_predicate(s.label)]

    def model_inputs(self, examples: Sequence[Frame]) -> tuple[Any, ...]:
        """The sentences, and (B, 2) the sentences and positions of the predicates."""
        keys = [id(e.words) if self.reads_once else n for n, e in enumerate(examples)]
        sentences = dict(zip(keys, examples, strict=True))  # an example of each
        row_of = {key: row for row, key in enumerate(sentences)}
        pairs = [(row_of[key], e.predicate) for key, e in zip(keys, examples, strict=True)]
        predicates = torch.tensor(pairs, device=self.device)  # (B, 2)
        return (*super().model_inputs(list(sentences.values())), predicates)

    def read_together(self, example: Frame) -> Hashable:
        """The sentence, if it is read once for all of its predicates."""
        return id(example.words) if self.reads_once else None

    def scores(self, examples: Sequence[Frame], predictions: Sequence[Tags]) -> dict[str, float]:
        """Precision, recall and F1 of arguments, and the share of frames without an error."""
        found = evaluate([e.tags for e in examples], predictions)
        perfect = 100 * found.num_perfect / max(found.num_frames, 1)
        return {**found.arguments.overall.percent(), "perfect": perfect}

    def extra_scores(
        self, examples: Sequence[Frame], predictions: Sequence[Tags]
    ) -> dict[str, float]:
        """Precision, recall and F1 of the finder's predicates, and of arguments with them.

        All arguments of a wrong predicate are wrong, those of a missed one are missed. Each
        sentence of the examples must have all of its frames among them. Sentences without a
        predicate are not there, so predicates found in them do not count.
        """
        if self.net.finder is None:
            return {}
        words, gold = by_sentence(examples)
        found = [{position for position, _ in each} for each in self.find(words)]
        wrong = [
            Frame(sentence, position, ())
            for sentence, positions, numbers in zip(words, found, gold, strict=True)
            for position in positions - numbers.keys()
        ]
        pairs = [(frozenset[Argument](), arguments(t)) for t in self.predict(wrong, show=False)]
        for positions, numbers in zip(found, gold, strict=True):
            for position, number in numbers.items():
                tags = predictions[number] if position in positions else ()
                pairs.append((arguments(examples[number].tags), arguments(tags)))
        num_found = sum(map(len, found))
        predicates = MatchCounts(num_found - len(wrong), num_found, len(examples))
        roles = count_matches(pairs, lambda argument: argument[0]).overall
        scores = {f"predicate_{name}": value for name, value in predicates.percent().items()}
        return scores | {f"found_{name}": value for name, value in roles.percent().items()}


def by_sentence(examples: Sequence[Frame]) -> tuple[list[Words], list[dict[int, int]]]:
    """The sentences of some examples, and of each, positions of predicates -> numbers of examples.

    Equal sentences are two, unless they are the same object.
    """
    words: dict[int, Words] = {}
    numbers: dict[int, dict[int, int]] = {}
    for number, example in enumerate(examples):
        words[id(example.words)] = example.words
        numbers.setdefault(id(example.words), {})[example.predicate] = number
    return list(words.values()), list(numbers.values())


def _probability(log_odds: float, temperature: float) -> float:
    """Of log odds that are not negative."""
    return 1 / (1 + math.exp(-log_odds / temperature))


def is_predicate(label: str) -> bool:
    """Whether a span with this label is the predicate, or a piece of it."""
    return label.removeprefix("C-") == "V"


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
