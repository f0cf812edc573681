"""What a reader hands on, and the checks that every format shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from relmo.config import ElmoConfig, WordTableConfig
from relmo.errors import WeightError
from relmo.nn.bilm import BiLM
from relmo.text.lexicon import Lexicon

START_NAMES = {
    f"start_{direction}_{part}": f"start_state.{direction}.{part}"
    for direction in ("forward", "backward")
    for part in "hc"
}
"""Module name -> file name of the stored start state; all other names are the module tree's."""
Storage = Literal["float32", "int8"]
"""How matrices are stored; vectors are always float32."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model as any format gives it."""

    config: ElmoConfig
    tensors: dict[str, Tensor]
    """By module name, float32, in the module's shapes."""
    lexicon: Lexicon | None = None
    """The model's word list: of its word table, or of its softmax."""
    lm_head: Callable[[], dict[str, Tensor]] | None = None
    """Reads the softmax's `weight` (V, P) and `bias` (V,); only language modelling needs them."""

    def __post_init__(self) -> None:
        tokens = self.config.tokens
        if not isinstance(tokens, WordTableConfig):
            return
        if self.lexicon is None:
            raise WeightError("a model with a word table needs its word list, vocab.txt")
        if len(self.lexicon) != tokens.num_words:
            raise WeightError(
                f"vocab.txt has {len(self.lexicon)} words, the word table {tokens.num_words} rows; "
                f"they must be of the same model"
            )


class Format(Protocol):
    """One way to lay a model out in a folder."""

    name: str
    wanted: str
    """What must lie in the folder, in words."""

    def detect(self, folder: Path) -> bool:
        """Whether the folder holds such a model."""

    def read(self, folder: Path) -> ModelFiles:
        """Read and check it."""

    def write(
        self,
        folder: Path,
        model: ModelFiles,
        shard_bytes: int | None = None,
        storage: Storage = "float32",
    ) -> None:
        """Write it; a format without shards or 8-bit storage refuses them."""

    def lost(self, model: ModelFiles) -> list[str]:
        """What of such a model the format cannot hold, in words."""


def expected_shapes(config: ElmoConfig) -> dict[str, torch.Size]:
    """Name and shape of each tensor that a model of these settings has."""
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in BiLM(config).state_dict().items()}


def check_names(found: set[str], wanted: set[str], path: Path, hint: str) -> None:
    """Raise WeightError that names the missing and the extra tensors."""
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    if missing:
        raise WeightError(f"{path}: lacks {_some(missing)}; {hint}")
    if extra:
        raise WeightError(f"{path}: holds {_some(extra)}, which these settings do not have; {hint}")


def check_shape(
    path: Path, name: str, found: tuple[int, ...], wanted: tuple[int, ...], hint: str
) -> None:
    """Raise WeightError that names the tensor unless the shapes agree."""
    if tuple(found) != tuple(wanted):
        raise WeightError(
            f"{path}: {name!r} is {tuple(found)}, these settings need {tuple(wanted)}; {hint}"
        )


def check_finite(path: Path, name: str, tensor: Tensor) -> None:
    """Raise WeightError that names the tensor if it holds NaN or infinity."""
    # One pass without a temporary: a finite sum has finite terms. (An overflow is looked into.)
    if torch.isfinite(tensor.sum()):
        return
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise WeightError(
            f"{path}: {name!r} holds {bad} values that are NaN or infinite; "
            f"the file is damaged or training diverged: take an earlier copy"
        )


def tensors_of(bilm: BiLM) -> Iterator[tuple[str, Tensor]]:
    """Name and value of each tensor of a module, on the CPU in float32, one at a time."""
    for name, tensor in bilm.state_dict().items():
        yield name, tensor.detach().to("cpu", torch.float32)


def build_bilm(files: ModelFiles) -> BiLM:
    """The module around the tensors, without a copy and without initialising anything."""
    with torch.device("meta"):
        bilm = BiLM(files.config)
    bilm.load_state_dict(files.tensors, strict=True, assign=True)
    return bilm.eval()


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def with_file_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Module names -> names as native files hold them."""
    return {START_NAMES.get(name, name): tensor for name, tensor in tensors.items()}
