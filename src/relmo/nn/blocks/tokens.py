"""What a task's model reads: static vectors, the word's letters, ELMo, side by side.

    words  -> [static; letters; ELMo]       (B, T, E)    TokenInput(batch)
    h      -> [h; ELMo']                    (B, T, F)    TokenInput.beside(h, batch)

ELMo stands at the input, at the output of the task's encoder, at both or nowhere; each place has a
mix of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from relmo.errors import ConfigError
from relmo.nn.scalar_mix import ScalarMix
from relmo.types import Layers

Place = Literal["input", "output", "both"]
PLACES = {"input": ("input",), "output": ("output",), "both": ("input", "output")}


class TokenBatch(NamedTuple):
    """Sentences of a batch, on the device, padded to T tokens; boundaries are not among them."""

    static: Tensor
    """(B, T) rows of the static table: 0 fills up, 1 is a word without a vector."""
    letters: Tensor | None
    """(B, T, C) character ids, 0 fills up; None for a model that does not spell."""
    layers: Tensor | None
    """(L + 1, B, T, D) of the biLM, 0 past the end; None for a model without ELMo."""
    mask: Tensor
    """(B, T) True where a token stands."""
    known_lengths: Tensor | None = None
    """(B,) what `lengths` gives, where it is known: to ask the mask is to wait for the device."""

    @property
    def lengths(self) -> Tensor:
        """(B,) tokens of each sentence, on the CPU as packing wants them."""
        return self.mask.sum(1).cpu() if self.known_lengths is None else self.known_lengths


@dataclass(frozen=True, kw_only=True)
class InputSettings:
    """What the model of a task reads."""

    place: Place = "input"
    """Where ELMo's vectors go, in a model that has them."""
    layers: Literal["mix", "top"] = "mix"
    """A learned mix of all layers, or the top layer alone."""
    l2: float = 1e-3
    """Lambda on the mixes' weights: large keeps them equal."""
    elmo_dropout: float = 0.5
    finetune: bool = False
    """Train the biLM too; else its layers are computed once and kept."""
    letters: int = 0
    """Filters of the model's own character CNN; 0 has none."""
    letter_width: int = 16
    letter_window: int = 3
    tune_static: bool = True
    """Whether the static vectors are trained too."""
    dropout: float = 0.0
    """On static vectors and letters."""

    def __post_init__(self) -> None:
        if self.place not in PLACES:
            raise ConfigError(f"place is {self.place!r}; choose one of {', '.join(PLACES)}")
        if self.layers not in ("mix", "top"):
            raise ConfigError(f"layers is {self.layers!r}; choose mix or top")
        for name in ("elmo_dropout", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; a share below 1 is needed")
        if not self.l2 >= 0:
            raise ConfigError(f"l2 is {self.l2}; it cannot be negative")
        for name in ("finetune", "tune_static"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; write true or false")
        for name, least in {"letters": 0, "letter_width": 1, "letter_window": 1}.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigError(f"{name} is {value!r}; a whole number from {least} on is needed")


class TokenInput(nn.Module):
    """Token vectors of a task's model.

    Args:
        settings: what stands side by side.
        static: (words, width) vectors; rows 0 and 1 are padding and the unknown word.
        num_letters: character ids, 0 among them; unused unless the settings ask for letters.
        elmo_shape: (L + 1, D) of the biLM's layers; None leaves ELMo out.
    """

    def __init__(
        self,
        settings: InputSettings,
        static: Tensor,
        num_letters: int = 0,
        elmo_shape: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        words, width = static.shape
        self.static = nn.Embedding(words, width, padding_idx=0, _weight=static.clone())
        self.static.weight.requires_grad_(settings.tune_static)
        self.letters = _Letters(settings, num_letters) if settings.letters else None
        self.dropout = nn.Dropout(settings.dropout)
        self.elmo_dropout: nn.Module = nn.Dropout(settings.elmo_dropout)
        places = PLACES[settings.place] if elmo_shape else ()
        num_layers, self.elmo_width = elmo_shape or (0, 0)
        mixed = num_layers if settings.layers == "mix" else 1
        self.mixes = nn.ModuleDict({place: ScalarMix(mixed) for place in places})

    @property
    def width(self) -> int:
        """E, of what `forward` gives."""
        own = int(self.static.embedding_dim) + self.settings.letters
        return own + (self.elmo_width if "input" in self.mixes else 0)

    @property
    def extra_width(self) -> int:
        """By how much `beside` widens what it is given."""
        return self.elmo_width if "output" in self.mixes else 0

    def forward(self, batch: TokenBatch) -> Tensor:
        """Vectors of each token, (B, T, E), 0 past a sentence's end."""
        parts = [self.static(batch.static)]  # (B, T, ·)
        if self.letters is not None:
            assert batch.letters is not None
            parts.append(self.letters(batch.letters))
        own = self.dropout(torch.cat(parts, -1))
        found = torch.cat([own, *self._mixed("input", batch)], -1)  # (B, T, E)
        return found * batch.mask.unsqueeze(-1)

    def beside(self, h: Tensor, batch: TokenBatch) -> Tensor:
        """What an encoder made of the tokens, (B, T, F), with ELMo beside it where asked for."""
        return torch.cat([h, *self._mixed("output", batch)], -1)

    def penalty(self) -> Tensor:
        """A part of the loss: lambda times the squared weights of the mixes."""
        mixes = [mix.penalty() for mix in self.mixes.values() if isinstance(mix, ScalarMix)]
        zero = self.static.weight.new_zeros(())
        return self.settings.l2 * torch.stack([zero, *mixes]).sum()

    def _mixed(self, place: str, batch: TokenBatch) -> list[Tensor]:
        if place not in self.mixes:
            return []
        assert batch.layers is not None
        layers = batch.layers if self.settings.layers == "mix" else batch.layers[-1:]
        mixed = self.mixes[place](Layers(layers, batch.mask))  # (B, T, D)
        return [self.elmo_dropout(mixed)]


class _Letters(nn.Module):
    """A small character CNN: (B, T, C) ids -> (B, T, F), the strongest response of each filter."""

    def __init__(self, settings: InputSettings, num_letters: int) -> None:
        super().__init__()
        window = settings.letter_window
        self.embedding = nn.Embedding(num_letters, settings.letter_width, padding_idx=0)
        self.conv = nn.Conv1d(settings.letter_width, settings.letters, window, padding=window // 2)

    def forward(self, letters: Tensor) -> Tensor:
        """One vector per word from its letters."""
        B, T, C = letters.shape
        embedded = self.embedding(letters.reshape(B * T, C))  # (BT, C, E)
        responses = self.conv(embedded.mT)[..., :C]  # (BT, F, C); an even window gives one more
        # Past its end a word would answer with the bias, if a longer word stands in the batch.
        past = (letters == 0).view(B * T, 1, C)
        found: Tensor = torch.relu(responses.masked_fill(past, float("-inf")).amax(-1))  # (BT, F)
        return found.view(B, T, -1)
