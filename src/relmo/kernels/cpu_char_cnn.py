"""The character convolutions on a CPU without products: responses are sums of looked-up rows.

A letter at place k of a window adds the same to a filter wherever it stands, so tables made once
hold what it adds to every filter, and a window's responses are the sum of a row per letter. Words
stand longest first: place after place, the windows that begin there are summed for the words that
reach so far, and each filter's greatest is kept.

Shapes: N words, n of them reaching a place, C characters, V ids, E character width, F filters,
W width of the widest filter.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from relmo.kernels.gemm_char_cnn import Filters, widen_filters


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
        best = functional.embedding_bag(windows[0], self.rows, mode="sum")  # (N, F)
        for place, n in enumerate(alive[1:], 1):
            here = functional.embedding_bag(windows[place, :n], self.rows, mode="sum")  # (n, F)
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
        padded = functional.pad(words, (0, W - 1), value=self.beyond)  # (N, C + W - 1)
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
