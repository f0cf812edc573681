"""Scores texts of word ids by both language models and their full softmax.

Above it `LanguageModel` gives ids to words; pretraining has them already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.kernels.full_softmax import FullSoftmax
from relmo.kernels.packing import pack
from relmo.progress import progress
from relmo.runtime.runtime import FastBiLM
from relmo.text.batches import plan_batches
from relmo.text.lexicon import UNKNOWN, Lexicon

ScoreStart = Literal["carried", "stored", "zero"]
TokenIds = NDArray[np.int64]
"""Ids of one document or sentence, boundaries included: 0 begins a sentence, 1 ends it."""
BATCH_TOKENS = 16 * 8192
"""Padded tokens of documents scored at once."""
MAX_ROWS = {"cpu": 256, "cuda": 16_384}
"""Texts read side by side at most: more are no faster; a GPU kernel starts no more."""
Alike = tuple[int, int]
"""Tokens at the beginning and at the end of a text that another text shares with it."""
CONTEXT_TOKENS = 16 * 1024
"""Tokens of contexts read at once."""
WINDOW = 64
"""Tokens of each text read at once."""
MANY_WINDOWS = 8
"""More windows than these show progress."""


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
        bits = times[is_unknown] @ self.spelling(distinct[is_unknown])
        return int(times[is_unknown].sum()), float(bits), int(characters)

    def spelling(self, ids: TokenIds) -> NDArray[np.float64]:
        """Bits of the letters of words outside the vocabulary, 0 for all others, (N,)."""
        bits = np.zeros(len(ids))
        is_unknown = self.rows[ids] == self.unknown
        bits[is_unknown] = self.lexicon.letters.bits([self.words[i] for i in ids[is_unknown]])
        return bits


class Scorer:
    """Scores texts of ids.

    Args:
        bilm: the model.
        softmax: of both directions.
        token_vectors: ids of distinct words -> (U, P), on the model's device.
        rows: (words,) of the softmax, by id.
        sizes: of the words.
    """

    def __init__(
        self,
        bilm: FastBiLM,
        softmax: FullSoftmax,
        token_vectors: Callable[[TokenIds], Tensor],
        rows: TokenIds,
        sizes: WordSizes,
    ) -> None:
        self.fast, self.softmax = bilm, softmax
        self.token_vectors, self.rows, self.sizes = token_vectors, rows, sizes

    def plan(self, texts: Sequence[TokenIds], tokens: Mapping[str, int]) -> list[list[int]]:
        """Batches of texts of like length, of so many padded tokens by kind of device."""
        kind = self.softmax.kind
        return plan_batches([len(text) for text in texts], tokens[kind], MAX_ROWS[kind])

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
        for batch in _batches(texts, MAX_ROWS[self.softmax.kind]):
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
        self, texts: Sequence[TokenIds], start: ScoreStart, alike: Sequence[Alike] = ()
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """-log p of each target, (2, T, B), in its direction's reading order, and which count.

        Targets that do not count are not scored: their loss is 0.

        Args:
            texts: what is scored.
            start: state before each.
            alike: of each text, how many tokens at its beginning and at its end do not count: those
                at the beginning forward, those at the end backward.
        """
        batch = _Batch.of(texts)
        targets = batch.tokens[:, 1:]
        counts = batch.is_token[:, 1:] & targets_that_count(targets)
        for b, ends in enumerate(alike):
            for direction, tokens in enumerate(ends):
                counts[direction, : max(tokens - 1, 0), b] = False
        found = np.zeros(targets.shape)
        for step, text, tops in self._read(batch, start):
            is_target = counts[:, step, text]  # (2, S)
            chosen = zip(tops, is_target, strict=True)
            hidden = torch.cat([top[to_device(mask, top.device)] for top, mask in chosen])  # (N, P)
            wanted = self.rows[targets[:, step, text][is_target]]  # (N,)
            losses = np.zeros(is_target.shape)  # (2, S)
            scored = self.softmax.losses(hidden, to_device(wanted, hidden.device))
            losses[is_target] = scored.double().cpu().numpy()
            found[:, step, text] = losses
        return found, counts

    @torch.no_grad()
    def readings(self, texts: Sequence[TokenIds]) -> NDArray[np.float64]:
        """What both language models say of the words of all texts, (4, N): see `Readings`.

        State is carried through each text, from the model's start state. Memory grows with the
        texts: what one direction says is kept until the other has read as far.
        """
        batch = _Batch.of(texts)
        place = np.zeros(batch.tokens.shape[1:], dtype=np.int64)  # (T, B): of what is said of each
        tops, read = [], 0
        for step, text, top in self._read(batch, "carried"):
            place[step + 1, text] = np.arange(read, read + len(step))
            tops.append(top)
            read += len(step)
        row, column = np.nonzero(batch.tokens[0].T > 1)  # each (N,): words, text by text
        places = place[column, row], place[batch.lengths[row] - 1 - column, row]
        forward, backward = (
            torch.cat([top[d] for top in tops]).float()[to_device(own, self.softmax.device)]
            for d, own in enumerate(places)
        )  # (N, P) each
        return self._readings(forward, backward, texts)

    @torch.no_grad()
    def readings_within(self, texts: Sequence[TokenIds], words: int) -> NDArray[np.float64]:
        """As `readings`, each word given at most so many words before it and after it.

        Every word's context is read from the start state: costs grow with its length.
        """
        ahead = [part for text in texts for part in _contexts(text, words)]
        behind = [part for text in texts for part in _contexts(text[::-1], words)[::-1]]
        forward, backward = (self._last(part, d) for d, part in enumerate((ahead, behind)))
        return self._readings(forward, backward, texts)

    def _readings(
        self, forward: Tensor, backward: Tensor, texts: Sequence[TokenIds]
    ) -> NDArray[np.float64]:
        """Of the words of all texts, (N, P) and (N, P) -> (4, N)."""
        tokens = np.concatenate(texts)
        wanted = to_device(self.rows[tokens[tokens > 1]], forward.device)
        found = torch.stack(self.softmax.readings(forward, backward, wanted))
        return found.double().cpu().numpy()

    def _last(self, contexts: Sequence[TokenIds], direction: int) -> Tensor:
        """What one direction says after each context, given in its reading order, (N, P)."""
        P = self.fast.bilm.config.lstm.output_width
        found = torch.empty(len(contexts), P, device=self.softmax.device)
        for chosen in plan_batches([len(part) for part in contexts], CONTEXT_TOKENS):
            lengths = np.array([len(contexts[i]) for i in chosen])
            packing = pack(torch.from_numpy(lengths))
            step, row = packing.step.numpy(), packing.sentence.numpy()  # each (S,)
            padded = np.zeros((len(chosen), lengths.max()), dtype=np.int64)
            for b, i in enumerate(chosen):
                padded[b, : lengths[b]] = contexts[i]
            vectors = self._vectors(padded[row, step]).expand(2, -1, -1)  # one of them is not used
            state = self.fast.bilm.start_state(len(chosen))
            outputs, _ = self.fast.read_packed(vectors, packing, state)
            is_last = step == lengths[row] - 1  # (S,)
            rows = torch.tensor(chosen)[torch.from_numpy(row[is_last])]
            found[rows] = outputs[-1][direction][to_device(is_last, found.device)].float()
        return found

    def _read(
        self, batch: _Batch, start: ScoreStart
    ) -> Iterator[tuple[TokenIds, TokenIds, Sequence[Tensor] | Tensor]]:
        """What the top layer of each direction says, window by window.

        Yields the step in reading order and the text of S tokens, each (S,), and the outputs after
        these tokens, forward and backward, (S, P) each. The last token of a text is not read.
        """
        lengths = batch.lengths - 1  # (B,): inputs of each
        state = self.fast.bilm.start_state(len(lengths), None if start == "carried" else start)
        starts = range(0, int(lengths.max()), WINDOW)
        many = len(starts) > MANY_WINDOWS
        for first in progress(starts, len(starts), "windows of text scored", show=many):
            packing = pack(torch.from_numpy((lengths - first).clip(0, WINDOW)))
            step, text = first + packing.step.numpy(), packing.sentence.numpy()  # each (S,)
            vectors = self._vectors(batch.tokens[:, step, text])  # (2, S, P)
            outputs, state = self.fast.read_packed(vectors, packing, state)
            yield step, text, outputs[-1]

    def _vectors(self, ids: TokenIds) -> Tensor:
        """Token vectors of ids, (..., P)."""
        is_there = np.zeros(len(self.rows), dtype=bool)  # by id
        is_there[ids] = True
        vectors = self.token_vectors(np.flatnonzero(is_there)).float()  # (U, P)
        return vectors[to_device((np.cumsum(is_there) - 1)[ids], vectors.device)]


class _Batch(NamedTuple):
    """Texts side by side, in the reading order of each direction."""

    tokens: TokenIds
    """(2, T, B) ids, 0 where a text has ended."""
    is_token: NDArray[np.bool_]
    """(2, T, B)."""
    lengths: TokenIds
    """(B,) tokens of each."""

    @classmethod
    def of(cls, texts: Sequence[TokenIds]) -> _Batch:
        """Texts as they are, boundaries included."""
        lengths = np.array([len(text) for text in texts])
        is_token = np.arange(lengths.max()) < lengths[:, None]  # (B, T)
        tokens = np.zeros((2, *is_token.shape), dtype=np.int64)
        tokens[0, is_token] = np.concatenate(texts)
        tokens[1, is_token] = np.concatenate([text[::-1] for text in texts])
        return cls(tokens.swapaxes(1, 2), np.stack([is_token.T, is_token.T]), lengths)


def _contexts(text: TokenIds, words: int) -> list[TokenIds]:
    """What is read before each word of a text: at most so many words, and boundaries among them.

    At the text's beginning its boundary is read, too.
    """
    places = np.flatnonzero(text > 1)
    first = [0] * words + places.tolist()
    return [text[first[k] : place] for k, place in enumerate(places)]


def sentences_of(document: TokenIds) -> Iterator[TokenIds]:
    """The sentences of a document."""
    begins = [*np.flatnonzero(document == 0), len(document)]
    for first, past in pairwise(begins):
        yield document[first:past]


def targets_that_count(targets: TokenIds) -> NDArray[np.bool_]:
    """Which of (2, T, B) targets count, forward and backward: all but what is always there.

    That is `<S>` after `</S>` forward, and `</S>` after `<S>` backward.
    """
    return np.stack([targets[0] != 0, targets[1] != 1])


def _batches(texts: Sequence[TokenIds], max_rows: int) -> Iterator[list[TokenIds]]:
    """Texts of like length together, a bounded number of tokens in all."""
    ordered = sorted((text for text in texts if len(text) > 1), key=len)
    while ordered:
        room = max(1, min(max_rows, BATCH_TOKENS // len(ordered[-1])))
        ordered, batch = ordered[:-room], ordered[-room:]
        yield batch
