"""The two language models of a biLM with their softmax: score, fill in, measure perplexity.

    elmo.lm.score([["The", "bank", "raised", "rates", "."]])
    elmo.lm.substitutes(["The", "bank", "raised", "rates", "."], 1)
    elmo.lm.perplexity(documents)

Perplexity, as relmo defines it: targets of the forward model are a sentence's words and its end, of
the backward model its words and its beginning; words outside the vocabulary are scored as <UNK>.
State is carried through a document, or starts anew with each sentence. That makes a text with many
unknown words look easy. `bits_per_character` does not: all bits of the text, an unknown word's
letters included, over its characters, so models of different vocabularies can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.config import check_choice
from relmo.errors import ConfigError, TextError
from relmo.kernels.device import to_device
from relmo.kernels.packing import pack
from relmo.nn.lm_head import LmHead, log_uniform
from relmo.progress import progress
from relmo.runtime.runtime import FastBiLM, Runtime
from relmo.text.batches import plan_batches
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE
from relmo.text.lexicon import SPECIAL, UNKNOWN, Lexicon
from relmo.text.tokenize import check_sentences, checked_words, how_to_list, warn_caller
from relmo.types import BiLmState

ScoreStart = Literal["carried", "stored", "zero"]
TokenIds = NDArray[np.int64]
"""Ids of one document or sentence, boundaries included: 0 begins a sentence, 1 ends it."""
BATCH_TOKENS = 16 * 8192
"""Padded tokens of documents scored at once."""
SCORED_TOKENS = 4096
"""Padded tokens of sentences scored at once."""
MAX_ROWS = {"cpu": 256, "cuda": 16_384}
"""Texts read side by side at most: more are no faster; a GPU kernel starts no more."""
SOFTMAX_ROWS = {"cpu": 256, "cuda": 1024}
"""Targets whose softmax is held at once."""
WINDOW = 64
"""Tokens of each text read at once."""
MANY_WINDOWS = 8
"""More windows than these show progress."""
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


@dataclass(frozen=True)
class Perplexity:
    """How well a text is predicted; `mean` is the arithmetic mean of the two directions."""

    forward: float
    backward: float
    mean: float
    tokens: int
    """Targets of one direction."""
    unknown_rate: float
    """Share of the words that are outside the vocabulary."""
    bits_per_character: float
    """Bits of the text, the letters of unknown words included, over its characters; the mean of
    both directions. Models of different vocabularies can be compared by it."""


class LanguageModel:
    """Both directions with their shared softmax.

    Args:
        runtime: the model.
        head: its softmax.
        lexicon: the softmax's words.
    """

    def __init__(self, runtime: Runtime, head: LmHead, lexicon: Lexicon) -> None:
        self.runtime, self.head, self.lexicon = runtime, head.eval(), lexicon
        self.bilm = runtime.bilm

    def score(self, sentences: Sequence[Sequence[str]]) -> list[Score]:
        """Log-probabilities of each sentence's words, from the model's start state.

        A boundary marker among the words is scored as an unknown word.
        """
        check_sentences(sentences)
        checked = (check_words(sentence, number) for number, sentence in enumerate(sentences))
        texts, scorer = self._numbered([[sentence] for sentence in self.lexicon.watch(checked)])
        found: dict[int, Score] = {}
        lengths = [len(text) for text in texts]
        for batch in plan_batches(lengths, SCORED_TOKENS):
            losses, _ = scorer.losses([texts[i] for i in batch], self.bilm.start)  # (2, T, B)
            for b, i in enumerate(batch):
                forward, backward = losses[:, : lengths[i] - 1, b]
                found[i] = Score(-forward, -backward[::-1])
        return [found[i] for i in range(len(texts))]

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

    @torch.no_grad()
    def substitutes(
        self, sentence: Sequence[str], position: int, k: int = 10
    ) -> list[tuple[str, float]]:
        """The k words that fit best at a position, by what stands before it and after it.

        The word at the position itself is not used. The score of a word is
        log p(word | left) + log p(word | right) - log p(word): what both sides say together, where
        the last, by the word's rank, keeps words that are merely frequent from being counted twice.
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
        scores = self._next_word(before, 0) + self._next_word(after, 1)  # (V,)
        scores -= torch.from_numpy(np.log(log_uniform(len(scores)))).to(scores)
        for special in SPECIAL:
            scores[int(self.lexicon.rows([special])[0])] = float("-inf")
        best = scores.topk(min(k, len(scores) - 3))
        rows = best.indices.tolist()
        return [(self.lexicon.words[i], s) for i, s in zip(rows, best.values.tolist(), strict=True)]

    def _next_word(self, words: Sequence[str], direction: int) -> Tensor:
        """Log-probabilities (V,) of what one direction expects after words in its reading order."""
        vectors = self.runtime.memo.vectors(words)  # (T, P)
        rows = vectors.expand(2, -1, -1)  # (2, T, P); the other direction is not used
        packing = pack(torch.tensor([len(words)]))
        outputs, _ = self.runtime.fast.read_packed(rows, packing, self.bilm.start_state(1))
        log_probabilities = self.head.log_probabilities(outputs[-1][direction][-1:])  # (1, V)
        return log_probabilities[0]

    def _numbered(
        self, documents: Iterable[Sequence[Sequence[str]]]
    ) -> tuple[list[TokenIds], Scorer]:
        """Documents as ids of their own distinct words, and a scorer of these ids."""
        id_of: dict[str, int] = {}  # not of the boundaries, which are 0 and 1
        texts = []
        for document in documents:
            ids: list[int] = []
            for sentence in document:
                ids += [0, *(id_of.setdefault(word, 2 + len(id_of)) for word in sentence), 1]
            texts.append(np.array(ids, dtype=np.int64))
        words = [BEGIN_SENTENCE, END_SENTENCE, *id_of]
        known = (UNKNOWN if word in SPECIAL else word for word in id_of)
        rows = self.lexicon.rows([BEGIN_SENTENCE, END_SENTENCE, *known])
        scorer = Scorer(
            self.runtime.fast,
            self.head,
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


class WordSizes:
    """What words outside a vocabulary cost, and how many characters words have.

    Args:
        words: by id.
        rows: (words,) of the softmax.
        lexicon: the vocabulary.
    """

    def __init__(self, words: Sequence[str], rows: TokenIds, lexicon: Lexicon) -> None:
        self.words, self.rows, self.lexicon = words, rows, lexicon
        [self.unknown] = lexicon.rows([UNKNOWN])

    def of(self, ids: TokenIds) -> tuple[int, float, int]:
        """Unknown words, bits of their letters, and characters of all, of words without boundaries.

        A word has one character more than letters: the space after it.
        """
        distinct, times = np.unique(ids, return_counts=True)
        characters = sum(n * (1 + len(self.words[i])) for i, n in zip(distinct, times, strict=True))
        is_unknown = self.rows[distinct] == self.unknown
        pairs = zip(distinct[is_unknown], times[is_unknown], strict=True)
        bits = sum(n * self.lexicon.letters.bits(self.words[i]) for i, n in pairs)
        return int(times[is_unknown].sum()), float(bits), int(characters)


class Scorer:
    """Scores texts of ids.

    Args:
        bilm: the model.
        head: its softmax.
        token_vectors: ids of distinct words -> (U, P), on the model's device.
        rows: (words,) of the softmax, by id.
        sizes: of the words.
    """

    def __init__(
        self,
        bilm: FastBiLM,
        head: LmHead,
        token_vectors: Callable[[TokenIds], Tensor],
        rows: TokenIds,
        sizes: WordSizes,
    ) -> None:
        self.fast, self.head = bilm, head
        self.token_vectors, self.rows, self.sizes = token_vectors, rows, sizes
        kind = "cuda" if head.weight.is_cuda else "cpu"
        self.max_rows, self.softmax_rows = MAX_ROWS[kind], SOFTMAX_ROWS[kind]

    def perplexity(
        self,
        documents: Iterable[TokenIds],
        start: ScoreStart = "carried",
        characters: int | None = None,
    ) -> Perplexity:
        """Perplexity of documents; state as `start` says; characters as in `LanguageModel`."""
        texts = list(documents)
        if start != "carried":
            texts = [sentence for document in texts for sentence in sentences_of(document)]
        totals, count = np.zeros(2), 0
        for batch in _batches(texts, self.max_rows):
            losses, counts = self.losses(batch, start)
            totals += (losses * counts).sum((1, 2))
            count += int(counts[0].sum())
        words = np.concatenate([text[text > 1] for text in texts])
        unknown, letter_bits, letters = self.sizes.of(words)
        bits = float(totals.mean()) / np.log(2) + letter_bits
        forward, backward = np.exp(totals / max(count, 1))
        return Perplexity(
            forward=float(forward),
            backward=float(backward),
            mean=float(forward + backward) / 2,
            tokens=count,
            unknown_rate=unknown / max(len(words), 1),
            bits_per_character=float(bits / max(letters if characters is None else characters, 1)),
        )

    @torch.no_grad()
    def losses(
        self, texts: Sequence[TokenIds], start: ScoreStart
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """-log p of each target, (2, T, B), in its direction's reading order, and which count.

        Targets that do not count are not scored: their loss is 0.
        """
        B, longest = len(texts), max(map(len, texts))
        tokens = np.zeros((2, longest, B), dtype=np.int64)
        is_token = np.zeros((2, longest, B), dtype=bool)
        for b, text in enumerate(texts):
            tokens[0, : len(text), b], tokens[1, : len(text), b] = text, text[::-1]
            is_token[:, : len(text), b] = True
        targets = tokens[:, 1:]
        counts = is_token[:, 1:] & targets_that_count(targets)
        lengths = np.array([len(text) - 1 for text in texts])  # (B,): inputs of each
        state = self.fast.bilm.start_state(B, None if start == "carried" else start)
        found = np.zeros(targets.shape)
        starts = range(0, longest - 1, WINDOW)
        many = len(starts) > MANY_WINDOWS
        for first in progress(starts, len(starts), "windows of text scored", show=many):
            here = slice(first, first + WINDOW)
            left = (lengths - first).clip(0, WINDOW)  # (B,)
            found[:, here], state = self._window(
                tokens[:, here], left, targets[:, here], counts[:, here], state
            )
        return found, counts

    def _window(
        self,
        inputs: TokenIds,
        lengths: TokenIds,
        targets: TokenIds,
        counts: NDArray[np.bool_],
        state: BiLmState,
    ) -> tuple[NDArray[np.float64], BiLmState]:
        """Losses (2, W, B) of a window of tokens (2, W, B), and the state after it."""
        packing = pack(torch.from_numpy(lengths))
        step, text = packing.step.numpy(), packing.sentence.numpy()  # each (S,)
        words, index = np.unique(inputs[:, step, text], return_inverse=True)
        vectors = self.token_vectors(words).float()  # (U, P)
        rows = vectors[to_device(index.reshape(2, len(step)), vectors.device)]  # (2, S, P)
        outputs, state = self.fast.read_packed(rows, packing, state)
        is_target = counts[:, step, text]  # (2, S)
        chosen = zip(outputs[-1], is_target, strict=True)
        hidden = torch.cat([top[to_device(mask, top.device)] for top, mask in chosen])  # (N, P)
        wanted = self.rows[targets[:, step, text][is_target]]  # (N,)
        losses = np.zeros(is_target.shape)  # (2, S)
        losses[is_target] = self._losses(hidden, wanted)
        found = np.zeros(targets.shape)
        found[:, step, text] = losses
        return found, state

    def _losses(self, hidden: Tensor, targets: TokenIds) -> NDArray[np.float64]:
        """-log p of the targets (N,) given (N, P), a bounded number at a time."""
        rows = to_device(targets, hidden.device)
        most = self.softmax_rows
        parts = torch.split(hidden.float(), most), torch.split(rows, most)
        pairs = zip(*parts, strict=True)
        return np.concatenate([self.head.losses(*pair).double().cpu().numpy() for pair in pairs])


def sentences_of(document: TokenIds) -> Iterator[TokenIds]:
    """The sentences of a document."""
    begins = [*np.flatnonzero(document == 0), len(document)]
    for first, past in pairwise(begins):
        yield document[first:past]


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


def targets_that_count(targets: TokenIds) -> NDArray[np.bool_]:
    """Which of (2, T, B) targets count, forward and backward: all but what is always there.

    That is `<S>` after `</S>` forward, and `</S>` after `<S>` backward.
    """
    return np.stack([targets[0] != 0, targets[1] != 1])


def warn_of_unknown(rate: float) -> None:
    """Warn if a perplexity flatters the model, as many words are scored as merely unknown."""
    if rate > MANY_UNKNOWN:
        warn_caller(
            f"{rate:.1%} of the words are outside the vocabulary and scored as {UNKNOWN}: this "
            f"perplexity is not comparable with others; compare bits_per_character"
        )


def _batches(texts: Sequence[TokenIds], max_rows: int) -> Iterator[list[TokenIds]]:
    """Texts of like length together, a bounded number of tokens in all."""
    ordered = sorted((text for text in texts if len(text) > 1), key=len)
    while ordered:
        room = max(1, min(max_rows, BATCH_TOKENS // len(ordered[-1])))
        ordered, batch = ordered[:-room], ordered[-room:]
        yield batch
