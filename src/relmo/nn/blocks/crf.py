"""Scores of tags -> the best sequence of tags: a linear-chain CRF, and Viterbi on its own.

A `Lattice` weighs all sequences: from it come the probabilities of single tags and of spans.

B sentences, T tokens, K tags. The score of a sequence is the sum of the scores of its tags, of the
transitions between them, of its first tag as a start and of its last tag as an end. Masks are true
for the first n tokens of each sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relmo.errors import ConfigError
from relmo.kernels.device import has_triton

NEVER = -1e4
"""Score of a forbidden transition in the loss: its exponential is 0, yet its gradient is finite,
unlike that of -inf."""
MAX_TAGS = 128
"""Maximum for the Triton kernel, which keeps all tags in registers."""


class Crf(nn.Module):
    """Learns scores of transitions between tags; forbidden ones are never decoded.

    Args:
        num_tags: K.
        allowed: (K + 2, K + 2) true at [before, after] where a tag may follow another; row K is
            the start of a sentence, column K + 1 its end. None allows all transitions.
    """

    allowed: Tensor

    def __init__(self, num_tags: int, allowed: Tensor | None = None) -> None:
        super().__init__()
        K = num_tags
        if allowed is None:
            allowed = torch.ones(K + 2, K + 2, dtype=torch.bool)
        if allowed.shape != (K + 2, K + 2):
            shape = tuple(allowed.shape)
            raise ConfigError(f"allowed must be {(K + 2, K + 2)} for {K} tags, got {shape}")
        self.register_buffer("allowed", allowed.bool(), persistent=False)
        self.transitions = nn.Parameter(torch.zeros(K, K))
        self.start = nn.Parameter(torch.zeros(K))
        self.end = nn.Parameter(torch.zeros(K))

    def loss(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """-log p of the tags, (B, T, K), (B, T), (B, T) -> (B,), 0 for a sentence without words.

        Tags past the end of a sentence are ignored.
        """
        if scores.shape[1] == 0:
            return _wide(scores).sum((1, 2))
        with torch.autocast(scores.device.type, enabled=False):
            steps = self._steps(NEVER)
            scores = _wide(scores).masked_fill(~mask.unsqueeze(2), 0)  # padding may be NaN
            losses = _log_sum(scores, mask, *steps) - _path_score(scores, tags, mask, *steps)
            return losses * mask.any(1)

    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """The best sequence of allowed tags of each sentence, (B, T, K), (B, T) -> B lists."""
        return viterbi(scores, mask, *self._steps(float("-inf")))

    def lattice(self, scores: Tensor, mask: Tensor, temperature: float = 1.0) -> Lattice:
        """All sequences of allowed tags, weighed, (B, T, K), (B, T) -> B sentences."""
        return make_lattice(scores, mask, *self._steps(float("-inf")), temperature=temperature)

    def extra_repr(self) -> str:
        """Show the number of tags and of allowed transitions."""
        inner = self.allowed[:-2, :-2]
        return f"tags={len(self.start)}, allowed={int(inner.sum())} of {inner.numel()} transitions"

    def _steps(self, never: float) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of the transitions (K, K), of the first (K,) and of the last tag (K,)."""
        inner, first, last = self.allowed[:-2, :-2], self.allowed[-2, :-2], self.allowed[:-2, -1]
        return (
            _wide(self.transitions).masked_fill(~inner, never),
            _wide(self.start).masked_fill(~first, never),
            _wide(self.end).masked_fill(~last, never),
        )


@dataclass(frozen=True, slots=True)
class Lattice:
    """All sequences of tags of B sentences and their probabilities."""

    scores: NDArray[np.float64]
    """(B, T, K) of the tags."""
    transitions: NDArray[np.float64]
    """(K, K) [before, after]."""
    ahead: NDArray[np.float64]
    """(B, T, K) log of the sum over all beginnings that end in a tag, its score included."""
    behind: NDArray[np.float64]
    """(B, T, K) the same over all that may follow a tag."""
    total: NDArray[np.float64]
    """(B,) the same over all sequences."""
    lengths: NDArray[np.float64]
    """(B,) tokens of each sentence."""

    def tag_probabilities(self, row: int) -> NDArray[np.float64]:
        """The probability of each tag at each token of a sentence, (T, K)."""
        log_p = self.ahead[row] + self.behind[row] - self.total[row]
        shares: NDArray[np.float64] = np.exp(np.minimum(log_p, 0))
        return shares

    def span_probability(
        self, row: int, first: int, tags: Sequence[int], barred: int | None = None
    ) -> float:
        """The probability that the tokens of a sentence from `first` on have these tags.

        Args:
            row: of the sentence.
            first: token.
            tags: of the tokens from there on.
            barred: a tag that must not follow them, such as one that would continue the span.
        """
        last, scores = first + len(tags) - 1, self.scores[row]
        log_p = self.ahead[row, first, tags[0]] + self.behind[row, last, tags[-1]] - self.total[row]
        for token, (before, tag) in enumerate(pairwise(tags), first + 1):
            log_p += self.transitions[before, tag] + scores[token, tag]
        if barred is None or last + 1 >= self.lengths[row]:
            return float(np.exp(min(log_p, 0.0)))
        onward = self.transitions[tags[-1], barred] + scores[last + 1, barred]
        log_barred = log_p - self.behind[row, last, tags[-1]]
        log_barred += onward + self.behind[row, last + 1, barred]
        return float(max(np.exp(min(log_p, 0.0)) - np.exp(min(log_barred, 0.0)), 0.0))


@torch.no_grad()
def make_lattice(
    scores: Tensor,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    *,
    temperature: float = 1.0,
) -> Lattice:
    """The lattice of the same scores that `viterbi` takes, all divided by a temperature."""
    B, T, K = scores.shape
    none = torch.zeros(K, dtype=torch.float64)
    given = (scores, transitions, none if start is None else start, none if end is None else end)
    own, steps, first, last = (each.detach().double().cpu() / temperature for each in given)
    own = own.masked_fill(~mask.cpu().unsqueeze(2), 0)  # padding may be NaN
    weights, there = steps.exp(), mask.cpu().unsqueeze(2)  # (K, K), (B, T, 1)
    ahead = torch.zeros(B, T, K, dtype=torch.float64)
    behind = last.expand(B, T, K).clone()
    for t in range(T):
        ahead[:, t] = own[:, t] + (first if t == 0 else _log_product(ahead[:, t - 1], weights))
    for t in range(T - 2, -1, -1):
        onward = _log_product(own[:, t + 1] + behind[:, t + 1], weights.T)
        behind[:, t] = torch.where(there[:, t + 1], onward, behind[:, t])
    total = torch.logsumexp(ahead[:, 0] + behind[:, 0], 1) if T else torch.zeros(B)
    found = (own, steps, ahead, behind, total, mask.sum(1).cpu())
    return Lattice(*(each.double().numpy() for each in found))


def _log_product(logs: Tensor, weights: Tensor) -> Tensor:
    """log(exp(logs) @ weights), (B, K), (K, K) -> (B, K): sums over K tags as one matrix product.

    Sums that are smaller than exp(-700) of a sentence's largest count as nothing.
    """
    highest = logs.amax(1, keepdim=True).clamp(min=torch.finfo(logs.dtype).min)  # (B, 1)
    return ((logs - highest).exp() @ weights).log() + highest


@torch.no_grad()
def viterbi(
    scores: Tensor,
    mask: Tensor,
    transitions: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
) -> list[list[int]]:
    """The best sequence of tags of each sentence: B lists, each as long as its sentence.

    Args:
        scores: (B, T, K) of the tags, of any floating type.
        mask: (B, T) false at padding.
        transitions: (K, K) score of each transition [before, after]; -inf forbids it.
        start: (K,) score of each tag as the first; 0 by default.
        end: (K,) score of each tag as the last; 0 by default.
    """
    B, T, K = scores.shape
    if T == 0:
        return [[] for _ in range(B)]
    with torch.autocast(scores.device.type, enabled=False):
        scores, transitions = _wide(scores), _wide(transitions)
        none = scores.new_zeros(K)
        best = scores[:, 0] + (none if start is None else _wide(start))  # (B, K)
        stay = torch.arange(K, device=scores.device).expand(B, K)
        backs = []  # (B, K) each: the best predecessor of each tag
        for t in range(1, T):
            there = mask[:, t : t + 1]  # (B, 1)
            value, back = (best.unsqueeze(2) + transitions).max(1)  # (B, K)
            best = torch.where(there, value + scores[:, t], best)
            backs.append(torch.where(there, back, stay))  # padding keeps the last tag
        value, last = (best + (none if end is None else _wide(end))).max(1)  # (B,)
    _check_legal(value, mask)
    tags = [last]  # (B,) each, from the last to the first
    for back in reversed(backs):
        tags.append(back.gather(1, tags[-1].unsqueeze(1)).squeeze(1))
    paths = torch.stack(tags[::-1], 1).tolist()  # (B, T)
    lengths = mask.sum(1).tolist()
    return [path[:length] for path, length in zip(paths, lengths, strict=True)]


def _check_legal(value: Tensor, mask: Tensor) -> None:
    """Raise ConfigError if all sequences of a sentence are forbidden."""
    is_stuck = torch.isneginf(value) & mask.any(1)
    if is_stuck.any():
        length = int(mask[is_stuck][0].sum())
        raise ConfigError(
            f"no sequence of {length} tags is allowed; allow a tag as first and last, such as O"
        )


def _log_sum(
    scores: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """Log of the sum of exp(score) over all sequences, (B,)."""
    if has_triton(scores.device) and scores.dtype == torch.float32 and scores.shape[2] <= MAX_TAGS:
        from relmo.kernels.triton_crf import log_sum

        return log_sum(scores, mask.sum(1).clamp(min=1), transitions, start, end)
    return plain_log_sum(scores, mask, transitions, start, end)


def plain_log_sum(
    scores: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The same without a kernel, token by token."""
    first, *others = scores.unbind(1)  # a slice's gradient would have the full size
    total = first + start  # (B, K): of all sequences that end in a tag
    for own, there in zip(others, mask.unsqueeze(2).unbind(1)[1:], strict=True):
        longer = torch.logsumexp(total.unsqueeze(2) + transitions, 1) + own
        total = torch.where(there, longer, total)
    return torch.logsumexp(total + end, 1)


def _path_score(
    scores: Tensor, tags: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The score of the given tags, (B,)."""
    tags = tags.masked_fill(~mask, 0)
    last = tags.gather(1, (mask.sum(1, keepdim=True) - 1).clamp(min=0)).squeeze(1)  # (B,)
    own = scores.gather(2, tags.unsqueeze(2)).squeeze(2) * mask  # (B, T)
    steps = transitions[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]  # (B, T - 1)
    return own.sum(1) + steps.sum(1) + start[tags[:, 0]] + end[last]


def _wide(values: Tensor) -> Tensor:
    """In float32 at least: sums over long sentences need its precision."""
    return values if values.dtype == torch.float64 else values.float()
