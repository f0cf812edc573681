"""Question answering as a task: the answer is a span of the paragraph's text.

It is scored by the definition of SQuAD 1.1: predicted texts and annotated answers are compared
without case, ASCII punctuation, the articles a, an, the, and extra white space. A prediction counts
by its best-matching answer. F1 compares bags of words.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from relmo.errors import ConfigError
from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part, find_part, need_part, tab_pairs
from relmo.tasks.inputs import TokenBatch, TokenInput, Words
from relmo.tasks.labelled import LabelledTask
from relmo.tasks.plain_text import split_text
from relmo.tasks.squad.data import (
    Question,
    answer_spans,
    make_context,
    read_questions,
    split_by_title,
)
from relmo.tasks.squad.model import SquadModel, SquadSettings
from relmo.tasks.tables import NO_COLUMNS, Columns

HELD_OUT = 0.05
"""Share of the training articles that are held out as development part if there is no test part."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

TokenSpan = tuple[int, int]
"""First and last token of an answer in its paragraph."""


class SquadTask(LabelledTask[Question, TokenSpan | None, SquadSettings]):
    """Answers questions about paragraphs; scored by the answers' texts."""

    score = "dev_f1"
    answers_lines = True
    noun = "questions"
    settings_type = SquadSettings
    suffixes = (".json",)
    net: SquadModel

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

    def read_text(self, lines: Iterable[str]) -> Iterator[Question]:
        """The question of each line that is not blank: question, tab, paragraph."""
        for number, question, paragraph in tab_pairs(lines, "a question", "its paragraph"):
            words = tuple(split_text(question))
            yield Question(str(number), "", make_context(paragraph), words, ())

    def describe(self, example: Question, prediction: TokenSpan | None) -> dict[str, Any]:
        """The question, its answer and the answer's offsets, `paragraph[start:end]`."""
        found: dict[str, Any] = {"id": example.id, "question": " ".join(example.words)}
        found["answer"] = self.render(example, prediction)
        if prediction:
            found["start"], found["end"] = example.context.characters(*prediction)
        return found

    def render(self, example: Question, prediction: TokenSpan | None) -> str:
        """The answer, as written in the paragraph."""
        return example.context.span_text(*prediction) if prediction else ""

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
        answers = [self.render(e, p) for e, p in zip(examples, predictions, strict=True)]
        exact_match, f1 = evaluate(examples, answers)
        return {"f1": f1, "exact_match": exact_match}


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
