"""A model as any format reads it, the protocol of a format, and the checks that all share."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from relmo.config import ElmoConfig, Start, WordTableConfig
from relmo.errors import WeightError
from relmo.kernels.cpu_products import Precision
from relmo.nn.bilm import BiLM
from relmo.text.lexicon import Lexicon

START_NAMES = {
    f"start_{direction}_{part}": f"start_state.{direction}.{part}"
    for direction in ("forward", "backward")
    for part in "hc"
}
"""Start state: module name -> file name; all other names are those of the module tree."""
Storage = Literal["float32", "int8"]
"""How matrices are stored; vectors are always float32."""
METADATA_KEYS = ("name", "licence", "training", "official")
"""Settings that do not affect vectors, left out of the fingerprint."""
MAX_WEIGHT = 1e6
"""No trained weight comes near it; a flipped bit of an exponent goes far beyond."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model as any format reads it."""

    config: ElmoConfig
    tensors: dict[str, Tensor]
    """By module name, float32, in the module's shapes."""
    lexicon: Lexicon | None = None
    """The vocabulary of the word table, or of the softmax."""
    lm_head: Callable[[], dict[str, Tensor]] | None = None
    """Reads the softmax's `weight` (V, P) and `bias` (V,); only the language model needs them."""

    def __post_init__(self) -> None:
        tokens = self.config.tokens
        if not isinstance(tokens, WordTableConfig):
            return
        if self.lexicon is None:
            raise WeightError("a model with a word table needs its vocabulary, vocab.txt")
        if len(self.lexicon) != tokens.num_words:
            raise WeightError(
                f"vocab.txt has {len(self.lexicon)} words, the word table {tokens.num_words} rows; "
                f"are they from the same model?"
            )

    def fingerprint(self, start: Start | None = None, precision: Precision = "float32") -> str:
        """A checksum of everything that affects vectors: equal for equal models in any layout.

        Args:
            start: the state before a sentence; the model's own choice by default.
            precision: of the LSTMs' matrix products.
        """
        settings = self.config.to_dict()
        shaping = {k: v for k, v in settings.items() if k not in METADATA_KEYS}
        choices = [start or self.config.start, *([] if precision == "float32" else [precision])]
        digest = hashlib.sha256(json.dumps([shaping, *choices], sort_keys=True).encode())
        for name in sorted(self.tensors):
            digest.update(name.encode())
            digest.update(self.tensors[name].contiguous().numpy().data)
        if self.lexicon is not None and isinstance(self.config.tokens, WordTableConfig):
            digest.update("\n".join(self.lexicon.words).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


class ModelFormat(Protocol):
    """One layout of a model folder."""

    name: str
    needs: str
    """The files that the folder must contain, in words."""

    def detect(self, folder: Path) -> bool:
        """Whether the folder contains a model in this format."""

    def read(self, folder: Path, *, verify: bool = True) -> ModelFiles:
        """Read and check it; `verify` compares its files with their recorded checksums."""

    def write(
        self, folder: Path, model: ModelFiles, shard_bytes: int | None, storage: Storage
    ) -> None:
        """Write it; a format without shards or 8-bit storage raises ConfigError."""

    def lost(self, model: ModelFiles) -> list[str]:
        """What the format cannot store of this model, in words."""


def expected_shapes(config: ElmoConfig) -> dict[str, torch.Size]:
    """The name and shape of each tensor of a model with these settings."""
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in BiLM(config).state_dict().items()}


def check_names(found: set[str], wanted: set[str], path: Path, hint: str) -> None:
    """Raise WeightError if tensors are missing or unexpected, with their names."""
    for what, names in (("lacks", wanted - found), ("has the unexpected", found - wanted)):
        if names:
            some = ", ".join(repr(name) for name in sorted(names)[:4])
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            raise WeightError(f"{path}: {what} {some}{more}; {hint}")


def check_shape(
    path: Path, name: str, found: tuple[int, ...], wanted: tuple[int, ...], hint: str
) -> None:
    """Raise WeightError unless the tensor has the expected shape."""
    if tuple(found) != tuple(wanted):
        raise WeightError(
            f"{path}: {name!r} has the shape {tuple(found)}, expected {tuple(wanted)}; {hint}"
        )


def check_values(path: Path, name: str, tensor: Tensor) -> None:
    """Raise WeightError if the tensor contains NaN, infinity or a value beyond MAX_WEIGHT."""
    if not tensor.numel():
        return
    least, most = tensor.aminmax()  # one pass without a temporary; both are NaN if any value is
    if least >= -MAX_WEIGHT and most <= MAX_WEIGHT:
        return
    bad = int((~torch.isfinite(tensor)).sum())
    what = f"{bad} values that are NaN or infinite" if bad else f"values beyond ±{MAX_WEIGHT:g}"
    raise WeightError(
        f"{path}: {name!r} contains {what}; "
        f"the file is damaged or training diverged: use an earlier copy"
    )


def check_memory(path: Path, shapes: Iterable[tuple[int, ...]]) -> None:
    """Raise WeightError if float32 tensors of these shapes are larger than the machine's memory."""
    needed = 4 * sum(map(math.prod, shapes))
    if needed > (memory := total_memory()):
        raise WeightError(
            f"{path}: its weights take {needed / 1e9:,.1f} GB in memory, this machine has "
            f"{memory / 1e9:,.1f} GB; use a smaller model or a larger machine"
        )


def total_memory() -> float:
    """Bytes of memory of this machine; infinity where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def tensors_of(bilm: BiLM) -> Iterator[tuple[str, Tensor]]:
    """The name and value of each tensor of a module, on the CPU in float32, one at a time."""
    for name, tensor in bilm.state_dict().items():
        yield name, tensor.detach().to("cpu", torch.float32)


def build_bilm(files: ModelFiles) -> BiLM:
    """Build the module around the tensors, without copying or initializing anything."""
    with torch.device("meta"):
        bilm = BiLM(files.config)
    bilm.load_state_dict(files.tensors, strict=True, assign=True)
    return bilm.eval()
