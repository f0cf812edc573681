"""The character convolutions, two fast ways: one matrix product, or sums of table rows on a CPU.

As a product: every window of the widest filter is a row of letters; narrower filters are padded
with zeros to that width. Float32 stays float32 everywhere; convolutions might be rounded to TF32.

From tables: a letter at place k of a window adds the same to a filter wherever it stands, so tables
made once hold what it adds to every filter, and a window's responses are the sum of one row per
letter. Words stand longest first: place after place, the windows that begin there are summed for
the words that reach so far, and each filter's maximum is kept.

Shapes: N words, n of them reaching a place, C characters, V ids, E character width, F filters,
W width of the widest filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Filters = Sequence[tuple[Tensor, Tensor]]


def filters_of(convs: Iterable[nn.Module]) -> list[tuple[Tensor, Tensor]]:
    """Weight (F_k, E, width) and bias (F_k,) of each convolution."""
    layers = cast("Iterable[nn.Conv1d]", convs)
    return [(conv.weight, cast("Tensor", conv.bias)) for conv in layers]


def char_convolutions(
    letters: Tensor, filters: Filters, activation: str, ends_in_padding: bool = False
) -> Tensor:
    """Strongest response of each filter anywhere in the word: (N, C, E) -> (N, F).

    The same as `reference.char_convolutions`. Where every word leaves the widest filter a window of
    padding alone, `ends_in_padding` saves the windows past it: what narrower filters see there
    equals what they see in that one.
    """
    N, C, E = letters.shape
    widest = max(weight.shape[2] for weight, _ in filters)
    if not ends_in_padding:
        letters = F.pad(letters, (0, 0, 0, widest - 1))  # (N, C + widest - 1, E)
    weight, bias = widen_filters(filters)  # (widest * E, F), (F,)
    windows = letters.flatten(1).unfold(1, widest * E, E)  # (N, places, widest * E), a view
    places = windows.shape[1]
    found = (windows.reshape(N * places, widest * E) @ weight).view(N, places, len(bias))
    if not ends_in_padding:
        found = found.masked_fill(_past_the_end(filters, C, letters.device), float("-inf"))
    best = found.max(1).values + bias  # (N, F)
    return torch.relu(best) if activation == "relu" else torch.tanh(best)


def widen_filters(filters: Filters) -> tuple[Tensor, Tensor]:
    """All filters as one matrix (widest * E, F), narrower ones padded, and their bias (F,)."""
    widest = max(weight.shape[2] for weight, _ in filters)
    padded = [F.pad(weight, (0, widest - weight.shape[2])) for weight, _ in filters]
    stacked = torch.cat(padded)  # (F, E, widest)
    return stacked.permute(2, 1, 0).flatten(0, 1), torch.cat([bias for _, bias in filters])


def _past_the_end(filters: Filters, C: int, device: torch.device) -> Tensor:
    """(C, F) where a window of the filter would reach beyond the word's C characters."""
    widths = [weight.shape[2] for weight, _ in filters for _ in range(weight.shape[0])]
    place = torch.arange(C, device=device).unsqueeze(1)  # (C, 1)
    return place + torch.tensor(widths, device=device) > C


class LetterTables:
    """`reference.char_convolutions` for words given as ids, without gradients.

    Args:
        embedding: (V, E) vectors of the ids.
        filters: weight (F_k, E, width) and bias (F_k,) of each convolution.
        activation: "relu" or "tanh".
        padding: the id that fills a word up; 0 fills a word that is not there at all.
    """

    def __init__(self, embedding: Tensor, filters: Filters, activation: str, padding: int) -> None:
        self.squash = torch.relu_ if activation == "relu" else torch.tanh_
        self.padding, self.beyond = padding, len(embedding)  # one id more: past the last letter
        tables = make_tables(embedding, filters)  # (W, V + 1, F)
        self.rows = tables.flatten(0, 1)  # (W (V + 1), F)
        self.first_rows = torch.arange(len(tables)) * tables.shape[1]  # (W,)

    @staticmethod
    def bytes_of(embedding: Tensor, filters: Filters) -> int:
        """Memory that the tables would take."""
        widest = max(weight.shape[2] for weight, _ in filters)
        num_filters = sum(len(bias) for _, bias in filters)
        return widest * (len(embedding) + 1) * num_filters * embedding.element_size()

    def __call__(self, words: Tensor) -> Tensor:
        """Strongest response of each filter anywhere in the word, (N, C) -> (N, F)."""
        order, alive = self._longest_first(words)  # (N,), places
        windows = self._windows(words[order], len(alive))  # (places, N, W)
        best = F.embedding_bag(windows[0], self.rows, mode="sum")  # (N, F)
        for place, n in enumerate(alive[1:], 1):
            here = F.embedding_bag(windows[place, :n], self.rows, mode="sum")  # (n, F)
            torch.maximum(best[:n], here, out=best[:n])
        return torch.empty_like(best).index_copy_(0, order, self.squash(best))

    def _longest_first(self, words: Tensor) -> tuple[Tensor, list[int]]:
        """Order of the words, (N,), and how many of them have a window at each place.

        Windows past a word's end see padding alone and are all equal: one of them is enough.
        """
        letters = ((words != self.padding) & (words != 0)).sum(1)  # (N,)
        places, order = (letters + 1).clamp_(max=words.shape[1]).sort(descending=True)  # each (N,)
        steps = torch.arange(int(places[0]))
        return order, (places > steps.unsqueeze(1)).sum(1).tolist()

    def _windows(self, words: Tensor, places: int) -> Tensor:
        """Rows of the tables that the windows at each place need, (N, C) -> (places, N, W)."""
        W = len(self.first_rows)
        padded = F.pad(words, (0, W - 1), value=self.beyond)  # (N, C + W - 1)
        return padded.t()[: places + W - 1].unfold(0, W, 1) + self.first_rows


def make_tables(embedding: Tensor, filters: Filters) -> Tensor:
    """What id v at place k of a window adds to each filter: (V, E) -> (W, V + 1, F).

    Place 0 has the bias as well. The last id stands for what is past a word's C characters: no
    filter may look there, so it leaves one that would without any response, and is nothing to one
    that ends before.
    """
    weight, bias = widen_filters(filters)  # (W * E, F), (F,)
    V, E = embedding.shape
    W = len(weight) // E
    tables = embedding.new_zeros(W, V + 1, len(bias))
    torch.matmul(embedding, weight.view(W, E, -1), out=tables[:, :V])
    tables[0, :V] += bias
    widths = torch.tensor([w.shape[2] for w, _ in filters for _ in range(len(w))])  # (F,)
    tables[:, V].masked_fill_(torch.arange(W).unsqueeze(1) < widths, float("-inf"))
    return tables
