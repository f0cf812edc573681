"""AllenNLP's ELMo interface: same signatures, shapes and zero-state numbers.

    from relmo.compat.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Two things differ, on purpose. Every call starts from a zero state, so the same sentence always gets
the same vectors; `stateful=True` carries state from call to call exactly as AllenNLP does. And
options and weights are paths on disk: nothing is downloaded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from relmo.compat.allennlp_embedder import ElmoEmbedder, local_path
from relmo.config import CharCnnConfig
from relmo.errors import ConfigError, TextError
from relmo.nn.bilm import BiLM
from relmo.nn.scalar_mix import ScalarMix
from relmo.nn.state import CarriedState
from relmo.runtime.runtime import FastBiLM
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE, ByteCharacters
from relmo.types import Layers
from relmo.weights.official_hdf5 import read_files
from relmo.weights.tensors import build_bilm

__all__ = ["Elmo", "ElmoEmbedder", "batch_to_ids"]

logger = logging.getLogger(__name__)
CHARACTERS = ByteCharacters()
BOUNDARIES = [BEGIN_SENTENCE, END_SENTENCE]


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Character ids of tokenised sentences, (B, T, 50), zero where no token stands."""
    T = max((len(sentence) for sentence in batch), default=0)
    ids = torch.zeros(len(batch), T, CHARACTERS.max_characters, dtype=torch.long)
    for row, sentence in zip(ids, batch, strict=True):
        row[: len(sentence)] = torch.from_numpy(CHARACTERS.spell(sentence))
    return ids


class Elmo(nn.Module):
    """Mixed ELMo representations of character ids, as AllenNLP's module of the same name.

    Args:
        options_file: path of options.json; None with `module`.
        weight_file: path of weights.hdf5; None with `module`.
        num_output_representations: how many mixes.
        requires_grad: train the biLM too.
        do_layer_norm: normalise layers over the whole batch before mixing.
        dropout: on the result, active until `.eval()`.
        vocab_to_cache: words whose token vectors are computed once; row 0 is padding. `forward`
            then takes their numbers as `word_inputs`.
        keep_sentence_boundaries: leave the two boundary tokens in.
        scalar_mix_parameters: fixed s of every mix, before the softmax.
        module: a biLM of your own: `num_layers`, and forward(inputs, word_inputs) giving
            {"activations": list of (B, T + 2, D), "mask": (B, T + 2)}.
        stateful: carry the state of row b from call to call, as AllenNLP always does.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: list[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: list[float] | None = None,
        module: nn.Module | None = None,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        if module is not None and (options_file is not None or weight_file is not None):
            raise ConfigError("give either options_file and weight_file, or module, not both")
        self._elmo_lstm: nn.Module = module or ElmoBiLm(
            options_file, weight_file, requires_grad, vocab_to_cache, stateful
        )
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._scalar_mixes: list[ScalarMix] = []
        for k in range(num_output_representations):
            mix = ScalarMix(
                self._elmo_lstm.num_layers,  # type: ignore[arg-type]
                layer_norm=do_layer_norm,
                initial=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{k}", mix)
            self._scalar_mixes.append(mix)

    def get_output_dim(self) -> int:
        """D, the width of a representation."""
        return int(self._elmo_lstm.get_output_dim())  # type: ignore[operator]

    def reset_states(self) -> None:
        """Forget what a stateful module carries."""
        carried = getattr(self._elmo_lstm, "carried", None)
        if carried is not None:
            carried.reset()

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, Tensor | list[Tensor]]:
        """Mixed vectors of (…, T, 50) character ids.

        Returns:
            `elmo_representations`, a list of (…, T, D), and `mask`, (…, T).
        """
        if word_inputs is not None and not self._has_cached_vocab:
            logger.warning("word_inputs came, but no vocab_to_cache was given: they are not used")
            word_inputs = None
        leading = inputs.shape[:-2] if word_inputs is None else word_inputs.shape[:-1]
        flat_words = None if word_inputs is None else word_inputs.flatten(0, -2)  # (B, T)
        output = self._elmo_lstm(inputs.flatten(0, -3), flat_words)
        layers = Layers(torch.stack(list(output["activations"])), output["mask"])
        mixed = [mix(layers) for mix in self._scalar_mixes]  # each (B, T + 2, D)
        mask = layers.mask
        if not self._keep_sentence_boundaries:
            mask = layers.word_mask  # (B, T)
            mixed = [vectors[:, 1:-1] * mask.unsqueeze(-1) for vectors in mixed]  # (B, T, D)
        mixed = [self._dropout(vectors) for vectors in mixed]
        return {
            "elmo_representations": [
                vectors.view(*leading, *vectors.shape[1:]) for vectors in mixed
            ],
            "mask": mask.reshape(*leading, mask.shape[1]),
        }


class ElmoBiLm(nn.Module):
    """All layers, boundaries included, from character ids or cached words."""

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        requires_grad: bool,
        vocab_to_cache: list[str] | None,
        stateful: bool,
    ) -> None:
        super().__init__()
        self.bilm: BiLM = build_bilm(read_files(local_path(options_file), local_path(weight_file)))
        self.bilm.requires_grad_(requires_grad)
        self._reader = FastBiLM(self.bilm)
        tokens = self.bilm.config.tokens
        if (
            not isinstance(tokens, CharCnnConfig)
            or tokens.max_characters != CHARACTERS.max_characters
        ):
            raise ConfigError(
                "AllenNLP's interface takes 50 character ids per word, and this model reads words "
                "another way; use relmo.Elmo"
            )
        self.num_layers = self.bilm.config.num_layers
        self.carried = CarriedState() if stateful else None
        self._requires_grad = requires_grad
        cached = self._vectors(vocab_to_cache) if vocab_to_cache else None
        self._word_embedding = (
            None
            if cached is None
            else nn.Embedding.from_pretrained(cached, freeze=not requires_grad, padding_idx=0)  # type: ignore[no-untyped-call]
        )
        if vocab_to_cache and requires_grad:
            logger.warning("cached words do not follow the CNN while it is trained")

    def get_output_dim(self) -> int:
        """D, the width of a layer."""
        return self.bilm.config.width

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, Tensor | list[Tensor]]:
        """`activations`, a list of (B, T + 2, D), and `mask` (B, T + 2)."""
        if inputs.shape[-1] != CHARACTERS.max_characters:
            raise TextError(
                f"ids of shape {tuple(inputs.shape)}; (B, T, 50) is needed: batch_to_ids"
            )
        words = self._word_embedding
        if words is not None and word_inputs is not None and _all_known(word_inputs, words):
            vectors, boundaries = words(word_inputs), self._vectors(BOUNDARIES)
            lengths = (word_inputs > 0).sum(1)  # (B,)
        else:
            vectors, boundaries = self._spelled(inputs)  # (B, T, P), (2, P)
            lengths = (inputs > 0).any(-1).sum(1)  # (B,)
        bounded = with_boundaries(vectors, lengths, boundaries)  # (B, T + 2, P)
        layers = self._read(bounded, (lengths + 2).cpu())
        return {"activations": list(layers.values), "mask": layers.mask}

    def _read(self, x: Tensor, lengths: Tensor) -> Layers:
        """Through the biLM, from a zero state or from what each row carries."""
        carried = self.carried
        if carried is None:
            layers, _ = self._reader.read(x, lengths)
            return layers
        before = carried.before(self.bilm.config.lstm, x.shape[0], like=x)
        layers, after = self._reader.read(x, lengths, before)
        carried.after(after)
        return layers

    def _spelled(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Token vectors of (B, T, 50) ids and of the boundaries, each distinct word once.

        Returns:
            (B, T, P), and (2, P).
        """
        B, T, C = inputs.shape
        ends = torch.from_numpy(CHARACTERS.spell(BOUNDARIES)).to(inputs)  # (2, C)
        rows = torch.cat([ends, inputs.reshape(B * T, C)])
        words, index = torch.unique(rows, dim=0, return_inverse=True)
        vectors = self._reader.token_vectors(words)[index]  # (2 + B * T, P)
        return vectors[2:].view(B, T, vectors.shape[1]), vectors[:2]

    def _vectors(self, words: list[str]) -> Tensor:
        """Token vectors of words, (N, P)."""
        device = next(self.bilm.parameters()).device
        ids = torch.from_numpy(CHARACTERS.spell(words)).to(device)
        with torch.set_grad_enabled(self._requires_grad and torch.is_grad_enabled()):
            return self._reader.token_vectors(ids)


def with_boundaries(x: Tensor, lengths: Tensor, boundaries: Tensor) -> Tensor:
    """Put `<S>` before each row and `</S>` after its last token: (B, T, P) -> (B, T + 2, P)."""
    B, T, P = x.shape
    begin, end = boundaries  # each (P,)
    bounded = torch.cat([begin.expand(B, 1, P), x, x.new_zeros(B, 1, P)], 1)  # (B, T + 2, P)
    at_end = torch.arange(T + 2, device=x.device) == (lengths + 1).unsqueeze(1)  # (B, T + 2)
    return torch.where(at_end.unsqueeze(-1), end, bounded)


def _all_known(word_inputs: Tensor, words: nn.Embedding) -> bool:
    """Whether every number is a cached word; else AllenNLP goes back to the characters."""
    return word_inputs.numel() == 0 or int(word_inputs.max()) < words.num_embeddings
