"""All layers -> one vector per token: gamma * sum_j softmax(s)_j * layer_j."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relmo.errors import ConfigError
from relmo.types import Layers


class ScalarMix(nn.Module):
    """A learned weighted sum of layers, (L + 1, B, T, D) -> (B, T, D).

    Args:
        num_layers: layers to mix, the token layer counted.
        layer_norm: normalise each layer first. As in the original, mean and variance are taken
            over all tokens of the batch together, so a vector then depends on its batch.
        initial: starting values of s; zeros (equal weights) unless given.
        trainable: whether s and gamma are learned.
    """

    def __init__(
        self,
        num_layers: int,
        layer_norm: bool = False,
        initial: list[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        start = torch.zeros(num_layers) if initial is None else torch.tensor(initial)
        if start.shape != (num_layers,):
            raise ConfigError(f"{len(start)} starting values for {num_layers} layers")
        self.layer_norm = layer_norm
        self.s = nn.Parameter(start.float(), requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(()), requires_grad=trainable)

    def forward(self, layers: Layers) -> Tensor:
        """The mixed vectors (B, T, D)."""
        values = normalize(layers) if self.layer_norm else layers.values  # (L + 1, B, T, D)
        mixed = torch.einsum("l,lbtd->btd", self.weights(), values.to(self.s.dtype))
        return self.gamma * mixed  # (B, T, D)

    def weights(self) -> Tensor:
        """The layers' shares, (L + 1,); they sum to one."""
        return torch.softmax(self.s, 0)

    def penalty(self) -> Tensor:
        """The squared norm of s; times lambda it draws the mix towards equal weights."""
        return self.s.square().sum()

    def extra_repr(self) -> str:
        """Show the shares, and whether they have been learned at all."""
        shares = ", ".join(f"{share:.3f}" for share in self.weights().tolist())
        gamma = self.gamma.item()
        state = "untrained mix, " if gamma == 1.0 and not self.s.any() else ""
        return f"{state}weights=({shares}), gamma={gamma:.3f}"


def normalize(layers: Layers) -> Tensor:
    """Each layer with mean 0 and variance 1 over all its tokens together, (L + 1, B, T, D)."""
    values = layers.values
    there = layers.mask.unsqueeze(-1).to(values.dtype)  # (B, T, 1)
    count = there.sum() * values.shape[-1]
    mean = (values * there).sum((1, 2, 3), keepdim=True) / count  # (L + 1, 1, 1, 1)
    variance = (((values - mean) * there) ** 2).sum((1, 2, 3), keepdim=True) / count
    return (values - mean) / torch.sqrt(variance + 1e-12)
