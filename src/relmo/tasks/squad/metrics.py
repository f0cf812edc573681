"""Exact match and F1 by the definition of SQuAD 1.1: predicted texts against annotated answers.

Texts are compared without case, ASCII punctuation, the articles a, an, the, and extra white space.
A prediction counts by its best-matching answer. F1 compares bags of words.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from relmo.tasks.squad.data import Question

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


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
