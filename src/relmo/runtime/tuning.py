"""`BiLM.forward` for a biLM that is trained on a GPU with a task's model: the same layers, sooner.

The plain biLM takes a dozen small operations for each step and direction. Here both directions are
read at once by the kernels of pretraining, each sentence to the end of the longest: what is read
past a sentence's own end is thrown away, and no gradient comes from it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relmo.nn.bilm import BiLM, join_directions, take, turn_within_length
from relmo.runtime.pair import has_kernels, read_pair
from relmo.types import Batch, Layers


def tuned_layers(bilm: BiLM, batch: Batch) -> Layers:
    """Layers of a batch, each sentence from the start state; gradients flow back through them once.

    A second pass back through the same layers, which torch allows if asked, the kernels refuse.
    """
    if not has_kernels(bilm):
        layers: Layers = bilm(batch)[0]
        return layers
    vectors = bilm.token_layer(batch.words)  # (U, P)
    return read_to_the_longest(bilm, vectors[batch.index], batch.lengths)


def read_to_the_longest(bilm: BiLM, x: Tensor, lengths: Tensor) -> Layers:
    """Layers of token vectors (B, T, P) whose row b is valid up to lengths[b]."""
    B, T, _ = x.shape
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    turned = turn_within_length(lengths, T).to(x.device)  # (B, T)
    mask = (torch.arange(T) < lengths.unsqueeze(1)).to(x.device)  # (B, T)
    with torch.autocast(kind, enabled=False):
        both = torch.stack([x, take(x, turned)]).transpose(1, 2)  # (2, T, B, P)
        found, _ = read_pair(
            bilm.forward_lstm, bilm.backward_lstm, both.to(dtype), bilm.begin(None, B)
        )
    outputs = (y.transpose(1, 2).to(x.dtype) for y in found)  # each (2, B, T, P)
    return join_directions(x, ((y[0], y[1]) for y in outputs), turned, mask)
