"""AllenNLP's ELMo interface: the same signatures, shapes and zero-state numbers.

    from relmo.compat.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Two differences are intended. Every call starts from a zero state, so the same sentence always gets
the same vectors; `stateful=True` carries state from call to call exactly as AllenNLP does. And
options and weights are paths on disk: nothing is downloaded.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Literal

import h5py
import torch
from torch import Tensor, nn

from relmo.config import CharCnnConfig, LstmConfig
from relmo.elmo import Elmo as RelmoElmo
from relmo.errors import ConfigError, OutputError, TextError
from relmo.files import replacing
from relmo.layers import LayerChoice, choose_layers
from relmo.nn.bilm import BiLM, map_state, zero_state
from relmo.nn.scalar_mix import ScalarMix
from relmo.runtime.runtime import FastBiLM
from relmo.text.batches import in_windows
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE, ByteCharacters
from relmo.types import BiLmState, Layers, Vectors
from relmo.weights.official_hdf5 import read_files
from relmo.weights.tensors import build_bilm

__all__ = ["Elmo", "ElmoEmbedder", "batch_to_ids"]

logger = logging.getLogger(__name__)
CHARACTERS = ByteCharacters()
BOUNDARIES = [BEGIN_SENTENCE, END_SENTENCE]
OUTPUT_FORMATS: dict[str, LayerChoice] = {"all": "all", "top": "top", "average": "mean"}
"""AllenNLP's names for a choice of layers -> ours."""


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Character ids of tokenized sentences, (B, T, 50); zero where there is no token."""
    T = max((len(sentence) for sentence in batch), default=0)
    ids = torch.zeros(len(batch), T, CHARACTERS.max_characters, dtype=torch.long)
    for row, sentence in zip(ids, batch, strict=True):
        row[: len(sentence)] = torch.from_numpy(CHARACTERS.spell(sentence))
    return ids


class Elmo(nn.Module):
    """Mixed ELMo representations of character ids, like AllenNLP's module of the same name.

    Args:
        options_file: Path of options.json; None with `module`.
        weight_file: Path of weights.hdf5; None with `module`.
        num_output_representations: Number of mixes.
        requires_grad: Train the biLM too.
        do_layer_norm: Normalize layers over the whole batch before mixing.
        dropout: Dropout of the result, active until `.eval()`.
        vocab_to_cache: Words whose token vectors are computed once; row 0 is padding. `forward`
            then accepts their indices as `word_inputs`.
        keep_sentence_boundaries: Keep the two boundary tokens.
        scalar_mix_parameters: Fixed s of every mix, before the softmax.
        module: Your own biLM: `num_layers`, and forward(inputs, word_inputs) that returns
            {"activations": list of (B, T + 2, D), "mask": (B, T + 2)}.
        stateful: Carry the state of row b from call to call, as AllenNLP always does.
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
        """Forget the state of a stateful module."""
        carried = getattr(self._elmo_lstm, "carried", None)
        if carried is not None:
            carried.reset()

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, Tensor | list[Tensor]]:
        """The mixed vectors of (…, T, 50) character ids.

        Returns:
            `elmo_representations`, a list of (…, T, D), and `mask`, (…, T).
        """
        if word_inputs is not None and not self._has_cached_vocab:
            logger.warning("word_inputs is ignored: no vocab_to_cache was given")
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


class ElmoEmbedder:
    """Layers (3, T, D) of tokenized sentences, like AllenNLP 0.x's class of the same name.

    Args:
        options_file: Path of options.json.
        weight_file: Path of weights.hdf5.
        cuda_device: -1 for the CPU.
        stateful: Carry the state of row b from batch to batch, as AllenNLP always does.
    """

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        stateful: bool = False,
    ) -> None:
        files = read_files(local_path(options_file), local_path(weight_file))
        self.elmo = RelmoElmo(build_bilm(files), files.lexicon)
        self.elmo.to("cpu" if cuda_device < 0 else f"cuda:{cuda_device}")
        self.carried = CarriedState() if stateful else None

    def reset_states(self) -> None:
        """Forget the state of a stateful embedder."""
        if self.carried is not None:
            self.carried.reset()

    def batch_to_embeddings(self, batch: list[list[str]]) -> tuple[Tensor, Tensor]:
        """The layers of a batch without boundaries, (B, L + 1, T, D), and the mask (B, T)."""
        arrays = self.embed_batch(batch)
        T = max((len(sentence) for sentence in batch), default=0)
        layers = torch.zeros(len(batch), self.elmo.config.num_layers, T, self.elmo.config.width)
        mask = torch.zeros(len(batch), T, dtype=torch.bool)
        for row, is_token, array in zip(layers, mask, arrays, strict=True):
            row[:, : array.shape[1]] = torch.from_numpy(array)
            is_token[: array.shape[1]] = True
        return layers.to(self.elmo.device), mask.to(self.elmo.device)

    def embed_sentence(self, sentence: list[str]) -> Vectors:
        """The layers of one sentence, (L + 1, T, D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: list[list[str]]) -> list[Vectors]:
        """The layers of each sentence of a batch, (L + 1, T, D)."""
        if self.carried is None:
            return self.elmo.read(batch)[0]
        like = next(self.elmo.bilm.parameters())
        before = self.carried.before(self.elmo.config.lstm, len(batch), like)
        arrays, after = self.elmo.read(batch, before)
        self.carried.after(after)
        return arrays

    def embed_sentences(
        self, sentences: Iterable[list[str]], batch_size: int = 64
    ) -> Iterator[Vectors]:
        """The layers of a stream of sentences, batch_size at a time."""
        for batch in in_windows(sentences, lambda _: 1, batch_size):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str | Path,
        output_format: Literal["all", "top", "average"] = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed a file with one sentence of space-separated tokens per line, into HDF5.

        Keys are line numbers, or the sentences themselves with `use_sentence_keys`. Unlike in
        AllenNLP, an empty line is a row without tokens, so line numbers always agree.
        """
        if output_format not in OUTPUT_FORMATS:
            raise ConfigError(
                f"unknown output_format {output_format!r}; choose all, top or average"
            )
        sentences = [line.strip() for line in input_file]
        if use_sentence_keys:
            check_keys(sentences)
        vectors = self.embed_sentences((line.split() for line in sentences), batch_size)
        target = Path(output_file_path)
        with replacing(target, follow=True) as temporary, h5py.File(temporary, "w") as file:
            for number, (sentence, layers) in enumerate(zip(sentences, vectors, strict=True)):
                key = sentence if use_sentence_keys else str(number)
                file[key] = choose_layers(layers, OUTPUT_FORMATS[output_format])
            if not (forget_sentences or use_sentence_keys):
                lines = {sentence: str(number) for number, sentence in enumerate(sentences)}
                index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps(lines)


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
        tokens, limit = self.bilm.config.tokens, CHARACTERS.max_characters
        if not isinstance(tokens, CharCnnConfig) or tokens.max_characters != limit:
            raise ConfigError(
                "AllenNLP's interface takes 50 character ids per word, but this model reads words "
                "differently; use relmo.Elmo"
            )
        self.num_layers = self.bilm.config.num_layers
        self.carried = CarriedState() if stateful else None
        self._requires_grad = requires_grad
        self._word_embedding: nn.Embedding | None = None
        if vocab_to_cache:
            vectors = self._vectors(vocab_to_cache)  # (N, P)
            self._word_embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
                vectors, freeze=not requires_grad, padding_idx=0
            )
            if requires_grad:
                logger.warning("cached word vectors are not updated while the CNN is trained")

    def get_output_dim(self) -> int:
        """D, the width of a layer."""
        return self.bilm.config.width

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, Tensor | list[Tensor]]:
        """`activations`, a list of (B, T + 2, D), and `mask` (B, T + 2)."""
        if inputs.shape[-1] != CHARACTERS.max_characters:
            raise TextError(
                f"expected ids of shape (B, T, 50), got {tuple(inputs.shape)}; use batch_to_ids"
            )
        words = self._word_embedding
        # like AllenNLP, fall back to the characters unless every index is a cached word
        if (
            words is not None
            and word_inputs is not None
            and (word_inputs < len(words.weight)).all()
        ):
            vectors, boundaries = words(word_inputs), self._vectors(BOUNDARIES)
            lengths = (word_inputs > 0).sum(1)  # (B,)
        else:
            vectors, boundaries = self._spelled(inputs)  # (B, T, P), (2, P)
            lengths = (inputs > 0).any(-1).sum(1)  # (B,)
        bounded = with_boundaries(vectors, lengths, boundaries)  # (B, T + 2, P)
        before = None  # a zero state, or the state that each row carries
        if self.carried is not None:
            before = self.carried.before(self.bilm.config.lstm, len(bounded), like=bounded)
        layers, after = self._reader.read(bounded, (lengths + 2).cpu(), before)
        if self.carried is not None:
            self.carried.after(after)
        return {"activations": list(layers.values), "mask": layers.mask}

    def _spelled(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Token vectors of (B, T, 50) ids and of the boundaries; computes each distinct word once.

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
    """Add `<S>` before each row and `</S>` after its last token: (B, T, P) -> (B, T + 2, P)."""
    B, T, P = x.shape
    begin, end = boundaries  # each (P,)
    bounded = torch.cat([begin.expand(B, 1, P), x, x.new_zeros(B, 1, P)], 1)  # (B, T + 2, P)
    at_end = torch.arange(T + 2, device=x.device) == (lengths + 1).unsqueeze(1)  # (B, T + 2)
    return torch.where(at_end.unsqueeze(-1), end, bounded)


class CarriedState:
    """AllenNLP's rule: row b of a batch continues where row b of the previous batch stopped.

    Starts from zero. A smaller batch uses and updates its own rows; a larger one adds zero rows.
    """

    def __init__(self) -> None:
        self._state: BiLmState | None = None

    def reset(self) -> None:
        """Start from zero again."""
        self._state = None

    def before(self, config: LstmConfig, batch_size: int, like: Tensor) -> BiLmState:
        """The state that a batch of this size starts with."""
        if self._state is None:
            return zero_state(config, batch_size, like)

        def take(part: Tensor) -> Tensor:  # (L, rows, width) -> (L, batch_size, width)
            kept = part[:, :batch_size].to(like)
            missing = kept.new_zeros(kept.shape[0], batch_size - kept.shape[1], kept.shape[2])
            return torch.cat([kept, missing], 1)

        return map_state(take, self._state)

    def after(self, state: BiLmState) -> None:
        """Keep the state that a batch ended with; no gradient flows from call to call."""

        def put(old: Tensor, new: Tensor) -> Tensor:  # rows beyond the batch stay as they were
            return torch.cat([new, old[:, new.shape[1] :].to(new)], 1)

        state = map_state(Tensor.detach, state)
        self._state = state if self._state is None else map_state(put, self._state, state)


def check_keys(sentences: list[str]) -> None:
    """Raise OutputError for sentences that cannot be keys of an HDF5 file."""
    seen = {"": "is empty"}
    for number, sentence in enumerate(sentences, start=1):
        slash = "contains '/', which HDF5 reads as a group" if "/" in sentence else None
        if problem := seen.get(sentence, slash):
            raise OutputError(f"line {number} {problem}; leave use_sentence_keys off")
        seen[sentence] = "occurs twice"


def local_path(given: str | Path | None) -> Path:
    """The path; ConfigError for a URL or None, as nothing is downloaded."""
    if given is None or "://" in str(given):
        raise ConfigError(
            f"{given!r} is not a path; relmo downloads nothing: get options.json and "
            f"weights.hdf5 and give their paths"
        )
    return Path(given)
