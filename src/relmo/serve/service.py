"""What the routes ask for: requests checked against the limits, then read by the batcher."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextError, TextWarning
from relmo.runtime.pooling import normalize
from relmo.serve.batcher import Batcher, QueueClosed, QueueFull
from relmo.serve.bodies import SearchBody
from relmo.serve.meters import Meters
from relmo.serve.problems import Refusal
from relmo.serve.settings import Limits
from relmo.serve.shelf import Index
from relmo.text.sentences import split_sentences
from relmo.types import Token, Vectors

Result = TypeVar("Result")
INLINE_CHARACTERS = 4000
"""Text up to this is split where it came in; more would hold up the other requests."""
NAMELESS = "elmo"
"""What a model without a name is called."""
SOFTMAX_COST = 64
"""A look into the softmax costs about as much as so many tokens."""


@dataclass(frozen=True)
class Given:
    """A sentence as it came: its words and, where it was text, their places in it."""

    words: list[str]
    tokens: list[Token] | None


class Service:
    """A model, perhaps an index, and the thread that uses them."""

    def __init__(
        self, elmo: Elmo, limits: Limits, meters: Meters, index: Index | None = None
    ) -> None:
        self.elmo, self.limits, self.index = elmo, limits, index
        self.name = elmo.config.name or NAMELESS
        self.num_layers = elmo.config.num_layers
        self.batcher = Batcher(
            lambda sentences: elmo.embed(sentences, batch_tokens=limits.batch_tokens),
            batch_tokens=limits.batch_tokens,
            queue_tokens=limits.queue_tokens,
            queue_requests=limits.queue_requests,
            report=meters.batch,
        )
        meters.watch_queue(lambda: self.batcher.tokens, lambda: self.batcher.requests)

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken."""
        return self.batcher.is_open

    def close(self) -> None:
        """Finish what was accepted."""
        self.batcher.close()

    async def encode(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """(N, D) of length one, as `Elmo.encode` pools them, and the number of words read."""
        self._check_count(len(texts), "input")
        parts = await _aside(lambda: self._split(texts), sum(map(len, texts)))
        sentences = [sentence for part in parts for sentence in part]
        sums = await self._wait(self.batcher.embed(sentences, _sum))  # each (D,)
        pooled, end = [], 0
        for part in parts:
            begin, end = end, end + len(part)
            pooled.append(np.sum(sums[begin:end], 0, np.float64) / sum(map(len, part)))
        vectors = np.stack(pooled).astype(np.float32)  # (N, D)
        return normalize(vectors), sum(map(len, sentences))

    async def layers(
        self, sentences: Sequence[Given], keep: Callable[[Vectors], Vectors]
    ) -> list[Vectors]:
        """What is kept of (L + 1, T, D) of each sentence."""
        return await self._wait(self.batcher.embed([given.words for given in sentences], keep))

    async def given(self, sentences: Sequence[str | Sequence[str]]) -> list[Given]:
        """Sentences split into words, or token lists as they are; within the limits."""
        self._check_count(len(sentences), "sentences")
        size = sum(len(s) for s in sentences if isinstance(s, str))
        found = await _aside(lambda: [self._words(s, i) for i, s in enumerate(sentences)], size)
        self._check_tokens((given.words for given in found), "sentences")
        return found

    async def substitutes(self, given: Given, position: int, k: int) -> list[tuple[str, float]]:
        """The k words that fit best at a position."""
        self._check_results(k)
        if position >= len(given.words):
            text = f"position {position} of {len(given.words)} words; count from 0"
            raise Refusal(422, text, code="no_such_position", param="position")

        def call() -> list[tuple[str, float]]:
            return self.elmo.lm.substitutes(given.words, position, k)

        try:
            cost = len(given.words) + SOFTMAX_COST
            return await self._wait(self.batcher.call(call, cost))
        except ConfigError as error:
            raise Refusal(404, str(error), code="no_softmax") from error

    async def search(self, body: SearchBody) -> Sequence[Mapping[str, Any]]:
        """The passages of the served index that are nearest to the query."""
        index = self.index
        if index is None:
            text = "no index is served; start the server with --index INDEX (see relmo index)"
            raise Refusal(404, text, code="no_index")
        self._check_results(body.k)
        given = await self.given([body.query])
        if not given[0].words:
            raise Refusal(422, "the query has no words", code="no_words", param="query")
        cost = len(given[0].words) + SOFTMAX_COST

        def call() -> Sequence[Mapping[str, Any]]:
            return index.search(
                body.query,
                body.k,
                hybrid=body.hybrid,
                where=body.where,
                documents=body.documents,
            )

        return await self._wait(self.batcher.call(call, cost))

    # ── limits ──────────────────────────────────────────────────────────────────────────────

    def _split(self, texts: Sequence[str]) -> list[list[list[str]]]:
        """The words of each sentence of each text."""
        parts: list[list[list[str]]] = []
        room = self.limits.tokens
        for number, text in enumerate(texts):
            part = [
                [token.text for token in self.elmo.tokens(text[start:end])]
                for start, end in split_sentences(text)
            ]
            if not part:
                text = f"text {number} has no words; leave it out"
                raise Refusal(422, text, code="no_words", param="input")
            parts.append(part)
            room -= sum(map(len, part))
            if room < 0:
                break  # the check below says so; the rest need not be split for it
        self._check_tokens((sentence for part in parts for sentence in part), "input")
        return parts

    def _words(self, sentence: str | Sequence[str], number: int) -> Given:
        if isinstance(sentence, str):
            tokens = self.elmo.tokens(sentence)
            return Given([token.text for token in tokens], tokens)
        spaced = next((p for p, word in enumerate(sentence) if word and word.split() != [word]), -1)
        if spaced >= 0:
            text = f"token {spaced} of sentence {number} holds white space; send text as a string"
            raise Refusal(422, text, code="token_with_space", param="sentences")
        return Given(list(sentence), None)

    def _check_count(self, count: int, param: str) -> None:
        if count > self.limits.texts:
            text = f"{count:,} texts came; one request takes {self.limits.texts:,}"
            raise Refusal(422, text, code="too_many_texts", param=param)

    def _check_tokens(self, sentences: Iterable[Sequence[str]], param: str) -> None:
        counts = [len(sentence) for sentence in sentences]
        if sum(counts) > self.limits.tokens:
            text = f"the texts have more than {self.limits.tokens:,} words; send fewer at once"
            raise Refusal(422, text, code="too_many_tokens", param=param)
        if max(counts, default=0) > self.limits.sentence_tokens:
            text = f"a sentence has {max(counts):,} words; one may have "
            text += f"{self.limits.sentence_tokens:,}: split it"
            raise Refusal(422, text, code="sentence_too_long", param=param)

    def _check_results(self, k: int) -> None:
        if k > self.limits.results:
            text = f"k is {k}; ask for {self.limits.results:,} at most"
            raise Refusal(422, text, code="too_many_results", param="k")

    def check_values(self, words: int, num_layers: int) -> None:
        """Raise Refusal for an answer that would be too large."""
        values = words * num_layers * self.elmo.config.width
        if values > self.limits.values:
            text = f"the answer would hold {values:,} numbers; one may hold "
            text += f"{self.limits.values:,}: send fewer sentences or choose fewer layers"
            raise Refusal(422, text, code="answer_too_large", param="sentences")

    async def _wait(self, future: Future[Result]) -> Result:
        return await asyncio.wrap_future(future)


def refusal_of(error: Exception) -> Refusal:
    """What the batcher or the model says, as an answer."""
    if isinstance(error, QueueFull):
        wait = {"retry-after": str(error.seconds)}
        return Refusal(429, str(error), code="queue_full", headers=wait)
    if isinstance(error, QueueClosed):
        return Refusal(503, str(error), code="going_down", headers={"retry-after": "5"})
    assert isinstance(error, TextError)
    return Refusal(422, "the text cannot be read: it needs more memory than there is", code="text")


def warm_up(elmo: Elmo) -> None:
    """Read one sentence, so that the first request finds everything in place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)
        elmo.embed([["The", "bank", "of", "the", "river", "."]])


def _sum(layers: Vectors) -> Vectors:
    """(L + 1, T, D) -> (D,): the mean of the layers, summed over the words."""
    return np.asarray(layers.mean(0).sum(0))


async def _aside(work: Callable[[], Result], size: int) -> Result:
    """Do what is short at once, and what is long in another thread."""
    if size <= INLINE_CHARACTERS:
        return work()
    return await asyncio.to_thread(work)
