"""What the routes call: tokenizes and checks a request's text, then queues it for the model."""

from __future__ import annotations

import asyncio
import functools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextWarning
from relmo.layers import choose_layers
from relmo.runtime.pooling import normalize, pool
from relmo.search import Hit, SemanticIndex
from relmo.search.index import HitsTooLong
from relmo.search.store import SearchTimeout
from relmo.serve.batcher import Batcher
from relmo.serve.errors import ApiError, invalid
from relmo.serve.limits import Limits
from relmo.serve.monitoring import Metrics
from relmo.serve.schemas import SearchBody, SubstitutesBody
from relmo.text.lexicon import WATCHED
from relmo.text.sentences import split_sentences
from relmo.types import Token, Vectors

Result = TypeVar("Result")
INLINE_CHARACTERS = 4000
"""Longer text is tokenized in another thread, so that it does not block other requests."""
UNNAMED = "elmo"
"""Name served for a model without one."""
CLOSE_SECONDS = 5.0
"""Time for a batch in progress to end, after all requests are answered or dropped."""
EXTRA_COST = 64
"""A softmax takes about as long as this many tokens, and a search at least."""
LIMIT_ERRORS = {
    "texts": ("too_many_texts", "texts in a request", "send several requests"),
    "characters": ("too_many_characters", "characters in a request", "send several requests"),
    "query_characters": ("query_too_long", "characters in a query", "shorten it"),
    "tokens": ("too_many_tokens", "words in a request", "send several requests"),
    "sentence_tokens": ("sentence_too_long", "words in a sentence", "split it"),
    "values": ("answer_too_large", "numbers in a response", "send less text or ask for one layer"),
    "results": ("too_many_results", "results", "choose a smaller k"),
}
"""Name of a limit -> (error code, what it counts, what to do)."""


@dataclass(frozen=True)
class TokenizedSentence:
    """The words of a sentence, with character offsets if it was sent as a string."""

    words: list[str]
    tokens: list[Token] | None


class Service:
    """A model, optionally an index, and the thread that uses them."""

    def __init__(
        self, elmo: Elmo, limits: Limits, metrics: Metrics, index: SemanticIndex | None = None
    ) -> None:
        self.elmo, self.limits, self.index = elmo, limits, index
        self.name = elmo.config.name or UNNAMED
        self.num_layers, self.width = elmo.config.num_layers, elmo.config.width
        self.batcher = Batcher(
            lambda sentences: elmo.embed(sentences, batch_tokens=limits.batch_tokens),
            limits,
            metrics.count_batch,
        )
        self._tokenizing = asyncio.Lock()
        self._search_cost = float(EXTRA_COST)
        """Of a search, and of each condition of its filter, in tokens; from the searches so far."""
        metrics.watch_queue(lambda: self.batcher.tokens, lambda: self.batcher.requests)

    async def encode(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Unit-length vectors (N, D), pooled as `Elmo.encode` pools, and the number of words."""
        self.check_limit("texts", len(texts), "input")
        parts = await self._in_background(lambda: self._split(texts), sum(map(len, texts)), "input")
        sentences = [sentence for part in parts for sentence in part]
        means = await asyncio.wrap_future(self.batcher.embed(sentences, _mean))  # each (D,)
        rest, pooled = iter(means), []
        for part in parts:
            counts = np.array([len(sentence) for sentence in part], np.float32)
            pooled.append(pool(np.stack([next(rest) for _ in part]), "mean", counts))
        return normalize(np.stack(pooled)), sum(map(len, sentences))  # (N, D)

    async def embed(
        self, sentences: Sequence[TokenizedSentence], reduce: Callable[[Vectors], Vectors]
    ) -> list[Vectors]:
        """Apply `reduce` to the layers (L + 1, T, D) of each sentence."""
        words = [sentence.words for sentence in sentences]
        return await asyncio.wrap_future(self.batcher.embed(words, reduce))

    async def sense_vectors(self, sentences: Sequence[TokenizedSentence]) -> list[Vectors]:
        """Sense vectors of each sentence, (T, P + L D); other requests are served in between."""
        ends = np.cumsum([len(sentence.words) for sentence in sentences])
        found: list[Vectors] = []
        batches = zip(ends // self.limits.batch_tokens, sentences, strict=True)
        for _, batch in groupby(batches, lambda pair: pair[0]):
            words = [sentence.words for _, sentence in batch]
            read = functools.partial(self.elmo.sense_vectors, words)
            found += await asyncio.wrap_future(self.batcher.call(read, sum(map(len, words))))
        return found

    def note_on(self, sentences: Sequence[TokenizedSentence]) -> dict[str, str]:
        """For an answer: a note on the first sentence in a script that the model does not know."""
        lexicon = self.elmo.lexicon
        found = (lexicon and lexicon.strange_script(s.words) for s in sentences[:WATCHED])
        note = next(filter(None, found), None)
        return {"note": note} if isinstance(note, str) else {}

    async def tokenize(self, sentences: Sequence[str | Sequence[str]]) -> list[TokenizedSentence]:
        """Tokenize strings, take token lists as they are, and check both against the limits."""
        self.check_limit("texts", len(sentences), "sentences")
        size = sum(len(s) if isinstance(s, str) else sum(map(len, s)) for s in sentences)
        return await self._in_background(lambda: self._tokenize_all(sentences), size, "sentences")

    async def substitutes(
        self, words: Sequence[str], body: SubstitutesBody
    ) -> list[tuple[str, float]]:
        """The most likely words at a position, with their scores."""
        position, k = body.position, self._num_results(body)
        if position >= len(words):
            text = f"position {position} is out of range for a sentence of {len(words)} words"
            raise invalid(text, "no_such_position", "position")
        try:
            return await self._call(lambda: self.elmo.lm.substitutes(words, position, k), words)
        except ConfigError as error:
            raise ApiError(404, str(error), code="no_softmax") from error

    async def search(self, body: SearchBody) -> list[Hit]:
        """The passages of the served index that are nearest to the query."""
        index = self.index
        if index is None:
            text = "no index is served; start the server with --index INDEX (see relmo index)"
            raise ApiError(404, text, code="no_index")
        k = self._num_results(body)
        self.check_limit("query_characters", len(body.query), "query")
        (query,) = await self.tokenize([body.query])
        if not query.words:
            raise invalid("the query contains no words", "no_words", "query")
        limits = self.limits
        find = functools.partial(
            index.search,
            body.query,
            k,
            where=body.where,
            hybrid=body.hybrid,
            by_document=body.documents,
            max_seconds=limits.search_seconds,
            max_characters=limits.hit_characters,
        )
        conditions = 1 + len(body.where or ())

        def measured() -> list[Hit]:
            begin = time.perf_counter()
            try:
                return find()
            finally:
                tokens = (time.perf_counter() - begin) * self.batcher.rate / conditions
                self._search_cost = max(EXTRA_COST, tokens, 0.9 * self._search_cost)

        try:
            cost = len(query.words) + conditions * int(self._search_cost)
            return await asyncio.wrap_future(self.batcher.call(measured, cost))
        except HitsTooLong as error:
            raise invalid(f"{error}; choose a smaller k", "answer_too_large", "k") from error
        except SearchTimeout as error:
            text = f"the search took longer than {limits.search_seconds} s; use a simpler filter"
            raise ApiError(503, text, code="search_timeout") from error

    def close(self) -> None:
        """Finish what was accepted and end the thread; a search that does not end is ended."""
        if not self.batcher.close(CLOSE_SECONDS) and self.index is not None:
            self.index.store.interrupt()
        self.batcher.close(CLOSE_SECONDS)

    async def _call(self, call: Callable[[], Result], words: Sequence[str]) -> Result:
        return await asyncio.wrap_future(self.batcher.call(call, len(words) + EXTRA_COST))

    def _split(self, texts: Sequence[str]) -> list[list[list[str]]]:
        """The words of each sentence of each text, checked against the limits."""
        parts: list[list[list[str]]] = []
        total = 0
        for number, text in enumerate(texts):
            part: list[list[str]] = []
            for start, end in split_sentences(text):
                part.append([token.text for token in self._tokens(text[start:end], "input")])
                total = self._check_words(total, part[-1], "input")  # before more is tokenized
            if not part:
                raise invalid(f"text {number} contains no words; remove it", "no_words", "input")
            parts.append(part)
        return parts

    def _tokenize_all(self, sentences: Sequence[str | Sequence[str]]) -> list[TokenizedSentence]:
        found: list[TokenizedSentence] = []
        total = 0
        for number, sentence in enumerate(sentences):
            found.append(self._tokenize(sentence, number))
            total = self._check_words(total, found[-1].words, "sentences")
        return found

    def _tokenize(self, sentence: str | Sequence[str], number: int) -> TokenizedSentence:
        if isinstance(sentence, str):
            tokens = self._tokens(sentence, "sentences")
            return TokenizedSentence([token.text for token in tokens], tokens)
        spaced = next((p for p, word in enumerate(sentence) if word and word.split() != [word]), -1)
        if spaced >= 0:
            text = f"token {spaced} of sentence {number} contains whitespace; to have a text "
            text += "tokenized, send it as a string"
            raise invalid(text, "token_with_space", "sentences")
        return TokenizedSentence(list(sentence), None)

    def _tokens(self, sentence: str, param: str) -> list[Token]:
        """The tokens of a sentence; one far too long is refused by its beginning."""
        beginning = sentence[: 8 * self.limits.sentence_tokens]
        if len(beginning) < len(sentence):  # its last token may be cut
            self.check_limit("sentence_tokens", len(self.elmo.tokens(beginning)) - 1, param)
        return self.elmo.tokens(sentence)

    def _num_results(self, body: SearchBody | SubstitutesBody) -> int:
        """The k that was sent, checked, or the default as far as the limit allows."""
        if "k" not in body.model_fields_set:
            return min(body.k, self.limits.results)
        self.check_limit("results", body.k, "k")
        return body.k

    def _check_words(self, total: int, words: Sequence[str], param: str) -> int:
        """Check a sentence and the words so far against the limits; the new number of words."""
        self.check_limit("sentence_tokens", len(words), param)
        self.check_limit("tokens", total + len(words), param)
        return total + len(words)

    async def _in_background(
        self, work: Callable[[], Result], num_characters: int, param: str
    ) -> Result:
        """Run short work at once and long work in another thread, one at a time.

        Text being tokenized takes many times its size, and threads would not make it faster.
        """
        self.check_limit("characters", num_characters, param)
        if num_characters <= INLINE_CHARACTERS:
            return work()
        async with self._tokenizing:
            return await asyncio.to_thread(work)

    def check_limit(self, name: str, value: int, param: str) -> None:
        """Raise ApiError if a request exceeds the limit of this name."""
        limit = getattr(self.limits, name)
        if value > limit:
            code, what, advice = LIMIT_ERRORS[name]
            raise invalid(f"{value:,} {what} exceed the limit of {limit:,}; {advice}", code, param)


def warm_up(elmo: Elmo) -> None:
    """Embed one sentence, so that the first request is as fast as the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)
        elmo.embed([["The", "bank", "of", "the", "river", "."]])


def _mean(layers: Vectors) -> Vectors:
    """(L + 1, T, D) -> (D,): the mean over layers and words."""
    return pool(choose_layers(layers, "mean"), "mean")
