"""Question answering as a task: the answer is a span of the paragraph's text.

It is scored by the definition of SQuAD 1.1: predicted texts and annotated answers are compared
without case, ASCII punctuation, the articles a, an, the, and extra white space. A prediction counts
by its best-matching answer. F1 compares bags of words.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from relmo.errors import ConfigError
from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part, find_part, need_part
from relmo.tasks.inputs import TokenBatch, TokenInput, Words
from relmo.tasks.labelled import LabelledTask
from relmo.tasks.mistakes import MISSED, WRONG, WRONG_EXTENT, TaskError
from relmo.tasks.plain_text import split_text
from relmo.tasks.results import Answer
from relmo.tasks.squad.data import (
    Context,
    Question,
    answer_spans,
    make_context,
    read_questions,
    split_by_title,
)
from relmo.tasks.squad.model import SpanEnds, SquadModel, SquadSettings, best_spans
from relmo.tasks.tables import NO_COLUMNS, Columns

HELD_OUT = 0.05
"""Share of the training articles that are held out as development part if there is no test part."""
WINDOW, OVERLAP = 400, 60
"""Words of a long text that are read together, as in training, and words that two windows share."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

TokenSpan = tuple[int, int]
"""First and last token of an answer in its paragraph."""


class SquadTask(LabelledTask[Question, TokenSpan | None, SquadSettings]):
    """Answers questions about paragraphs; scored by the answers' texts."""

    score = "dev_f1"
    text_names = ("question", "text")
    has_scores = True
    noun = "questions"
    settings_type = SquadSettings
    suffixes = (".json",)
    net: SquadModel
    threshold: float = 0.0
    """Answers with a lower score are not given."""

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Build the model."""
        self.net = SquadModel(self.settings, tokens)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Question]:
        """Questions of a SQuAD 1.1 file."""
        return list(read_questions(path))

    @classmethod
    def parts(cls, folder: Path, columns: Columns = NO_COLUMNS) -> dict[Part, list[Question]]:
        """Questions of each part of a folder.

        SQuAD's own test part is not public. Without a test file, the dev file is the test part, and
        whole articles of the training file are held out as development part.
        """
        train = cls.read(need_part(folder, "train", cls.suffixes), "train")
        dev = cls.read(need_part(folder, "dev", cls.suffixes), "dev")
        test = find_part(folder, "test", cls.suffixes)
        if test is not None:
            return {"train": train, "dev": dev, "test": cls.read(test, "test")}
        kept, held_out = split_by_title(train, HELD_OUT)
        if not kept or not held_out:
            raise ConfigError(
                f"{folder}: {len({q.title for q in train})} training articles are too few to hold "
                f"some out; add more, or add a file with test in its name"
            )
        return {"train": kept, "dev": held_out, "test": dev}

    @classmethod
    def facts_of(cls, train: Sequence[Question]) -> dict[str, Any]:
        """Nothing: answers are spans of the given text."""
        return {}

    @classmethod
    def sentences(cls, example: Question) -> list[Words]:
        """The paragraph, read as one sentence, and the question."""
        return [example.context.words, example.words]

    @classmethod
    def split_by(cls, example: Question) -> tuple[str, Any]:
        """Questions about the same article stay together; without titles, about a paragraph."""
        return "", example.title or example.context.words

    def read_input(self, *texts: str) -> list[Question]:
        """The question, about each window of the text."""
        question, text = texts
        if not (words := tuple(split_text(question))):
            return []
        return [Question("", "", context, words, ()) for context in windows(make_context(text))]

    def results(
        self, examples: Sequence[Question], outputs: SpanEnds | None, temperature: float
    ) -> list[list[Answer]]:
        """The most probable answer to each question; none in a text without words."""
        asked = [e for e in examples if e.context.words]
        if outputs is None:
            return [[] for _ in examples]
        tempered = SpanEnds(*((each.double() / temperature).log_softmax(-1) for each in outputs))
        spans = best_spans(tempered, self.settings.max_span)  # (B, 2)
        log_p = tempered.starts.gather(1, spans[:, :1]) + tempered.ends.gather(1, spans[:, 1:])
        found = iter(zip(asked, spans.tolist(), log_p.exp()[:, 0].tolist(), strict=True))
        return [[_answer(*next(found))] if e.context.words else [] for e in examples]

    def outputs(self, examples: Sequence[Question]) -> SpanEnds | None:
        """Where answers start and end; None if all texts are empty."""
        asked = [e for e in examples if e.context.words]
        return self.net(*self.model_inputs(asked)) if asked else None

    def answer_batch(self, examples: Sequence[Question]) -> list[list[Answer]]:
        """The answer to each question, unless its score is below the threshold."""
        found = super().answer_batch(examples)
        return [[answer for answer in each if answer.score >= self.threshold] for each in found]

    def is_right(self, example: Question, result: Answer) -> bool:
        """Whether the answer is exactly one of the annotated ones, by SQuAD's definition."""
        return best_scores(result.text, (a.text for a in example.answers))[0] == 100

    def errors_of(self, example: Question, found: Sequence[Answer]) -> Iterator[TaskError]:
        """The answer, unless it is right: another one, of a wrong extent, or none."""
        said = found[0] if found else None
        if said is None or not self.is_right(example, said):
            texts = dict.fromkeys(answer.text for answer in example.answers)
            kind = MISSED
            if said is not None:
                kind = WRONG_EXTENT if best_scores(said.text, texts)[1] else WRONG
            yield TaskError(
                kind=kind,
                gold=" | ".join(texts),
                predicted="" if said is None else said.text,
                score=None if said is None else said.score,
                text=" ".join(example.words),
            )

    def calibrate(self, examples: Sequence[Question]) -> None:
        """Choose the temperature, and the threshold by questions about other paragraphs."""
        super().calibrate(examples)
        if moved := moved_questions(examples):
            judged = (self._judge(each)(self.temperature) for each in (examples, moved))
            self.threshold = best_threshold(*([score for score, _ in each] for each in judged))

    def calibration(self) -> dict[str, float]:
        """Temperature and threshold."""
        return {**super().calibration(), "threshold": self.threshold}

    def use_calibration(self, found: Mapping[str, float]) -> None:
        """Take over temperature and threshold."""
        super().use_calibration(found)
        self.threshold = found.get("threshold", 0.0)

    def length(self, example: Question) -> int:
        """Words of the paragraph."""
        return len(example.context.words)

    def model_inputs(self, examples: Sequence[Question]) -> tuple[TokenBatch, TokenBatch]:
        """A batch of questions and one of contexts."""
        contexts, questions = zip(*map(self.sentences, examples), strict=True)
        return self.inputs(questions), self.inputs(contexts)

    def targets(self, examples: Sequence[Question]) -> tuple[Tensor, Tensor]:
        """(B, N, 2) first and last tokens of correct answers, and (B, N) false at padding."""
        found = [answer_spans(e, self.settings.all_occurrences) for e in examples]
        spans = np.zeros((len(found), max(map(len, found)), 2), np.int64)  # (B, N, 2)
        is_span = np.zeros(spans.shape[:2], bool)  # (B, N)
        for b, each in enumerate(found):
            spans[b, : len(each)] = each
            is_span[b, : len(each)] = True
        return to_device(spans, self.device), to_device(is_span, self.device)

    def predict_batch(self, examples: Sequence[Question]) -> list[TokenSpan | None]:
        """The answer to each question; None if the paragraph is empty."""
        asked = [e for e in examples if e.context.words]
        spans = iter(self.net.decode(*self.model_inputs(asked)) if asked else ())
        return [next(spans) if e.context.words else None for e in examples]

    def scores(
        self, examples: Sequence[Question], predictions: Sequence[TokenSpan | None]
    ) -> dict[str, float]:
        """F1 and exact match by SQuAD's definition."""
        pairs = zip(examples, predictions, strict=True)
        answers = [e.context.span_text(*span) if span else "" for e, span in pairs]
        exact_match, f1 = evaluate(examples, answers)
        return {"f1": f1, "exact_match": exact_match}


def _answer(question: Question, span: Sequence[int], score: float) -> Answer:
    first, last = span
    start, end = question.context.characters(first, last)
    return Answer(question.context.text[start:end], start, end, score)


def windows(context: Context) -> list[Context]:
    """A text in windows of at most WINDOW words, which overlap by OVERLAP."""
    starts = range(0, max(len(context.words) - OVERLAP, 1), WINDOW - OVERLAP)
    return [context.cut(first, first + WINDOW) for first in starts]


def moved_questions(questions: Sequence[Question]) -> list[Question]:
    """Each question about the next paragraph of its article that does not contain its answer."""
    by_title: dict[str, list[Context]] = {}
    for question in questions:
        contexts = by_title.setdefault(question.title, [])
        if not contexts or contexts[-1] is not question.context:
            contexts.append(question.context)
    moved = []
    for question in questions:
        texts = [answer.text.lower() for answer in question.answers]
        others = by_title[question.title]
        places = [n for n, other in enumerate(others) if other is question.context]
        place = places[0] if places else 0
        for other in [*others[place + 1 :], *others[:place]]:
            if not any(text in other.text.lower() for text in texts):
                moved.append(replace(question, context=other, answers=()))
                break
    return moved


def best_threshold(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """The score at which most answerable questions are answered and most others are not."""
    scores = np.sort([*answerable, *unanswerable])
    kept = np.mean(np.array(answerable)[:, None] >= scores, 0)  # (thresholds,)
    refused = np.mean(np.array(unanswerable)[:, None] < scores, 0)
    return float(scores[np.argmax(kept + refused)])


def evaluate(questions: Sequence[Question], predictions: Sequence[str]) -> tuple[float, float]:
    """Mean exact match and F1 over all questions, in percent, given an answer for each."""
    if not questions:
        return 0.0, 0.0
    pairs = zip(questions, predictions, strict=True)
    scores = [best_scores(text, (a.text for a in question.answers)) for question, text in pairs]
    exact_match, f1 = np.mean(scores, 0).tolist()
    return exact_match, f1


def best_scores(prediction: str, answers: Iterable[str]) -> tuple[float, float]:
    """Exact match and F1 in percent, each for the answer that maximizes it."""
    words = normalize(prediction)
    pairs = [(words, normalize(answer)) for answer in answers]
    exact_match = max((100.0 * (ours == theirs) for ours, theirs in pairs), default=0.0)
    return exact_match, max((_f1(ours, theirs) for ours, theirs in pairs), default=0.0)


def normalize(text: str) -> list[str]:
    """The normalized words of a text: "The  U.S.!" -> us."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _f1(ours: list[str], theirs: list[str]) -> float:
    """F1 of two bags of words in percent; 0 if they share nothing, even if both are empty."""
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 200.0 * shared / (len(ours) + len(theirs)) if shared else 0.0
