"""AllenNLP 0.x's ElmoEmbedder: tokenised sentences -> numpy layers, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

import h5py
import numpy as np
import torch
from torch import Tensor

from relmo.elmo import Elmo
from relmo.errors import ConfigError, OutputError
from relmo.files import replacing
from relmo.nn.state import CarriedState
from relmo.text.batches import in_windows
from relmo.types import Vectors
from relmo.weights.official_hdf5 import read_files
from relmo.weights.tensors import build_bilm


class ElmoEmbedder:
    """Layers (3, T, D) of tokenised sentences, as AllenNLP's class of the same name.

    Args:
        options_file: path of options.json.
        weight_file: path of weights.hdf5.
        cuda_device: -1 for the CPU.
        stateful: carry the state of row b from batch to batch, as AllenNLP always does.
    """

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        stateful: bool = False,
    ) -> None:
        files = read_files(local_path(options_file), local_path(weight_file))
        self.elmo = Elmo(build_bilm(files), files.lexicon)
        self.elmo.to("cpu" if cuda_device < 0 else f"cuda:{cuda_device}")
        self.carried = CarriedState() if stateful else None

    def reset_states(self) -> None:
        """Forget what a stateful embedder carries."""
        if self.carried is not None:
            self.carried.reset()

    def batch_to_embeddings(self, batch: list[list[str]]) -> tuple[Tensor, Tensor]:
        """Layers (B, L + 1, T, D) of a batch without boundaries, and the mask (B, T)."""
        arrays = self._read(batch)
        T = max((len(sentence) for sentence in batch), default=0)
        layers = torch.zeros(len(batch), self.elmo.config.num_layers, T, self.elmo.config.width)
        mask = torch.zeros(len(batch), T, dtype=torch.bool)
        for row, there, array in zip(layers, mask, arrays, strict=True):
            row[:, : array.shape[1]] = torch.from_numpy(array)
            there[: array.shape[1]] = True
        return layers.to(self.elmo.device), mask.to(self.elmo.device)

    def embed_sentence(self, sentence: list[str]) -> Vectors:
        """Layers (L + 1, T, D) of one sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: list[list[str]]) -> list[Vectors]:
        """Layers (L + 1, T, D) of each sentence of a batch."""
        return self._read(batch)

    def embed_sentences(
        self, sentences: Iterable[list[str]], batch_size: int = 64
    ) -> Iterator[Vectors]:
        """Layers of a stream of sentences, batch_size at a time."""
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
        """Embed a file of white-space separated tokens, a sentence per line, into HDF5.

        Keys are line numbers, or the sentences themselves with `use_sentence_keys`. Unlike
        AllenNLP's, an empty line is a row without tokens, so line numbers always agree.
        """
        if output_format not in ("all", "top", "average"):
            raise ConfigError(f"output_format {output_format!r}; choose all, top or average")
        sentences = [line.strip() for line in input_file]
        if use_sentence_keys:
            check_keys(sentences)
        vectors = self.embed_sentences((line.split() for line in sentences), batch_size)
        with replacing(Path(output_file_path)) as temporary, h5py.File(temporary, "w") as file:
            for number, (sentence, layers) in enumerate(zip(sentences, vectors, strict=True)):
                key = sentence if use_sentence_keys else str(number)
                file[key] = self._formatted(layers, output_format)
            if not (forget_sentences or use_sentence_keys):
                lines = {sentence: str(number) for number, sentence in enumerate(sentences)}
                index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps(lines)

    def _read(self, batch: list[list[str]]) -> list[Vectors]:
        if self.carried is None:
            return self.elmo.read(batch)[0]
        like = next(self.elmo.bilm.parameters())
        before = self.carried.before(self.elmo.config.lstm, len(batch), like)
        arrays, after = self.elmo.read(batch, before)
        self.carried.after(after)
        return arrays

    @staticmethod
    def _formatted(layers: Vectors, output_format: str) -> Vectors:
        if output_format == "average":
            return np.asarray(layers.mean(0), dtype=np.float32)
        return layers if output_format == "all" else layers[-1]


def check_keys(sentences: list[str]) -> None:
    """Raise OutputError for sentences that HDF5 cannot take as keys."""
    seen: set[str] = set()
    for number, sentence in enumerate(sentences):
        trouble = (
            "is empty"
            if not sentence
            else "holds '/', which HDF5 takes for a group"
            if "/" in sentence
            else "occurs twice"
            if sentence in seen
            else ""
        )
        if trouble:
            raise OutputError(f"line {number + 1} {trouble}; leave use_sentence_keys off")
        seen.add(sentence)


def local_path(given: str | Path | None) -> Path:
    """The path, or ConfigError for an address or nothing: nothing is downloaded."""
    if given is None or "://" in str(given):
        raise ConfigError(
            f"{given!r} is not a path on disk; relmo downloads nothing: fetch options.json and "
            f"weights.hdf5 and give their paths"
        )
    return Path(given)
