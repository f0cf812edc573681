"""What the routes call: tokenizes and checks a request's text, then queues it for the model."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextWarning
from relmo.layers import choose_layers
from relmo.runtime.pooling import normalize, pool
from relmo.search import Hit, SemanticIndex
from relmo.serve.access import Limits
from relmo.serve.batcher import Batcher
from relmo.serve.errors import ApiError, invalid
from relmo.serve.monitoring import Metrics
from relmo.serve.schemas import SearchBody
from relmo.text.sentences import split_sentences
from relmo.types import Token, Vectors

Result = TypeVar("Result")
INLINE_CHARACTERS = 4000
"""Longer text is tokenized in another thread, so that it does not block other requests."""
UNNAMED = "elmo"
"""Name served for a model without one."""
EXTRA_COST = 64
"""A softmax or a search takes about as long as this many tokens."""
LIMIT_ERRORS = {
    "texts": ("too_many_texts", "texts in a request", "send several requests"),
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
        metrics.watch_queue(lambda: self.batcher.tokens, lambda: self.batcher.requests)

    async def encode(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Unit-length vectors (N, D), pooled as `Elmo.encode` pools, and the number of words."""
        self.check_limit("texts", len(texts), "input")
        parts = await _in_background(lambda: self._split(texts), sum(map(len, texts)))
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

    async def tokenize(self, sentences: Sequence[str | Sequence[str]]) -> list[TokenizedSentence]:
        """Tokenize strings, take token lists as they are, and check both against the limits."""
        self.check_limit("texts", len(sentences), "sentences")
        size = sum(len(s) for s in sentences if isinstance(s, str))
        found = await _in_background(
            lambda: [self._tokenize(s, i) for i, s in enumerate(sentences)], size
        )
        self._check_sentences((sentence.words for sentence in found), "sentences")
        return found

    async def substitutes(
        self, words: Sequence[str], position: int, k: int
    ) -> list[tuple[str, float]]:
        """The k most likely words at a position, with their scores."""
        self.check_limit("results", k, "k")
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
        self.check_limit("results", body.k, "k")
        (query,) = await self.tokenize([body.query])
        if not query.words:
            raise invalid("the query contains no words", "no_words", "query")
        options = {"hybrid": body.hybrid, "by_document": body.documents}
        return await self._call(
            lambda: index.search(body.query, body.k, where=body.where, **options), query.words
        )

    async def _call(self, call: Callable[[], Result], words: Sequence[str]) -> Result:
        return await asyncio.wrap_future(self.batcher.call(call, len(words) + EXTRA_COST))

    def _split(self, texts: Sequence[str]) -> list[list[list[str]]]:
        """The words of each sentence of each text, checked against the limits."""
        parts: list[list[list[str]]] = []
        total = 0
        for number, text in enumerate(texts):
            part = [
                [token.text for token in self.elmo.tokens(text[start:end])]
                for start, end in split_sentences(text)
            ]
            if not part:
                raise invalid(f"text {number} contains no words; remove it", "no_words", "input")
            parts.append(part)
            total += sum(map(len, part))
            self.check_limit("tokens", total, "input")  # before more texts are tokenized
        self._check_sentences((sentence for part in parts for sentence in part), "input")
        return parts

    def _tokenize(self, sentence: str | Sequence[str], number: int) -> TokenizedSentence:
        if isinstance(sentence, str):
            tokens = self.elmo.tokens(sentence)
            return TokenizedSentence([token.text for token in tokens], tokens)
        spaced = next((p for p, word in enumerate(sentence) if word and word.split() != [word]), -1)
        if spaced >= 0:
            text = f"token {spaced} of sentence {number} contains whitespace; to have a text "
            text += "tokenized, send it as a string"
            raise invalid(text, "token_with_space", "sentences")
        return TokenizedSentence(list(sentence), None)

    def _check_sentences(self, sentences: Iterable[Sequence[str]], param: str) -> None:
        counts = [len(sentence) for sentence in sentences]
        self.check_limit("tokens", sum(counts), param)
        self.check_limit("sentence_tokens", max(counts, default=0), param)

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


async def _in_background(work: Callable[[], Result], num_characters: int) -> Result:
    """Run short work at once and long work in another thread."""
    return work() if num_characters <= INLINE_CHARACTERS else await asyncio.to_thread(work)
