"""ELMo inside a PyTorch model: sentences -> learned mixes of the layers, and a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.nn.scalar_mix import ScalarMix
from relmo.runtime.tuning import tuned_layers
from relmo.text.words import Sentence
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
        layers: mix all layers, or scale the top one.
    """

    layers_from: Callable[[Sequence[tuple[str, ...]]], Tensor] | None = None
    """Cached layers (L + 1, B, T, D) of sentences; None computes them."""

    def __init__(
        self,
        elmo: Elmo,
        mixes: int = 1,
        dropout: float = 0.5,
        l2: float = 1e-3,
        layer_norm: bool = False,
        finetune: bool = False,
        layers: Literal["mix", "top"] = "mix",
    ) -> None:
        super().__init__()
        if mixes < 1:
            raise ConfigError(f"mixes is {mixes}; at least one is needed")
        self._elmo = elmo  # no nn.Module, so its parameters are not ours
        self.width = elmo.config.width
        self.num_mixes = mixes
        self.l2 = l2
        self._first = 0 if layers == "mix" else elmo.config.num_layers - 1
        mixed = elmo.config.num_layers - self._first
        self.mixes = nn.ModuleList(ScalarMix(mixed, layer_norm=layer_norm) for _ in range(mixes))
        self.dropout: nn.Module = nn.Dropout(dropout)
        self.bilm = elmo.bilm.requires_grad_(True) if finetune else None
        if finetune:
            elmo.memo.clear()  # what it knows of the frozen weights is over
        self.mixes.to(elmo.device)

    @property
    def scalar_mixes(self) -> list[ScalarMix]:
        """The mixes, by number."""
        return cast("list[ScalarMix]", list(self.mixes))

    def read(self, sentences: Sequence[Sequence[str]]) -> Layers:
        """Layers (L + 1, B, T, D) of words, without boundaries, and their mask (B, T)."""
        T = max(map(len, sentences), default=0)
        lengths = torch.tensor([len(words) for words in sentences], dtype=torch.long)
        mask = (torch.arange(T) < lengths[:, None]).to(self._elmo.device)  # (B, T)
        if self.layers_from is not None:
            return Layers(self.layers_from([tuple(words) for words in sentences]), mask)
        if self.bilm is not None and any(p.requires_grad for p in self.bilm.parameters()):
            found = tuned_layers(self.bilm, self._elmo.batch(sentences))
        else:
            found = self._elmo.layers(sentences)[0]
        return Layers(found.values[:, :, 1:-1] * mask[..., None], mask)

    def mixed(self, layers: Layers, number: int = 0) -> Tensor:
        """Mix `number` of these layers, (B, T, D), zero past a sentence's end."""
        values = Layers(layers.values[self._first :], layers.mask)
        vectors: Tensor = self.dropout(self.mixes[number](values) * layers.mask.unsqueeze(-1))
        return vectors

    def forward(self, sentences: Sequence[Sentence]) -> tuple[list[Tensor], Tensor]:
        """Mixed vectors, one (B, T, D) per mix, zero past a sentence's end, and the mask (B, T)."""
        layers = self.read(list(self._elmo.words(sentences)))
        return [self.mixed(layers, number) for number in range(self.num_mixes)], layers.mask

    def penalty(self) -> Tensor:
        """Lambda times the squared norm of all mixes' weights: a part of the loss."""
        return self.l2 * torch.stack([mix.penalty() for mix in self.scalar_mixes]).sum()

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Let `.to(device)` take a frozen biLM along; its float32 is not ours to change."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._elmo.to(self.scalar_mixes[0].gamma.device)
        return self
