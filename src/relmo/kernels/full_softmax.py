"""The full softmax of a language model, a block of words at a time, on any device.

A softmax over V words of N tokens has N x V scores: 100 000 words of 256 tokens are 100 MB, and
several times that with their powers. Here a block of words is scored, summed up while it is still
in the cache, and forgotten. Sums are kept in range by the largest score so far.

The two directions share the softmax. What both contexts say together is the product of the two
predictions, renormalized: its powers are the products of theirs, so it costs no further scores.

A GPU with Triton sums a block up in one pass over its scores (`triton_full_softmax.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from relmo.kernels.cpu_products import (
    OneDnnProduct,
    Precision,
    Product,
    SharedProduct,
    make_product,
    prefers_onednn,
)
from relmo.kernels.device import has_triton
from relmo.kernels.threads import run_each

Result = TypeVar("Result")
ROWS = {"cpu": 256, "cuda": 8192}
"""Tokens scored at once, both directions counted."""
WORDS = {"cpu": 2048, "cuda": 8192}
"""Words scored at once: with ROWS tokens, what stays in the cache of a CPU, and what keeps a GPU
busy."""
LEAST = 1e-25
"""A sum of products of powers below which their digits are lost."""


class Readings(NamedTuple):
    """What the language models say of N words, each (N,) in nats, float32."""

    forward: Tensor
    """-log p(word | before)."""
    backward: Tensor
    """-log p(word | after)."""
    both: Tensor
    """-log p of the product of the two predictions, renormalized."""
    entropy: Tensor
    """Of the forward prediction: the expected -log p of what comes next."""


class FullSoftmax:
    """Log-probabilities of V words given (N, P).

    Args:
        weight: (V, P).
        bias: (V,).
        precision: of the products; "bfloat16" is TF32 on a GPU, as scores need more digits.
    """

    def __init__(self, weight: Tensor, bias: Tensor, precision: Precision = "float32") -> None:
        self.device = weight.device
        self.kind: Literal["cpu", "cuda"] = "cuda" if weight.is_cuda else "cpu"
        self._rows, size = ROWS[self.kind], WORDS[self.kind]
        self._rounds = self.kind == "cuda" and precision != "float32"
        self._has_kernel = has_triton(self.device)
        self._blocks = [
            (_pack(w, precision), b)
            for w, b in zip(*_split(size, weight.detach(), bias.detach()), strict=True)
        ]

    @torch.no_grad()
    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """-log p of each target, (N, P), (N,) -> (N,)."""
        pairs = zip(*_split(self._rows, hidden, targets), strict=True)
        return torch.cat(
            [hidden.new_empty(0), *self._run([partial(self._lose, *p) for p in pairs])]
        )

    @torch.no_grad()
    def readings(self, forward: Tensor, backward: Tensor, targets: Tensor) -> Readings:
        """What both directions say of each target, (N, P), (N, P), (N,)."""
        parts = zip(*_split(self._rows // 2, forward, backward, targets), strict=True)
        found = self._run([partial(self._read, *part) for part in parts])
        return Readings(*torch.cat([forward.new_empty(4, 0, dtype=torch.float32), *found], 1))

    @torch.no_grad()
    def best(
        self, forward: Tensor, backward: Tensor, prior: Tensor, k: int
    ) -> tuple[Tensor, Tensor]:
        """The k words that both directions expect most, (N, P), (N, P), (V,) -> scores and words.

        A word's score is log p(word | before) + log p(word | after) - prior, (N, k), the best
        first; words with an infinite prior never are.
        """
        pairs = zip(*_split(self._rows // 2, forward, backward), strict=True)
        found = self._run([partial(self._best, one, other, prior, k) for one, other in pairs])
        none = forward.new_empty(0, k), prior.new_empty(0, k, dtype=torch.int64)
        scores, words = (torch.cat(part) for part in zip(none, *found, strict=True))
        return scores, words

    def _run(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """Results of all: each by its own thread on a CPU, one after the other on a GPU."""
        return [work() for work in works] if self.kind == "cuda" else run_each(works)

    def _best(
        self, forward: Tensor, backward: Tensor, prior: Tensor, k: int
    ) -> tuple[Tensor, Tensor]:
        """The best words at some places: their scores and numbers, (n, k)."""
        n = len(forward)
        total = _Softmax(torch.zeros(2 * n, dtype=torch.int64, device=self.device))
        best = forward.new_empty(n, 0, dtype=torch.float32)
        words = best.long()
        for first, scores in self._scores(torch.cat([forward, backward]).float()):  # (2n, B)
            size = scores.shape[1]
            both = scores[:n] + scores[n:] - prior[first : first + size]
            own, places = both.topk(min(k, size))  # (n, k)
            best, words = torch.cat([best, own], 1), torch.cat([words, first + places], 1)
            best, kept = best.topk(min(k, best.shape[1]))
            words = words.gather(1, kept)
            total.add(first, scores)
        normalizers = total.normalizers().view(2, n).sum(0)  # (n,)
        return best - normalizers.unsqueeze(1), words

    def _lose(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """-log p of some targets, (n,)."""
        total = _Softmax(targets)
        for first, scores, bias in self._products(hidden.float()):  # (n, B)
            if self._has_kernel:
                from relmo.kernels.triton_full_softmax import add_scores  # imports Triton

                add_scores(scores, bias, first, targets, total.top, total.total, total.own)
            else:
                total.add(first, scores.add_(bias))
        return total.losses()

    def _read(self, forward: Tensor, backward: Tensor, targets: Tensor) -> Tensor:
        """What is said of some targets, (4, n)."""
        n = len(targets)
        ahead, behind = _Softmax(targets, with_entropy=True), _Softmax(targets)
        product = forward.new_zeros(n, dtype=torch.float32)  # of the powers of both, summed up
        hidden = torch.cat([forward, backward]).float()
        for first, scores, bias in self._products(hidden):  # (2n, B)
            if self._has_kernel:
                from relmo.kernels.triton_full_softmax import add_both  # imports Triton

                add_both(
                    scores, bias, first, targets, ahead.top, ahead.total, ahead.own, ahead.weighted,
                    behind.top, behind.total, behind.own, product,
                )  # fmt: skip
            else:
                scores += bias
                one, shrink_one = ahead.add(first, scores[:n])
                other, shrink_other = behind.add(first, scores[n:])
                product = product * shrink_one * shrink_other + torch.linalg.vecdot(one, other)
        both = ahead.top + behind.top + product.log() - ahead.own - behind.own
        if (apart := product < LEAST).any():  # no word is likely from both sides
            both[apart] = self._read_apart(forward[apart], backward[apart], targets[apart])
        return torch.stack([ahead.losses(), behind.losses(), both, ahead.entropy()])

    def _read_apart(self, forward: Tensor, backward: Tensor, targets: Tensor) -> Tensor:
        """-log p by both together, (n,), from sums of scores: in range whatever they are."""
        n, both = len(targets), _Softmax(targets)
        for first, scores in self._scores(torch.cat([forward, backward]).float()):  # (2n, B)
            both.add(first, scores[:n] + scores[n:])
        return both.losses()

    def _scores(self, hidden: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The number of a block's first word and its scores (n, B), block after block."""
        for first, scores, bias in self._products(hidden):
            yield first, scores.add_(bias)

    def _products(self, hidden: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """As `_scores`, the bias (B,) apart."""
        first = 0
        with _tf32(self._rounds):
            for product, bias in self._blocks:
                yield first, product(hidden), bias
                first += len(bias)


class _Softmax:
    """A softmax summed up block by block for n targets."""

    def __init__(self, targets: Tensor, *, with_entropy: bool = False) -> None:
        zeros = torch.zeros(len(targets), device=targets.device)  # (n,) float32
        self.targets, self.with_entropy = targets, with_entropy
        self.top = zeros + torch.finfo(torch.float32).min  # the largest score so far
        self.total = zeros  # of the powers of the scores less the largest
        self.weighted = zeros.clone()  # of the same, each times its score
        self.own = zeros.clone()  # the target's score

    def add(self, first: int, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Add the scores (n, B) of words from number `first` on; they may be overwritten.

        Returns their powers, less the largest score so far, and by how much those before shrank.
        """
        top = torch.maximum(self.top, scores.amax(1))
        shrink = (self.top - top).exp_()
        place = self.targets - first
        inside = (place >= 0) & (place < scores.shape[1])
        own = scores.gather(1, place.clamp(0, scores.shape[1] - 1).unsqueeze(1)).squeeze(1)
        self.own = torch.where(inside, own, self.own)
        if self.with_entropy:
            powers = torch.sub(scores, top.unsqueeze(1)).exp_()
            self.weighted = self.weighted * shrink + torch.linalg.vecdot(powers, scores)
        else:
            powers = scores.sub_(top.unsqueeze(1)).exp_()
        self.total = self.total * shrink + powers.sum(1)
        self.top = top
        return powers, shrink

    def normalizers(self) -> Tensor:
        """Logarithms of the sums of the scores' powers, (n,)."""
        return self.top + self.total.log()

    def losses(self) -> Tensor:
        """-log p of the targets, (n,)."""
        return self.normalizers() - self.own

    def entropy(self) -> Tensor:
        """Of the whole distribution, (n,)."""
        return self.normalizers() - self.weighted / self.total


def _pack(weight: Tensor, precision: Precision) -> Product:
    """The product with a block of words, (n, P) -> (n, B)."""
    if weight.is_cuda:
        return SharedProduct(weight)
    if precision == "float32" and prefers_onednn():
        return OneDnnProduct(weight)
    return make_product(weight, precision, many_rows=True)


def _split(rows: int, *matrices: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Rows of each matrix, at most that many at a time."""
    return (torch.split(matrix, rows) for matrix in matrices)


@contextmanager
def _tf32(allow: bool) -> Iterator[None]:
    """Products of float32 on a GPU with 10 bits of mantissa, if allowed."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allow else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
