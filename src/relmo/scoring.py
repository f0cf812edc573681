"""Perplexity, as relmo defines it, of a biLM with its softmax on documents.

Targets of the forward model are a sentence's words and its end, of the backward model its words
and its beginning; words outside the vocabulary are scored as <UNK>. State is carried through a
document, or starts afresh with each sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.nn.bilm import BiLM
from relmo.nn.lm_head import LmHead
from relmo.runtime.pair import read_pair
from relmo.types import BiLmState

ScoreStart = Literal["carried", "stored", "zero"]
Text = NDArray[np.int64]
"""Ids of one document or sentence, boundaries included: 0 begins a sentence, 1 ends it."""
ROW_TOKENS = 8192
"""Tokens scored at once."""
MAX_ROWS = 16_384
"""Texts read side by side at most: a GPU kernel starts no more."""
SOFTMAX_ROWS = 1024
"""Targets whose softmax is held at once."""
WINDOW = 64


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

    def to_dict(self) -> dict[str, float]:
        """As JSON holds it."""
        return asdict(self)


class Scorer:
    """Scores texts of ids.

    Args:
        bilm: the model.
        head: its softmax.
        token_vectors: ids of distinct words -> (U, P), on the model's device.
        target_of: ids -> rows of the softmax.
    """

    def __init__(
        self,
        bilm: BiLM,
        head: LmHead,
        token_vectors: Callable[[NDArray[np.int64]], Tensor],
        target_of: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    ) -> None:
        self.bilm, self.head = bilm, head
        self.token_vectors, self.target_of = token_vectors, target_of

    def perplexity(self, documents: Iterable[Text], start: ScoreStart = "carried") -> Perplexity:
        """Perplexity of documents; state as `start` says."""
        texts = (
            list(documents)
            if start == "carried"
            else [s for d in documents for s in sentences_of(d)]
        )
        totals, count, words, unknown = np.zeros(2), 0, 0, 0
        for batch in _batches(texts):
            losses, counts = self.losses(batch, start)
            totals += (losses * counts).sum((1, 2))
            count += int(counts[0].sum())
        for text in texts:
            inner = text[text > 1]
            words += len(inner)
            unknown += int((self.target_of(inner) == self.target_of(np.array([2]))[0]).sum())
        forward, backward = np.exp(totals / max(count, 1))
        return Perplexity(
            forward=float(forward),
            backward=float(backward),
            mean=float(forward + backward) / 2,
            tokens=count,
            unknown_rate=unknown / max(words, 1),
        )

    @torch.no_grad()
    def losses(
        self, texts: Sequence[Text], start: ScoreStart
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """-log p of each target, (2, T, B), in its direction's reading order, and which count.

        What does not count is not scored: its loss is 0.
        """
        B, longest = len(texts), max(map(len, texts))
        tokens = np.zeros((2, longest, B), dtype=np.int64)
        there = np.zeros((2, longest, B), dtype=bool)
        for b, text in enumerate(texts):
            tokens[0, : len(text), b], tokens[1, : len(text), b] = text, text[::-1]
            there[:, : len(text), b] = True
        targets, inputs = tokens[:, 1:], tokens[:, :-1]
        counts = there[:, 1:] & np.stack([targets[0] != 0, targets[1] != 1])
        state = self._start(B, start)
        parts = []
        for first in range(0, longest - 1, WINDOW):
            window = slice(first, first + WINDOW)
            here = targets[:, window], counts[:, window]
            loss, state = self._window(inputs[:, window], *here, state)
            parts.append(loss)
        return np.concatenate(parts, 1), counts

    def _window(
        self,
        inputs: NDArray[np.int64],
        targets: NDArray[np.int64],
        counts: NDArray[np.bool_],
        state: BiLmState,
    ) -> tuple[NDArray[np.float64], BiLmState]:
        words, index = np.unique(inputs, return_inverse=True)
        vectors = self.token_vectors(words)  # (U, P)
        x = vectors[torch.from_numpy(index.reshape(inputs.shape)).to(vectors.device)]
        layers, state = read_pair(self.bilm.forward_lstm, self.bilm.backward_lstm, x, state)
        hidden = layers[-1][torch.from_numpy(counts).to(x.device)].float()  # (N, P)
        rows = torch.from_numpy(self.target_of(targets[counts])).to(x.device)  # (N,)
        found = np.zeros(targets.shape)
        parts = torch.split(hidden, SOFTMAX_ROWS), torch.split(rows, SOFTMAX_ROWS)
        pairs = zip(*parts, strict=True)
        losses = [self.head.losses(*pair).double().cpu().numpy() for pair in pairs]
        found[counts] = np.concatenate(losses)
        return found, state

    def _start(self, rows: int, start: ScoreStart) -> BiLmState:
        return self.bilm.start_state(rows, None if start == "carried" else start)


def sentences_of(document: Text) -> Iterator[Text]:
    """The sentences of a document."""
    begins = [*np.flatnonzero(document == 0), len(document)]
    for first, past in pairwise(begins):
        yield document[first:past]


def _batches(texts: Sequence[Text]) -> Iterator[list[Text]]:
    """Texts of like length together, a bounded number of tokens in all."""
    ordered = sorted((text for text in texts if len(text) > 1), key=len)
    while ordered:
        room = max(1, min(MAX_ROWS, 16 * ROW_TOKENS // len(ordered[-1])))
        ordered, batch = ordered[:-room], ordered[-room:]
        yield batch
