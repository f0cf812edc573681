"""Exact match and F1 by the definition of SQuAD 1.1: predicted texts against people's answers.

Texts are compared without case, ASCII punctuation, the articles a, an, the, and extra white space.
A prediction counts by the answer it fits best. F1 is that of the two bags of words.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relmo.tasks.squad.data import Question

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, slots=True)
class SquadScore:
    """Means over all questions, in percent."""

    exact_match: float
    f1: float
    num_questions: int
    missing: tuple[str, ...]
    """Ids of questions without a prediction; they count 0."""


def evaluate(questions: Sequence[Question], predictions: Mapping[str, str]) -> SquadScore:
    """Score predictions, question id -> answer; those of other questions are not looked at."""
    exact_match, f1 = question_scores(questions, predictions).mean(0) if questions else (0.0, 0.0)
    missing = tuple(question.id for question in questions if question.id not in predictions)
    return SquadScore(float(exact_match), float(f1), len(questions), missing)


def question_scores(
    questions: Sequence[Question], predictions: Mapping[str, str]
) -> NDArray[np.float64]:
    """(questions, 2) exact match and F1 of each one, in percent."""
    scores = np.zeros((len(questions), 2))
    for row, question in zip(scores, questions, strict=True):
        if question.id in predictions:
            row[:] = best_scores(predictions[question.id], (a.text for a in question.answers))
    return scores


def best_scores(prediction: str, answers: Iterable[str]) -> tuple[float, float]:
    """Exact match and F1 in percent, each by the answer that gives most."""
    words = normalize(prediction)
    pairs = [(words, normalize(answer)) for answer in answers]
    exact_match = max((100.0 * (ours == theirs) for ours, theirs in pairs), default=0.0)
    return exact_match, max((_f1(ours, theirs) for ours, theirs in pairs), default=0.0)


def normalize(text: str) -> list[str]:
    """The words of a text that are compared: "The  U.S.!" -> us."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _f1(ours: list[str], theirs: list[str]) -> float:
    """F1 of two bags of words in percent; 0 where nothing is shared, even if both are empty."""
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 200.0 * shared / (len(ours) + len(theirs)) if shared else 0.0
