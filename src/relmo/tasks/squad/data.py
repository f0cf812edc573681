"""SQuAD 1.1 JSON -> questions whose answers are spans of tokens.

    {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [
        {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}

An answer is the run of tokens that covers its characters, so it can hold a little more than the
text that was asked for: `Report` counts those. Which of several equal texts is meant, only
`answer_start` says. Other keys are not looked at.
"""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, DataError
from relmo.tasks.data_files import whole_text
from relmo.text.tokenize import TreebankTokenizer
from relmo.types import Token

T = TypeVar("T", list[object], str, int)
Tokenize: TypeAlias = Callable[[str], Sequence[Token]]


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """A paragraph and its tokens; all its questions hold the same object."""

    text: str
    words: tuple[str, ...]
    starts: NDArray[np.int32]
    """(T,) where each token begins in the text."""
    ends: NDArray[np.int32]
    """(T,) where it ends."""

    def span_text(self, first_token: int, last_token: int) -> str:
        """The text of a run of tokens, both ends among them, as it stands in the paragraph."""
        start, end = self.characters(first_token, last_token)
        return self.text[start:end]

    def characters(self, first_token: int, last_token: int) -> tuple[int, int]:
        """Where a run of tokens begins in the text, and where it ends."""
        return int(self.starts[first_token]), int(self.ends[last_token])


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked for, and the tokens that cover it."""

    text: str
    first_token: int
    last_token: int
    """The last one itself, not the one past it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a paragraph; several people may have answered it."""

    id: str
    title: str
    """Of the article that the paragraph is from."""
    context: Context
    words: tuple[str, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What was read, and how well tokens fit the answers."""

    num_articles: int
    num_contexts: int
    num_questions: int
    num_answers: int
    num_inexact: int
    """Answers that begin or end inside a token or at white space: their tokens differ from them."""


def read_questions(
    path: str | Path, tokenize: Tokenize | None = None
) -> tuple[tuple[Question, ...], Report]:
    """All questions of a file, in order, and a report.

    Args:
        path: SQuAD 1.1 JSON.
        tokenize: text -> tokens; as treebanks do when none is given.
    """
    reader = _Reader(Path(path), tokenize or TreebankTokenizer().tokens)
    articles = reader.load()
    questions = tuple(q for n, article in enumerate(articles) for q in reader.article(article, n))
    return questions, Report(
        num_articles=len(articles),
        num_contexts=len({id(q.context) for q in questions}),
        num_questions=len(questions),
        num_answers=sum(len(q.answers) for q in questions),
        num_inexact=sum(not _is_exact(q, answer) for q in questions for answer in q.answers),
    )


def make_context(text: str, tokenize: Tokenize | None = None) -> Context:
    """A paragraph, tokenised: as treebanks do when no other way is given."""
    tokens = (tokenize or TreebankTokenizer().tokens)(text)
    return Context(
        text,
        tuple(sys.intern(token.text) for token in tokens),
        np.array([token.start for token in tokens], np.int32),
        np.array([token.end for token in tokens], np.int32),
    )


def split_by_title(
    questions: Iterable[Question], held_out: float = 0.1, seed: int = 0
) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
    """Questions to train on and held-out ones: whole articles, by title and seed alone.

    Args:
        questions: of one file or several.
        held_out: share of articles that are held out, on average.
        seed: another one holds out other articles.
    """
    if not 0 <= held_out <= 1:
        raise ConfigError(f"held_out is {held_out}; a share from 0 to 1 is needed")
    parts: tuple[list[Question], list[Question]] = ([], [])
    for question in questions:
        parts[_lot(question.title, seed) < held_out].append(question)
    return tuple(parts[0]), tuple(parts[1])


def answer_spans(question: Question, everywhere: bool) -> list[tuple[int, int]]:
    """First and last tokens of a question's answers, each span once.

    Args:
        question: with its answers.
        everywhere: all places of the context where an answer's words stand, besides the marked one.
    """
    marked = [(a.first_token, a.last_token) for a in question.answers]
    if not everywhere:
        return list(dict.fromkeys(marked))
    words = question.context.words
    found: dict[tuple[int, int], None] = {}
    for first, last in dict.fromkeys(marked):
        found.update(dict.fromkeys(_same_words(words, first, last)))
    return list(found)


class _Reader:
    """Reads one file; what is wrong is named by the file and the place in it."""

    def __init__(self, path: Path, tokenize: Tokenize) -> None:
        self.path, self.tokenize = path, tokenize
        self._seen: set[str] = set()

    def load(self) -> list[object]:
        """The articles of the file, not yet looked at."""
        try:
            content = json.loads(whole_text(self.path))
        except json.JSONDecodeError as error:
            what = f"not JSON ({error.msg} at column {error.colno}); is the file whole?"
            raise DataError(self.path, error.lineno, what) from error
        return self.get(content, "data", list, "top level")

    def article(self, article: object, number: int) -> Iterator[Question]:
        """The questions of an article."""
        where = f"data[{number}]"
        title = self.get(article, "title", str, where)
        for n, paragraph in enumerate(self.get(article, "paragraphs", list, where)):
            place = f"{where}.paragraphs[{n}]"
            context = make_context(self.get(paragraph, "context", str, place), self.tokenize)
            for m, qa in enumerate(self.get(paragraph, "qas", list, place)):
                yield self.question(qa, title, context, f"{place}.qas[{m}]")

    def question(self, qa: object, title: str, context: Context, place: str) -> Question:
        """A question with its answers found among the tokens."""
        name = self.get(qa, "id", str, place)
        where = f"question {name!r}"
        if name in self._seen:
            raise DataError(self.path, where, "stands there twice; each needs an id of its own")
        self._seen.add(name)
        words = tuple(
            sys.intern(t.text) for t in self.tokenize(self.get(qa, "question", str, where))
        )
        found = self.get(qa, "answers", list, where)
        if not found:
            what = "has no answer; SQuAD 1.1 is wanted, where every question has one"
            raise DataError(self.path, where, what)
        answers = tuple(self.answer(answer, context, where) for answer in found)
        return Question(name, title, context, words, answers)

    def answer(self, answer: object, context: Context, where: str) -> Answer:
        """The tokens that cover an answer."""
        text = self.get(answer, "text", str, where)
        start = self.get(answer, "answer_start", int, where)
        if start < 0 or not context.text.startswith(text, start):
            what = f"{text!r} does not stand at character {start}; was the context changed?"
            raise DataError(self.path, where, what)
        first = bisect_right(context.ends, start)  # the first token that ends after the start
        last = bisect_left(context.starts, start + len(text)) - 1
        if last < first:
            raise DataError(self.path, where, f"the answer {text!r} holds no token; remove it")
        return Answer(text, first, last)

    def get(self, table: object, key: str, kind: type[T], where: str) -> T:
        """What stands under a key, of the right kind."""
        if not isinstance(table, dict):
            what = f"an object with {key!r} is wanted, {_kind(table)} came"
            raise DataError(self.path, where, what)
        value = table.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            came = _kind(value) if key in table else "missing"
            what = f"{key!r} is {came}, {_kind(kind())} is wanted; is this SQuAD 1.1?"
            raise DataError(self.path, where, what)
        return value


_KINDS = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), repr(value))


def _is_exact(question: Question, answer: Answer) -> bool:
    """Whether the tokens say just what the answer says."""
    return question.context.span_text(answer.first_token, answer.last_token) == answer.text


def _same_words(words: tuple[str, ...], first: int, last: int) -> Iterator[tuple[int, int]]:
    """All runs of words that are those from first to last, that one among them."""
    wanted = words[first : last + 1]
    at = -1
    for _ in range(words.count(wanted[0])):
        at = words.index(wanted[0], at + 1)
        if words[at : at + len(wanted)] == wanted:
            yield at, at + len(wanted) - 1


def _lot(title: str, seed: int) -> float:
    """A number from 0 to 1 that a title draws, the same whenever it does."""
    text = f"{seed} {title}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64
