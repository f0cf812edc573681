"""ELMo inside a PyTorch model: sentences -> learned mixes of the layers, and a mask.

The layer that relmo's own tasks use. Frozen, it looks words up in the model's memo and runs the
fast engines; fine-tuned on a GPU it runs the kernels of pretraining.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.nn.scalar_mix import ScalarMix
from relmo.text.tokenize import Sentence, tokenized
from relmo.types import Layers

LayerSource = Callable[[Sequence[tuple[str, ...]]], Tensor]
"""Sentences -> their layers (L + 1, B, T, D) without boundaries, zero past a sentence's end."""


class ElmoLayer(nn.Module):
    """Several independent mixes over one pass of the biLM.

    Args:
        elmo: the pretrained model.
        mixes: how many mixes to learn, for instance one for a task's input and one for its output.
        dropout: on each mixed vector, in training.
        l2: lambda on the mixes' weights; add `penalty()` to the task's loss.
        layer_norm: normalize layers before mixing. The statistics are those of the whole batch, so
            a sentence's vectors then depend on its batch: off by default.
        finetune: train the biLM too. Otherwise it is frozen, `parameters()` and `state_dict()` are
            the mixes' alone, and each distinct word is looked up in the model's memo.
        layers: "mix" learns the weights of all layers, "top" uses the top layer alone, "token" the
            vectors of words before their sentence is read: of width P, and many times as fast.
    """

    def __init__(
        self,
        elmo: Elmo,
        mixes: int = 1,
        dropout: float = 0.5,
        l2: float = 1e-3,
        layer_norm: bool = False,
        finetune: bool = False,
        layers: Literal["mix", "top", "token"] = "mix",
    ) -> None:
        super().__init__()
        if not isinstance(elmo, Elmo):
            raise ConfigError(
                f"ElmoLayer expects an Elmo, got {elmo!r:.80}; load one: "
                f"ElmoLayer(Elmo.from_pretrained(...))"
            )
        if mixes < 1:
            raise ConfigError(f"mixes must be an integer ≥ 1, got {mixes}")
        if layers not in ("mix", "top", "token") or (layers != "mix" and layer_norm):
            raise ConfigError(
                f"layers must be mix, or top or token without layer_norm, got {layers!r}"
            )
        self.elmo = elmo  # not an nn.Module, so its parameters are not ours
        self.width = elmo.config.width // (2 if layers == "token" else 1)
        self.l2, self.layers, self.has_layer_norm = l2, layers, layer_norm
        num_layers = elmo.config.num_layers if layers == "mix" else 1
        self.mixes = nn.ModuleList(ScalarMix(num_layers, layer_norm) for _ in range(mixes))
        self.dropout = nn.Dropout(dropout)
        self.bilm = elmo.bilm.requires_grad_(True) if finetune else None
        self.layers_from: LayerSource | None = None
        """Where a frozen model's layers come from instead of the model: a cache of them, say."""
        if finetune:
            elmo.runtime.memo.clear()  # its vectors are those of the frozen weights
        self.mixes.to(elmo.device)

    def forward(self, sentences: Sequence[Sentence]) -> tuple[list[Tensor], Tensor]:
        """Mixed vectors, one (B, T, D) per mix, zero past a sentence's end, and the mask (B, T)."""
        words = list(tokenized(sentences, self.elmo.tokenizer))
        if not self.has_layer_norm:
            layers = self.read(words)
            return [self.mixed(layers, number) for number in range(len(self.mixes))], layers.mask
        layers = self._layers(words)  # as in the original, statistics include the boundaries
        mask = layers.word_mask  # (B, T)
        mixed = [mix(layers)[:, 1:-1] * mask.unsqueeze(-1) for mix in self.mixes]  # (B, T, D)
        return [self.dropout(vectors) for vectors in mixed], mask

    def read(self, sentences: Sequence[Sequence[str]]) -> Layers:
        """Layers of the words, boundaries left out; with gradients if the biLM is fine-tuned.

        With `layers="token"` there is one, (1, B, T, P).
        """
        if self.layers_from is not None and self.bilm is None:
            values = self.layers_from([tuple(words) for words in sentences])  # (L + 1, B, T, D)
            lengths = torch.tensor([len(words) for words in sentences])
            mask = torch.arange(values.shape[2]) < lengths.unsqueeze(1)  # (B, T)
            return Layers(values, mask.to(values.device))
        layers = self._layers(sentences)
        mask = layers.word_mask  # (B, T)
        return Layers(layers.values[:, :, 1:-1] * mask.unsqueeze(-1), mask)  # (L + 1, B, T, D)

    def mixed(self, layers: Layers, number: int = 0) -> Tensor:
        """One mix of layers as `read` returns them, with dropout in training, (B, T, D)."""
        if self.layers == "top":
            layers = Layers(layers.values[-1:], layers.mask)
        mixed: Tensor = self.dropout(self.mixes[number](layers))
        return mixed

    def penalty(self) -> Tensor:
        """Lambda times the squared norm of all mixes' weights: a part of the loss."""
        return self.l2 * torch.stack([mix.penalty() for mix in self._mixes()]).sum()

    def _mixes(self) -> list[ScalarMix]:
        return cast("list[ScalarMix]", list(self.mixes))

    def _layers(self, sentences: Sequence[Sequence[str]]) -> Layers:
        """All layers, boundaries included; with `layers="token"` the one of words alone."""
        runtime = self.elmo.runtime
        # also of a fine-tuned model that is only used
        is_frozen = self.bilm is None or not next(self.bilm.parameters()).requires_grad
        if is_frozen and self.layers != "token":
            return runtime.layers(sentences)[0]
        if is_frozen:
            x, lengths = runtime.token_vectors(sentences)  # (B, T, P)
        else:
            batch = runtime.batch(sentences)
            lengths = batch.lengths
            x = self.elmo.bilm.token_layer(batch.words)[batch.index]  # (B, T, P)
        if self.layers != "token":
            return self.elmo.bilm.read_padded(x, lengths)
        mask = torch.arange(x.shape[1]) < lengths.unsqueeze(1)  # (B, T)
        return Layers(x.unsqueeze(0), mask.to(x.device))

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Let `.to(device)` move a frozen biLM too; its dtype stays float32."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.elmo.to(self._mixes()[0].gamma.device)
        return self
