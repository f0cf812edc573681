"""What the routes call: tokenizes and checks a request's text, then queues it for the model."""

from __future__ import annotations

import asyncio
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextWarning
from relmo.layers import choose_layers
from relmo.lm.surprisal import WordSurprisal
from relmo.runtime.pooling import normalize, pool
from relmo.search import Explanation, Hit, SemanticIndex
from relmo.search.explain import MAX_CHARACTERS, MAX_READ
from relmo.search.index import HitsTooLong
from relmo.search.store import SearchTimeout
from relmo.senses.change import LEAST_PLACES, Changes, find_changes
from relmo.senses.places import Pasted, TooFewPlaces
from relmo.senses.senses import WordSenses, find_senses
from relmo.serve.batcher import Batcher, QueueFull
from relmo.serve.errors import ApiError, invalid
from relmo.serve.limits import RETRY_SECONDS, Limits
from relmo.serve.monitoring import Metrics
from relmo.serve.schemas import ChangeBody, SearchBody, SensesBody, SubstitutesBody
from relmo.tasks.predictor import Predictor
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
CHARACTERS_PER_WORD = 6
"""Of text whose words are not counted."""
SCORE_COST = 10
"""Surprisal of a word takes about as long as reading this many tokens."""
MAX_PLACES = 500
"""Of a word in a text whose senses are found; of more an even sample is used."""
LIMIT_ERRORS = {
    "texts": ("too_many_texts", "texts in a request", "send several requests"),
    "characters": ("too_many_characters", "characters in a request", "send several requests"),
    "query_characters": ("query_too_long", "characters in a query", "shorten it"),
    "tokens": ("too_many_tokens", "words in a request", "send several requests"),
    "sentence_tokens": ("sentence_too_long", "words in a sentence", "split it"),
    "document_tokens": ("text_too_long", "words of a text that is read whole", "split it"),
    "sense_tokens": ("too_many_tokens", "words of text", "shorten it, or use relmo senses"),
    "scored_tokens": ("sentence_too_long", "words in a sentence", "split it"),
    "values": ("answer_too_large", "numbers in a response", "send less text or ask for one layer"),
    "results": ("too_many_results", "results", "choose a smaller k"),
}
"""Name of a limit -> (error code, what it counts, what to do)."""
TOTALS = ("tokens", "sense_tokens")
"""Limits of what is counted sentence by sentence, until it is too much."""


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
        self._studying = ThreadPoolExecutor(1, "relmo-senses")
        self._studies = 0
        self._search_cost = float(EXTRA_COST)
        """Of a search, and of each condition of its filter, in tokens; from the searches so far."""
        metrics.watch_queue(lambda: self.batcher.tokens, lambda: self.batcher.requests)

    async def encode(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Unit-length vectors (N, D), pooled as `Elmo.encode` pools, and the number of words."""
        self.check_limit("texts", len(texts), "input")
        parts = await self.split(texts, "input")
        if [] in parts:
            text = f"text {parts.index([])} contains no words; remove it"
            raise invalid(text, "no_words", "input")
        sentences = [sentence for part in parts for sentence in part]
        means = await asyncio.wrap_future(self.batcher.embed(sentences, _mean))  # each (D,)
        rest, pooled = iter(means), []
        for part in parts:
            counts = np.array([len(sentence) for sentence in part], np.float32)
            pooled.append(pool(np.stack([next(rest) for _ in part]), "mean", counts))
        return normalize(np.stack(pooled)), sum(map(len, sentences))  # (N, D)

    async def split(self, texts: Sequence[str], param: str) -> list[list[list[str]]]:
        """The words of each sentence of each text, checked against the limits.

        Args:
            texts: any number of sentences each.
            param: the field of the request that they come from, for errors.
        """
        size = sum(map(len, texts))
        return await self._in_background(lambda: self._split(texts, param), size, param)

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

    async def tokenize(
        self, sentences: Sequence[str | Sequence[str]], param: str = "sentences"
    ) -> list[TokenizedSentence]:
        """Tokenize strings, take token lists as they are, and check both against the limits.

        Args:
            sentences: strings or token lists.
            param: the field of the request that they come from, for errors.
        """
        self.check_limit("texts", len(sentences), param)
        size = sum(len(s) if isinstance(s, str) else sum(map(len, s)) for s in sentences)
        return await self._in_background(lambda: self._tokenize_all(sentences, param), size, param)

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

    async def surprisal(self, words: Sequence[str]) -> list[WordSurprisal]:
        """How unexpected each word of a sentence is."""
        self.check_limit("scored_tokens", len(words), "sentence")
        cost = SCORE_COST * len(words) + EXTRA_COST
        try:
            scored = self.batcher.call(lambda: self.elmo.lm.surprisal([words]), cost)
            return (await asyncio.wrap_future(scored))[0]
        except ConfigError as error:
            raise ApiError(404, str(error), code="no_softmax") from error

    async def senses(self, body: SensesBody) -> WordSenses:
        """The senses of a word in a text, which `split_texts` has checked."""
        word, text = body.word.strip(), Pasted(body.text)
        find = functools.partial(find_senses, self.elmo, word, text, most=MAX_PLACES, use=self._use)
        try:
            return await self._study(find)
        except TooFewPlaces as error:
            said = "no sentence contains this word; spell it as in the text"
            raise invalid(said, "word_not_found", "word") from error

    async def change(self, body: ChangeBody) -> Changes:
        """How the use of a word differs between two texts, which `split_texts` has checked."""
        texts = Pasted(body.before), Pasted(body.after)
        word = body.word.strip()
        find = functools.partial(
            find_changes, self.elmo, [word], *texts, aligned=body.align, use=self._use
        )
        try:
            return await self._study(find)
        except TooFewPlaces as error:
            counts = " and ".join(map(str, error.counts))
            said = f"the texts contain this word {counts} times; at least {LEAST_PLACES} places in "
            said += "each are needed: spell it as in the texts, or give more text"
            raise invalid(said, "too_few_places", "word") from error

    async def split_texts(self, word: str, texts: Mapping[str, str]) -> list[TokenizedSentence]:
        """The sentences of texts in which a word is to be found, checked against the limits."""

        def split() -> list[TokenizedSentence]:
            found: list[TokenizedSentence] = []
            total = 0
            for name, text in texts.items():
                before = total
                for line in text.split("\n"):
                    for start, end in split_sentences(line):
                        tokens = self._tokens(line[start:end], name)
                        found.append(TokenizedSentence([token.text for token in tokens], tokens))
                        total = self._check_words(total, found[-1].words, name)
                        self.check_limit("sense_tokens", total, name)
                if total == before:
                    raise invalid("the text contains no words", "no_words", name)
            return found

        size = len(word) + sum(map(len, texts.values()))
        return await self._in_background(split, size, next(iter(texts)))

    async def search(self, body: SearchBody) -> list[Hit]:
        """The passages of the served index that are nearest to the query."""
        index = self.index
        if index is None:
            text = "no index is served; start the server with --index INDEX (see relmo index)"
            raise ApiError(404, text, code="no_index")
        k = self._num_results(body)
        self.check_limit("query_characters", len(body.query), "query")
        (query,) = await self.tokenize([body.query], "query")
        if not query.words:
            raise invalid("the query contains no words", "no_words", "query")
        limits = self.limits
        find = functools.partial(
            index.search,
            body.query,
            k,
            where=body.where,
            by=body.ranking(),
            by_document=body.documents,
            copies=body.copies,
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

    async def explain(self, query: str, hits: Sequence[Hit]) -> list[Explanation]:
        """Why passages were found, if an index is served."""
        assert self.index is not None
        explain = functools.partial(self.index.explain, query, hits)
        characters = sum(len(hit.text) for hit in hits)
        cost = EXTRA_COST + min(characters, MAX_READ * MAX_CHARACTERS) // CHARACTERS_PER_WORD
        return await asyncio.wrap_future(self.batcher.call(explain, cost))

    def close(self) -> None:
        """Finish what was accepted and end the thread; a search that does not end is ended."""
        self._studying.shutdown(wait=False, cancel_futures=True)
        if not self.batcher.close(CLOSE_SECONDS) and self.index is not None:
            self.index.store.interrupt()
        self.batcher.close(CLOSE_SECONDS)

    async def _call(self, call: Callable[[], Result], words: Sequence[str]) -> Result:
        return await asyncio.wrap_future(self.batcher.call(call, len(words) + EXTRA_COST))

    async def _study(self, find: Callable[[], Result]) -> Result:
        """Long work in a thread of its own, one at a time, which uses the model bit by bit."""
        if self._studies >= self.limits.sense_requests:
            raise QueueFull(RETRY_SECONDS)
        self._studies += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._studying, find)
        finally:
            self._studies -= 1

    def _use(self, work: Callable[[], Result], cost: int) -> Result:
        return self.batcher.call(work, cost).result()

    def _split(self, texts: Sequence[str], param: str) -> list[list[list[str]]]:
        parts: list[list[list[str]]] = []
        total = 0
        for text in texts:
            parts.append([])
            for start, end in split_sentences(text):
                parts[-1].append([token.text for token in self._tokens(text[start:end], param)])
                total = self._check_words(total, parts[-1][-1], param)  # before more is tokenized
        return parts

    def _tokenize_all(
        self, sentences: Sequence[str | Sequence[str]], param: str
    ) -> list[TokenizedSentence]:
        found: list[TokenizedSentence] = []
        total = 0
        for number, sentence in enumerate(sentences):
            found.append(self._tokenize(sentence, number, param))
            total = self._check_words(total, found[-1].words, param)
        return found

    def _tokenize(
        self, sentence: str | Sequence[str], number: int, param: str
    ) -> TokenizedSentence:
        if isinstance(sentence, str):
            tokens = self._tokens(sentence, param)
            return TokenizedSentence([token.text for token in tokens], tokens)
        spaced = next((p for p, word in enumerate(sentence) if word and word.split() != [word]), -1)
        if spaced >= 0:
            whose = f"sentence {number}" if param == "sentences" else f"the {param}"
            text = f"token {spaced} of {whose} contains whitespace; to have a text "
            text += "tokenized, send it as a string"
            raise invalid(text, "token_with_space", param)
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
            count = f"at least {value:,}" if name in TOTALS else f"{value:,}"
            raise invalid(f"{count} {what} exceed the limit of {limit:,}; {advice}", code, param)


def warm_up(elmo: Elmo, tasks: Sequence[Predictor] = ()) -> None:
    """Read one sentence, so that the first request is as fast as the others."""
    text = "The bank of the river ."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)
        elmo.embed([text.split()])
        for predictor in tasks:
            predictor.answer([(text,) * len(predictor.task.text_names)])


def _mean(layers: Vectors) -> Vectors:
    """(L + 1, T, D) -> (D,): the mean over layers and words."""
    return pool(choose_layers(layers, "mean"), "mean")
