"""SQuAD 1.1 JSON -> questions whose answers are spans of tokens.

    {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [
        {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}

An answer is the span of tokens that covers its characters, so it can contain a little more than
the annotated text. `answer_start` distinguishes equal texts. Other keys are ignored.
"""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from relmo.errors import DataError
from relmo.tasks.data_files import whole_text
from relmo.tasks.plain_text import split_text
from relmo.text.tokenize import TreebankTokenizer

T = TypeVar("T", list[object], str, int)


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """A paragraph and its tokens; all its questions share the same object."""

    text: str
    words: tuple[str, ...]
    starts: NDArray[np.int32]
    """(T,) offset of each token's first character."""
    ends: NDArray[np.int32]
    """(T,) offset past its last character."""

    def span_text(self, first_token: int, last_token: int) -> str:
        """The text of a span of tokens, both ends included, as in the paragraph."""
        start, end = self.characters(first_token, last_token)
        return self.text[start:end]

    def characters(self, first_token: int, last_token: int) -> tuple[int, int]:
        """Start and end offsets of a span of tokens in the text."""
        return int(self.starts[first_token]), int(self.ends[last_token])

    def cut(self, first_token: int, past_token: int) -> Context:
        """Some of the tokens, with their offsets in the whole text."""
        kept = slice(first_token, past_token)
        return Context(self.text, self.words[kept], self.starts[kept], self.ends[kept])


@dataclass(frozen=True, slots=True)
class Answer:
    """The annotated text, and the tokens that cover it."""

    text: str
    first_token: int
    last_token: int
    """The last token itself, not the one past it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a paragraph; several annotators may have answered it."""

    id: str
    title: str
    """Title of the paragraph's article."""
    context: Context
    words: tuple[str, ...]
    answers: tuple[Answer, ...]


def read_questions(path: str | Path) -> tuple[Question, ...]:
    """All questions of a file of SQuAD 1.1 JSON, in order."""
    reader = _Reader(Path(path))
    return tuple(q for n, article in enumerate(reader.load()) for q in reader.article(article, n))


def make_context(text: str) -> Context:
    """A paragraph, tokenized as treebanks are."""
    tokens = TreebankTokenizer().tokens(text)
    return Context(
        text,
        tuple(sys.intern(token.text) for token in tokens),
        np.array([token.start for token in tokens], np.int32),
        np.array([token.end for token in tokens], np.int32),
    )


def split_by_title(
    questions: Iterable[Question], held_out: float
) -> tuple[list[Question], list[Question]]:
    """Training questions and held-out ones: whole articles, chosen by a hash of the title alone.

    `held_out` is the expected share of the articles that are held out.
    """
    parts: tuple[list[Question], list[Question]] = ([], [])
    for question in questions:
        title = f"0 {question.title}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.blake2b(title, digest_size=8).digest(), "big") / 2**64
        parts[number < held_out].append(question)
    return parts


def answer_spans(question: Question, everywhere: bool) -> list[tuple[int, int]]:
    """First and last tokens of a question's answers, each span once.

    With `everywhere`, all other occurrences of an answer's words in the context are included.
    """
    marked = dict.fromkeys((a.first_token, a.last_token) for a in question.answers)
    if not everywhere:
        return list(marked)
    words = question.context.words
    return list(dict.fromkeys(span for each in marked for span in _same_words(words, *each)))


class _Reader:
    """Reads one file; errors name the file and the place in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: set[str] = set()

    def load(self) -> list[object]:
        """The articles of the file, not yet checked."""
        try:
            content = json.loads(whole_text(self.path))
        except json.JSONDecodeError as error:
            what = f"invalid JSON ({error.msg} at column {error.colno}); is the file complete?"
            raise DataError(self.path, error.lineno, what) from error
        return self.get(content, "data", list, "top level")

    def article(self, article: object, number: int) -> Iterator[Question]:
        """The questions of an article."""
        where = f"data[{number}]"
        title = self.get(article, "title", str, where)
        for n, paragraph in enumerate(self.get(article, "paragraphs", list, where)):
            place = f"{where}.paragraphs[{n}]"
            context = make_context(self.get(paragraph, "context", str, place))
            for m, qa in enumerate(self.get(paragraph, "qas", list, place)):
                yield self.question(qa, title, context, f"{place}.qas[{m}]")

    def question(self, qa: object, title: str, context: Context, place: str) -> Question:
        """A question with the tokens of its answers."""
        name = self.get(qa, "id", str, place)
        where = f"question {name!r}"
        if name in self._seen:
            raise DataError(self.path, where, "duplicate id; every question needs its own")
        self._seen.add(name)
        words = tuple(map(sys.intern, split_text(self.get(qa, "question", str, where))))
        found = self.get(qa, "answers", list, where)
        if not found:
            what = "no answers; expected SQuAD 1.1, where every question has at least one"
            raise DataError(self.path, where, what)
        answers = tuple(self.answer(answer, context, where) for answer in found)
        return Question(name, title, context, words, answers)

    def answer(self, answer: object, context: Context, where: str) -> Answer:
        """The tokens that cover an answer."""
        text = self.get(answer, "text", str, where)
        start = self.get(answer, "answer_start", int, where)
        if start < 0 or not context.text.startswith(text, start):
            what = f"{text!r} is not at character {start}; was the context changed?"
            raise DataError(self.path, where, what)
        first = bisect_right(context.ends, start)  # the first token that ends after the start
        last = bisect_left(context.starts, start + len(text)) - 1
        if last < first:
            raise DataError(self.path, where, f"the answer {text!r} contains no token; remove it")
        return Answer(text, first, last)

    def get(self, table: object, key: str, kind: type[T], where: str) -> T:
        """The value of a key, checked to be of a type."""
        if not isinstance(table, dict):
            what = f"expected an object with {key!r}, got {_kind(table)}"
            raise DataError(self.path, where, what)
        value = table.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            came = f"got {_kind(value)}" if key in table else "which is missing"
            what = f"expected {_kind(kind())} for {key!r}, {came}; is this SQuAD 1.1?"
            raise DataError(self.path, where, what)
        return value


_KINDS = {dict: "an object", list: "a list", str: "a string", int: "an integer"}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), repr(value))


def _same_words(words: tuple[str, ...], first: int, last: int) -> Iterator[tuple[int, int]]:
    """All spans with the words of the span from first to last, that span included."""
    wanted = words[first : last + 1]
    at = -1
    for _ in range(words.count(wanted[0])):
        at = words.index(wanted[0], at + 1)
        if words[at : at + len(wanted)] == wanted:
            yield at, at + len(wanted) - 1
