"""`BiLM.forward` for a biLM that is trained on a GPU with a task's model: the same layers, sooner.

The plain biLM takes a dozen small operations for each step and direction. Here both directions are
read at once by the kernels of pretraining, each sentence to the end of the longest: what is read
past a sentence's own end is thrown away, and no gradient comes from it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relmo.kernels.select import has_triton
from relmo.nn.bilm import BiLM, take, turn_within_length
from relmo.nn.pair import read_pair
from relmo.types import Batch, Layers


def tuned_layers(bilm: BiLM, batch: Batch) -> Layers:
    """Layers of a batch, each sentence from the start state; gradients flow back through them once.

    A second pass back through the same layers, which torch allows if asked, the kernels refuse.
    """
    if not has_kernels(bilm):
        layers: Layers = bilm(batch)[0]
        return layers
    with torch.cuda.device(batch.index.device):  # where Triton starts its kernels
        vectors = bilm.token_layer(batch.words)  # (U, P)
        return read_to_the_longest(bilm, vectors[batch.index], batch.lengths)


def has_kernels(bilm: BiLM) -> bool:
    """Whether there are kernels for it where it is."""
    weight = next(bilm.parameters())
    is_float32 = weight.dtype == torch.float32
    return bilm.config.lstm.has_projection and is_float32 and has_triton(weight)


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
    pairs = [(x, x)]
    for ahead, behind in found:  # each (T, B, P)
        pairs.append((ahead.transpose(0, 1), take(behind.transpose(0, 1), turned)))
    values = torch.stack([torch.cat(pair, -1).to(x.dtype) for pair in pairs])  # (L + 1, B, T, D)
    return Layers(values * mask.unsqueeze(-1), mask)
