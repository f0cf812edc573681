"""ELMo inside a PyTorch model: sentences -> learned mixes of the layers, and a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.nn.scalar_mix import ScalarMix
from relmo.text.tokenize import Sentence
from relmo.types import Layers


class ElmoLayer(nn.Module):
    """Several independent mixes over one pass of the biLM.

    Args:
        elmo: the pretrained model.
        mixes: how many mixes to learn, for instance one for a task's input and one for its output.
        dropout: on each mixed vector, in training.
        l2: lambda on the mixes' weights; add `penalty()` to the task's loss.
        layer_norm: normalise layers before mixing. The statistics are those of the whole batch, so
            a sentence's vectors then depend on its batch: off unless asked for.
        finetune: train the biLM too. Else it is frozen, `parameters()` and `state_dict()` are the
            mixes' alone, and each distinct word is looked up in the model's memo.
    """

    def __init__(
        self,
        elmo: Elmo,
        mixes: int = 1,
        dropout: float = 0.5,
        l2: float = 1e-3,
        layer_norm: bool = False,
        finetune: bool = False,
    ) -> None:
        super().__init__()
        if mixes < 1:
            raise ConfigError(f"mixes is {mixes}; at least one is needed")
        self._elmo = elmo  # no nn.Module, so its parameters are not ours
        self.width = elmo.config.width
        self.l2 = l2
        self.mixes = nn.ModuleList(
            ScalarMix(elmo.config.num_layers, layer_norm=layer_norm) for _ in range(mixes)
        )
        self.dropout = nn.Dropout(dropout)
        self.bilm = elmo.bilm.requires_grad_(True) if finetune else None
        if finetune:
            elmo.memo.clear()  # what it knows of the frozen weights is over
        self.mixes.to(elmo.device)

    def forward(self, sentences: Sequence[Sentence]) -> tuple[list[Tensor], Tensor]:
        """Mixed vectors, one (B, T, D) per mix, zero past a sentence's end, and the mask (B, T)."""
        words = list(self._elmo.words(sentences))
        layers = self._layers(words)
        mask = layers.word_mask  # (B, T)
        mixed = [mix(layers)[:, 1:-1] * mask.unsqueeze(-1) for mix in self._mixes()]  # (B, T, D)
        return [self.dropout(vectors) for vectors in mixed], mask

    def penalty(self) -> Tensor:
        """Lambda times the squared norm of all mixes' weights: a part of the loss."""
        return self.l2 * torch.stack([mix.penalty() for mix in self._mixes()]).sum()

    def _mixes(self) -> list[ScalarMix]:
        return cast("list[ScalarMix]", list(self.mixes))

    def _layers(self, words: Sequence[Sequence[str]]) -> Layers:
        if self.bilm is None:
            return self._elmo.layers(words)[0]
        layers: Layers = self.bilm(self._elmo.batch(words))[0]
        return layers

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Let `.to(device)` take a frozen biLM along; its float32 is not ours to change."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._elmo.to(self._mixes()[0].gamma.device)
        return self
