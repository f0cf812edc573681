"""The two language models of a biLM with their softmax: score, surprisal, substitutes, perplexity.

    elmo.lm.score([["The", "bank", "raised", "rates", "."]])
    elmo.lm.surprisal(["The bank raised rates ."])
    elmo.lm.substitutes(["The", "bank", "raised", "rates", "."], 1)
    elmo.lm.perplexity(documents)

Perplexity, as relmo defines it: targets of the forward model are a sentence's words and its end, of
the backward model its words and its beginning; words outside the vocabulary are scored as <UNK>.
State is carried through a document, or starts anew with each sentence. That makes a text with many
unknown words look easy. `bits_per_character` does not: all bits of the text, an unknown word's
letters included, over its characters, so models of different vocabularies can be compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.config import check_choice
from relmo.errors import ConfigError, TextError
from relmo.kernels.cpu_products import Precision
from relmo.kernels.full_softmax import FullSoftmax
from relmo.kernels.packing import pack
from relmo.lm.scorer import Perplexity, Scorer, ScoreStart, TokenIds, WordSizes
from relmo.lm.surprisal import (
    Context,
    SplitSentence,
    WordSurprisal,
    check_context,
    split_regions,
    surprisal_rows,
)
from relmo.nn.lm_head import LmHead, log_uniform
from relmo.progress import working
from relmo.runtime.runtime import Runtime
from relmo.text.batches import in_windows
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE
from relmo.text.lexicon import SPECIAL, UNKNOWN, Lexicon
from relmo.text.tokenize import (
    Sentence,
    Tokenizer,
    check_sentences,
    checked_words,
    how_to_list,
    warn_caller,
)

SCORED_TOKENS = {"cpu": 4096, "cuda": 64 * 1024}
"""Padded tokens of sentences scored at once."""
WINDOW_TOKENS = 100_000
"""Tokens of a stream of documents that are scored together."""
MANY_SENTENCES = 2000
"""More sentences than these show progress."""
MANY_UNKNOWN = 0.05
"""Share of unknown words above which a perplexity misleads."""


@dataclass(frozen=True)
class Score:
    """How likely a sentence is, in natural logarithms."""

    forward: NDArray[np.float64]
    """(T + 1,) of each word given those before it, and of the sentence's end."""
    backward: NDArray[np.float64]
    """(T + 1,) of the sentence's beginning, and of each word given those after it."""

    @property
    def total(self) -> float:
        """Log-probability of the sentence: the mean of the two directions."""
        return float(self.forward.sum() + self.backward.sum()) / 2


class LanguageModel:
    """Both directions with their shared softmax.

    Args:
        runtime: the model.
        head: its softmax.
        lexicon: the softmax's words.
        tokenizer: splits strings.
    """

    def __init__(
        self, runtime: Runtime, head: LmHead, lexicon: Lexicon, tokenizer: Tokenizer
    ) -> None:
        self.runtime, self.head, self.lexicon = runtime, head.eval(), lexicon
        self.bilm, self.tokenizer = runtime.bilm, tokenizer
        self._softmax: tuple[Precision, FullSoftmax] | None = None

    @property
    def softmax(self) -> FullSoftmax:
        """Of both directions, in the model's precision."""
        precision = self.runtime.fast.precision
        if self._softmax is None or self._softmax[0] != precision:
            made = FullSoftmax(self.head.weight, self.head.bias, precision)
            self._softmax = precision, made
        return self._softmax[1]

    def score(self, sentences: Sequence[Sequence[str]]) -> list[Score]:
        """Log-probabilities of each sentence's words, from the model's start state.

        A boundary marker among the words is scored as an unknown word.
        """
        check_sentences(sentences)
        checked = (check_words(sentence, number) for number, sentence in enumerate(sentences))
        texts, scorer = self._numbered([[sentence] for sentence in self.lexicon.watch(checked)])
        found: dict[int, Score] = {}
        for batch in scorer.plan(texts, SCORED_TOKENS):
            losses, _ = scorer.losses([texts[i] for i in batch], self.bilm.start)  # (2, T, B)
            for b, i in enumerate(batch):
                forward, backward = losses[:, : len(texts[i]) - 1, b]
                found[i] = Score(-forward, -backward[::-1])
        return [found[i] for i in range(len(texts))]

    def prefer(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> NDArray[np.float64]:
        """How much likelier the first sentence of each pair is than the second, (N, 2).

        log p(first) - log p(second), forward and backward, in nats; 0 where they are the same.
        What a pair shares is not scored: its beginning forward, its end backward. An unknown word
        has the probability of `<UNK>`, without its spelling.
        """
        checked = [[check_words(each, n) for each in pair] for n, pair in enumerate(pairs)]
        texts, scorer = self._numbered([[sentence] for pair in checked for sentence in pair])
        ends = [shared_ends(*texts[i : i + 2]) for i in range(0, len(texts), 2) for _ in range(2)]
        found = np.zeros((len(texts), 2))
        many = len(texts) > MANY_SENTENCES
        with working("sentences scored", len(texts), show=many) as work:
            for batch in scorer.plan(texts, SCORED_TOKENS):
                losses, counts = scorer.losses(
                    [texts[i] for i in batch], self.bilm.start, [ends[i] for i in batch]
                )
                found[batch] = -(losses * counts).sum(1).T
                work.advance(len(batch))
        return found[::2] - found[1::2]

    def perplexity(
        self,
        documents: Iterable[Sequence[Sequence[str]]],
        start: ScoreStart = "carried",
        *,
        characters: int | None = None,
    ) -> Perplexity:
        """Perplexity of documents, each a list of sentences, each a list of words.

        Empty sentences are skipped, and so are boundary markers among the words.

        Args:
            documents: what is scored.
            start: state is carried through a document, or each sentence starts anew.
            characters: of the text that the words come from, spaces and line ends included; by
                default the words' letters and one more per word, as if one space followed each.
        """
        check_choice("start", start, get_args(ScoreStart))
        if characters is not None and characters < 1:
            raise ConfigError(f"characters must be an integer ≥ 1, got {characters}")
        documents = _checked(documents)
        if start == "stored" and not self.bilm.config.has_start_state:
            raise ConfigError("this model has no stored start state; choose 'zero' or 'carried'")
        texts, scorer = self._numbered(map(self._scored, documents))
        if not any(map(len, texts)):
            raise TextError("the text contains no words to score")
        found = scorer.perplexity(texts, start, characters)
        warn_of_unknown(found.unknown_rate)
        return found

    def surprisal(
        self,
        sentences: Iterable[Sentence],
        *,
        context: Context = "sentence",
        regions: bool = False,
    ) -> list[list[WordSurprisal]]:
        """How unexpected each word of each sentence is, in bits: see `WordSurprisal`.

        Args:
            sentences: token lists, or strings: one sentence each.
            context: what a word is predicted from: its "sentence", all sentences before and after
                it ("document"), or that number of the model's tokens on each side.
            regions: the items of a token list (the parts of a string between spaces) are words
                with punctuation attached: each is split by the model's tokenizer and has one row.
                The row of an empty item has NaN, and the item is not read.
        """
        document = list(split_regions(sentences, self.tokenizer, attached=regions))
        return next(self.surprisal_stream([document], context))

    def surprisal_stream(
        self, documents: Iterable[Sequence[SplitSentence]], context: Context = "sentence"
    ) -> Iterator[list[list[WordSurprisal]]]:
        """Lazy `surprisal` of documents, each a list of sentences as `split_regions` makes them.

        Holds some documents in memory; sentences are counted through all of them.
        """
        check_context(context)
        first_id = 0
        for window in in_windows(documents, _count_tokens, WINDOW_TOKENS):
            words = [[each.tokens for each in document if each.tokens] for document in window]
            for document in words:
                list(self.lexicon.watch(document))
            texts, scorer = self._numbered(words)
            yield from surprisal_rows(scorer, texts, window, context, first_id)
            first_id += sum(map(len, window))

    @torch.no_grad()
    def substitutes(
        self, sentence: Sequence[str], position: int, k: int = 10
    ) -> list[tuple[str, float]]:
        """The k words that fit best at a position, by what stands before it and after it.

        The word at the position itself is not used. The score of a word is
        log p(word | left) + log p(word | right) - log p(word): what both sides say together, where
        the last keeps words that are merely frequent from being counted twice. It is the word's
        share of the training text, or by its rank where the model stores no counts.
        """
        sentence = check_words(sentence)
        self.lexicon.check_script(sentence)
        if k < 1:
            raise ConfigError(f"k must be an integer ≥ 1, got {k}")
        if not 0 <= position < len(sentence):
            raise TextError(
                f"position must be from 0 to {len(sentence) - 1} in a sentence of "
                f"{len(sentence)} words, got {position}"
            )
        bounded = [BEGIN_SENTENCE, *sentence, END_SENTENCE]
        before, after = bounded[: position + 1], bounded[position + 2 :][::-1]
        [best] = self.best_words(self._after(before, 0), self._after(after, 1), k)
        return best

    @torch.no_grad()
    def best_words(
        self, forward: Tensor, backward: Tensor, k: int = 10
    ) -> list[list[tuple[str, float]]]:
        """The k words that fit best, and their scores, for N pairs of top-layer states, (N, P).

        Args:
            forward: of the forward model before the place, or the mean of those of several places:
                the words are then the best by the mean of their scores there.
            backward: of the backward model after the place, likewise.
            k: how many; a score is that of `substitutes`.
        """
        law = torch.from_numpy(
            np.log(log_uniform(len(self.lexicon.words)))
            if self.lexicon.counts is None
            else np.log(2) * self.lexicon.log_frequencies
        )
        law[torch.from_numpy(self.lexicon.rows(SPECIAL))] = float("inf")
        k = min(k, len(law) - len(SPECIAL))
        scores, rows = self.softmax.best(forward, backward, law.to(forward), k)
        return [
            [(self.lexicon.words[i], score) for i, score in zip(*own, strict=True)]
            for own in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    def _after(self, words: Sequence[str], direction: int) -> Tensor:
        """State (1, P) of one direction after words in its reading order."""
        vectors = self.runtime.memo.vectors(words)  # (T, P)
        rows = vectors.expand(2, -1, -1)  # (2, T, P); the other direction is not used
        packing = pack(torch.tensor([len(words)]))
        outputs, _ = self.runtime.fast.read_packed(rows, packing, self.bilm.start_state(1))
        return outputs[-1][direction][-1:]

    def _numbered(
        self, documents: Iterable[Sequence[Sequence[str]]]
    ) -> tuple[list[TokenIds], Scorer]:
        """Documents as ids of their own distinct words, and a scorer of these ids."""
        id_of: defaultdict[str, int] = defaultdict(count(2).__next__)  # boundaries are 0 and 1
        texts = []
        for document in documents:
            ids = ((0, *map(id_of.__getitem__, sentence), 1) for sentence in document)
            texts.append(np.fromiter(chain.from_iterable(ids), np.int64))
        words = [BEGIN_SENTENCE, END_SENTENCE, *id_of]
        known = (UNKNOWN if word in SPECIAL else word for word in id_of)
        rows = self.lexicon.rows([BEGIN_SENTENCE, END_SENTENCE, *known])
        scorer = Scorer(
            self.runtime.fast,
            self.softmax,
            lambda ids: self.runtime.memo.vectors([words[i] for i in ids]),
            rows,
            WordSizes(words, rows, self.lexicon),
        )
        return texts, scorer

    def _scored(self, document: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """A document as the tokenized corpus of a training run holds it."""
        boundaries = (BEGIN_SENTENCE, END_SENTENCE)
        checked = (check_words(sentence, number) for number, sentence in enumerate(document))
        kept = ([w for w in words if w not in boundaries] for words in self.lexicon.watch(checked))
        return [words for words in kept if words]


def _count_tokens(document: Sequence[SplitSentence]) -> int:
    return sum(len(sentence.tokens) for sentence in document)


def shared_ends(one: TokenIds, other: TokenIds) -> tuple[int, int]:
    """How many tokens two texts share at their beginning, and at their end."""
    found = []
    for a, b in ((one, other), (one[::-1], other[::-1])):
        n = min(len(a), len(b))
        differs = a[:n] != b[:n]
        found.append(int(np.argmax(differs)) if differs.any() else n)
    return found[0], found[1]


def check_words(sentence: Sequence[str], number: int = 0) -> list[str]:
    """The words of a sentence; TextError for a string, which would be read letter by letter."""
    if isinstance(sentence, str):
        raise TextError(f"expected a list of words, got the string {sentence[:40]!r}; split it")
    return checked_words(sentence, number)


def _checked(
    documents: Iterable[Sequence[Sequence[str]]],
) -> Iterator[Sequence[Sequence[str]]]:
    """The documents; TextError for what is no list, as far up as it stands."""
    shape = "expected a list of documents, each a list of sentences, each a list of words"
    advice = "split text into these with elmo.sentences: lm.perplexity([elmo.sentences([text])])"
    if isinstance(documents, str):
        raise TextError(f"{shape}, got the string {documents[:40]!r}; {advice}")
    if (how := how_to_list(documents)) is not None:
        raise TextError(f"{shape}, got {type(documents).__name__}; {how}")
    for number, document in enumerate(documents):
        if not isinstance(document, str) and (how := how_to_list(document)) is not None:
            raise TextError(f"{shape}; document {number} is a {type(document).__name__}; {how}")
        sentences = list(document)
        words = document if isinstance(document, str) else next(iter(sentences), None)
        if isinstance(words, str):
            raise TextError(f"{shape}, got the string {words[:40]!r} in place of a list; {advice}")
        yield sentences


def warn_of_unknown(rate: float) -> None:
    """Warn if a perplexity flatters the model, as many words are scored as merely unknown."""
    if rate > MANY_UNKNOWN:
        warn_caller(
            f"{rate:.1%} of the words are outside the vocabulary and scored as {UNKNOWN}: this "
            f"perplexity is not comparable with others; compare bits_per_character"
        )
