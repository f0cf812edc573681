"""What a task's model reads: static vectors, the word's letters and ELMo, side by side.

    words -> TokenBatch                     Inputs(sentences)
    batch -> [word; letters; ELMo]          TokenInput(batch)            (B, T, E)
    h     -> [h; ELMo']                     TokenInput.beside(h, batch)  (B, T, F)

ELMo joins at the input, at the output of the task's encoder, at both or not at all. Each place has
a mix of its own, all of one `ElmoLayer`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from relmo.config import Count, CountOrZero, DropoutRate, NonNegative, Settings
from relmo.elmo import Elmo
from relmo.elmo_layer import ElmoLayer
from relmo.kernels.device import to_device
from relmo.nn.scalar_mix import ScalarMix
from relmo.tasks.output_embeddings import OutputEmbeddings
from relmo.tasks.static_vectors import StaticVectors
from relmo.types import Layers

Words = tuple[str, ...]
Place = Literal["input", "output", "both"]
PLACES = {"input": ("input",), "output": ("output",), "both": ("input", "output")}
MAX_LETTERS = 30
"""Letters of a word that the model's own character CNN reads."""
MAX_KNOWN = 1_000_000
"""Words whose rows and letters are cached, in about 150 MB; beyond that the cache starts over."""


@dataclass(frozen=True, kw_only=True)
class InputSettings(Settings):
    """What a task's model reads."""

    place: Place = "input"
    """Where ELMo's vectors join, in a model that has them."""
    layers: Literal["mix", "top", "token"] = "mix"
    """A learned mix of all layers, the top layer alone, or the vectors of words without their
    sentence, which need no LSTM."""
    l2: NonNegative = 1e-3
    """Weight of the L2 penalty on the mixes: large values keep the layers' shares equal."""
    elmo_dropout: DropoutRate = 0.5
    finetune: bool = False
    """Train the biLM too; otherwise its layers are computed once and cached."""
    letters: CountOrZero = 0
    """Filters of the model's own character CNN; 0 disables it."""
    letter_width: Count = 16
    letter_window: Count = 3
    tune_static: bool = True
    """Whether the static vectors are trained too."""
    static_words: CountOrZero = 0
    """Words at the beginning of a file of vectors that are kept besides those of the training part,
    for texts to come; 0 keeps the words of the training, dev and test parts instead."""
    dropout: DropoutRate = 0.0
    """On static vectors, output embeddings and letters."""
    random_width: CountOrZero = 100
    """Width of the word vectors trained from scratch if no file of vectors is given. 0 leaves them
    out beside ELMo."""
    output_embeddings: bool = False
    """Read the rows of the ELMo model's own softmax too, frozen, as vectors of its vocabulary."""


class TokenBatch(NamedTuple):
    """A batch of sentences on the device, padded to T tokens, without sentence boundaries."""

    static: Tensor
    """(B, T) rows of the static table: 0 is padding, 1 a word without a vector."""
    letters: Tensor | None
    """(B, T, C) character ids, 0 is padding; None for a model without a character CNN."""
    layers: Tensor | None
    """(L + 1, B, T, D) of the biLM, 0 past the end; None for a model without ELMo."""
    mask: Tensor
    """(B, T) True at tokens, False at padding."""
    known_lengths: Tensor | None = None
    """(B,) the lengths, if known: computing them from the mask would wait for the device."""
    output: Tensor | None = None
    """(B, T) rows of the ELMo model's softmax; None for a model without output embeddings."""

    @property
    def lengths(self) -> Tensor:
        """(B,) tokens of each sentence, on the CPU as packing needs them."""
        return self.mask.sum(1).cpu() if self.known_lengths is None else self.known_lengths

    def split(self, size: int) -> Iterator[TokenBatch]:
        """Batches of at most `size` sentences each, padded as this one."""
        for first in range(0, len(self.mask), size):
            rows = slice(first, first + size)
            letters = None if self.letters is None else self.letters[rows]
            layers = None if self.layers is None else self.layers[:, rows]
            static, mask, lengths = (x[rows] for x in (self.static, self.mask, self.lengths))
            output = None if self.output is None else self.output[rows]
            yield TokenBatch(static, letters, layers, mask, lengths, output)


# ── words -> batch ──────────────────────────────────────────────────────────────────────────────


class Letters:
    """Ids of the characters of the training data: 0 is padding, 1 any other character."""

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = list(characters)
        self._id_of = {c: i for i, c in enumerate(self.characters, 2)}

    def __len__(self) -> int:
        return len(self.characters) + 2

    def ids(self, word: str) -> list[int]:
        """Ids of the word's first MAX_LETTERS characters."""
        return [self._id_of.get(c, 1) for c in word[:MAX_LETTERS]]


class Inputs:
    """Turns sentences into batches on a device, for a model with or without letters and ELMo."""

    def __init__(
        self,
        static: StaticVectors,
        letters: Letters | None,
        elmo: ElmoLayer | None,
        device: torch.device,
        output: OutputEmbeddings | None = None,
    ) -> None:
        self.static, self.letters, self.elmo, self.device = static, letters, elmo, device
        self.output = output
        self._known = _KnownWords(static, letters, output)

    def __call__(self, sentences: Sequence[Words]) -> TokenBatch:
        """The batch of these sentences."""
        lengths = np.array([len(s) for s in sentences], np.int64)
        mask = np.arange(lengths.max(initial=1)) < lengths[:, None]  # (B, T), T at least 1
        if len(self._known) >= MAX_KNOWN:
            self._known = _KnownWords(self.static, self.letters, self.output)
        known, numbers = self._known, np.zeros(mask.shape, np.int64)
        numbers[mask] = [known[word] for word in chain.from_iterable(sentences)]
        letters = layers = output = None
        if self.output is not None:
            output = to_device(known.output_rows[numbers], self.device)
        if self.letters is not None:
            ids = known.ids[numbers]  # (B, T, MAX_LETTERS)
            C = max(3, int(ids.any((0, 1)).sum()))  # as long as the longest word needs
            letters = to_device(ids[..., :C], self.device).long()
        if self.elmo is not None:
            layers = self.elmo.read(sentences).values  # (L + 1, B, T, D)
            if not layers.shape[2]:  # a batch without any words
                layers = nn.functional.pad(layers, (0, 0, 0, 1))
        return TokenBatch(
            static=to_device(known.rows[numbers], self.device),
            letters=letters,
            layers=layers,
            mask=to_device(mask, self.device),
            known_lengths=torch.from_numpy(lengths),
            output=output,
        )

    def make_module(self, settings: InputSettings) -> TokenInput:
        """The module that reads these batches."""
        num_letters = 0 if self.letters is None else len(self.letters)
        table = torch.tensor(self.static.table)
        return TokenInput(settings, table, num_letters, self.elmo, self.output)


def make_elmo_layer(elmo: Elmo, settings: InputSettings) -> ElmoLayer:
    """The layer with one mix for each place where ELMo joins; fine-tuning trains a copy of it."""
    return ElmoLayer(
        copy.deepcopy(elmo) if settings.finetune else elmo,
        mixes=len(PLACES[settings.place]),
        dropout=settings.elmo_dropout,
        l2=settings.l2,
        finetune=settings.finetune,
        layers=settings.layers,
    )


class _KnownWords(dict[str, int]):
    """Words seen so far -> numbers from 1, which index their rows and letters; 0 is padding."""

    def __init__(
        self, static: StaticVectors, letters: Letters | None, output: OutputEmbeddings | None
    ) -> None:
        super().__init__()
        self.static, self.letters, self.output = static, letters, output
        self.rows = np.zeros(1024, np.int64)
        self.output_rows = np.zeros(1024 if output else 0, np.int64)
        self.ids = np.zeros((1024, MAX_LETTERS if letters else 0), np.int32)

    def __missing__(self, word: str) -> int:
        number = len(self) + 1
        if number == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.ids = np.concatenate([self.ids, np.zeros_like(self.ids)])
            self.output_rows = np.concatenate([self.output_rows, np.zeros_like(self.output_rows)])
        self.rows[number] = self.static.rows([word])[0]
        if self.output is not None:
            self.output_rows[number] = self.output.rows([word])[0]
        ids = [] if self.letters is None else self.letters.ids(word)
        self.ids[number, : len(ids)] = ids
        self[word] = number
        return number


# ── batch -> vectors ────────────────────────────────────────────────────────────────────────────


class TokenInput(nn.Module):
    """Token vectors of a task's model.

    Args:
        settings: what is concatenated.
        static: (words, width) vectors; rows 0 and 1 are padding and the unknown word.
        num_letters: number of character ids, padding included; unused unless settings.letters.
        elmo: with one mix per place of the settings; None leaves ELMo out.
        output: the ELMo model's output embeddings; None leaves them out.
    """

    def __init__(
        self,
        settings: InputSettings,
        static: Tensor,
        num_letters: int = 0,
        elmo: ElmoLayer | None = None,
        output: OutputEmbeddings | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        words, width = static.shape
        self.static = nn.Embedding(words, width, padding_idx=0, _weight=static.clone())
        self.static.weight.requires_grad_(settings.tune_static and width > 0)
        self.letters = _LetterCnn(settings, num_letters) if settings.letters else None
        self.dropout = nn.Dropout(settings.dropout)
        self.output = output
        self.elmo = elmo
        self.places = PLACES[settings.place] if elmo is not None else ()
        """Place of each mix."""
        assert elmo is None or len(elmo.mixes) == len(self.places)
        elmo_width = 0 if elmo is None else elmo.width
        own = width + settings.letters + (0 if output is None else output.width)
        self.width = own + elmo_width * ("input" in self.places)
        """E, the width of the output of `forward`."""
        self.extra_width = elmo_width * ("output" in self.places)
        """The width that `beside` adds."""

    def forward(self, batch: TokenBatch) -> Tensor:
        """Vectors of each token, (B, T, E), 0 past a sentence's end."""
        parts = [self.static(batch.static)]  # (B, T, ·)
        if self.output is not None:
            assert batch.output is not None
            parts.append(self.output(batch.output))
        if self.letters is not None:
            assert batch.letters is not None
            parts.append(self.letters(batch.letters))
        own = self.dropout(torch.cat(parts, -1))
        found = torch.cat([own, *self._mixed("input", batch)], -1)  # (B, T, E)
        return found * batch.mask.unsqueeze(-1)

    def beside(self, h: Tensor, batch: TokenBatch) -> Tensor:
        """The encoder's output (B, T, F), with ELMo concatenated if its place is the output."""
        return torch.cat([h, *self._mixed("output", batch)], -1)

    def penalty(self) -> Tensor:
        """The L2 penalty on the mixes, a term of the loss."""
        return self.static.weight.new_zeros(()) if self.elmo is None else self.elmo.penalty()

    def share_elmo_dropout(self, dropout: nn.Module) -> None:
        """Use this module for ELMo's dropout."""
        if self.elmo is not None:
            self.elmo.add_module("dropout", dropout)

    def mixes(self) -> dict[str, dict[str, Any]]:
        """The learned shares of ELMo's layers and gamma, by place."""
        modules = [] if self.elmo is None else self.elmo.modules()
        mixes = [module for module in modules if isinstance(module, ScalarMix)]
        return {
            place: {"weights": mix.weights().tolist(), "gamma": mix.gamma.item()}
            for place, mix in zip(self.places, mixes, strict=True)
        }

    def _mixed(self, place: str, batch: TokenBatch) -> list[Tensor]:
        if self.elmo is None or place not in self.places:
            return []
        assert batch.layers is not None
        layers = Layers(batch.layers, batch.mask)
        return [self.elmo.mixed(layers, self.places.index(place))]  # (B, T, D)


class _LetterCnn(nn.Module):
    """A small character CNN: (B, T, C) ids -> (B, T, F), max-pooled over each word."""

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
        # Padding would respond with the bias if the batch contains a longer word.
        padding = (letters == 0).view(B * T, 1, C)
        masked = responses.masked_fill(padding, float("-inf"))
        found: Tensor = torch.relu(masked.amax(-1))  # (BT, F)
        return found.view(B, T, -1)


# ── names of weights ────────────────────────────────────────────────────────────────────────────


def keep_saved_names(model: nn.Module) -> None:
    """Save and load ELMo's weights in a task's model under the names that runs have on disk.

    best.safetensors has `tokens.mixes.input.s` for `tokens.elmo.mixes.0.s`, and `bilm.…` for the
    fine-tuned `tokens.elmo.bilm.…`, so that runs of all releases can be loaded.
    """
    saved: dict[str, str] = {}
    for name, module in model.named_modules():
        if isinstance(module, TokenInput) and module.elmo is not None:
            mixes = {f"{name}.elmo.mixes.{n}.": p for n, p in enumerate(module.places)}
            saved |= {own: f"{name}.mixes.{place}." for own, place in mixes.items()}
            if module.elmo.bilm is not None:
                saved[f"{name}.elmo.bilm."] = "bilm."
    loaded = {name: own for own, name in saved.items()}
    hooks: Any = model  # torch does not annotate these two methods
    hooks.register_state_dict_post_hook(partial(_rename, saved))
    hooks.register_load_state_dict_pre_hook(partial(_rename, loaded))


def _rename(
    prefixes: Mapping[str, str], _: nn.Module, state: dict[str, Tensor], *rest: object
) -> None:
    """Replace prefixes of names, as a hook of `state_dict` or `load_state_dict`."""
    for name in list(state):
        for old, new in prefixes.items():
            if name.startswith(old):
                state[new + name.removeprefix(old)] = state.pop(name)
