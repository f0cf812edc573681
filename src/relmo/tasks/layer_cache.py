"""The biLM's layers of a dataset, computed once: an epoch then costs the task's model alone.

    FOLDER/<key>/layers.npy     (tokens, L + 1, D) float16, sentence after sentence
    FOLDER/<key>/meta.json      shape, checksum of the sentences, seconds it took

The key is a hash of the model and of the sentences, so another model or other text never meets an
old cache. It is made beside its place and renamed when whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.files import explain, sync_folder
from relmo.weights.facts import read_json, write_json

Words = tuple[str, ...]
MAX_BYTES = 64 * 2**30
"""A cache larger than this is refused: fewer sentences, or a smaller model."""
ON_DEVICE_BYTES = 24 * 2**30
"""A cache up to this size is held on the GPU."""


class LayerCache:
    """Layers of sentences, by their words.

    Args:
        folder: of one cache, whole.
        sentences: distinct, in the order in which they were written.
        device: where batches are wanted.
    """

    def __init__(self, folder: Path, sentences: Sequence[Words], device: torch.device) -> None:
        self.meta = read_json(folder / "meta.json")
        table: NDArray[np.float16] = np.load(folder / "layers.npy", mmap_mode="r")
        self.device = device
        ends = np.cumsum([0, *map(len, sentences)])
        self._first = dict(zip(sentences, ends[:-1].tolist(), strict=True))
        self._table: Tensor | NDArray[np.float16] = table  # (tokens, L + 1, D)
        if device.type == "cuda" and table.nbytes <= ON_DEVICE_BYTES:
            self._table = torch.from_numpy(np.array(table)).to(device)

    def __call__(self, sentences: Sequence[Words]) -> Tensor:
        """Layers (L + 1, B, T, D) of a batch, float16, 0 past a sentence's end."""
        T = max(map(len, sentences), default=0)
        firsts = np.array([self._first[s] for s in sentences])[:, None]
        lengths = np.array([len(s) for s in sentences])[:, None]
        steps = np.arange(T)[None]
        there = steps < lengths  # (B, T)
        rows = np.where(there, firsts + steps, 0)
        if isinstance(self._table, Tensor):
            found = self._table[torch.from_numpy(rows).to(self.device)]  # (B, T, L + 1, D)
        else:
            found = torch.from_numpy(self._table[rows]).to(self.device)
        mask = torch.from_numpy(there).to(self.device)
        return (found * mask[..., None, None]).permute(2, 0, 1, 3)


def open_layers(elmo: Elmo, sentences: Iterable[Words], folder: Path) -> LayerCache:
    """The cache of these sentences, made if it is not there."""
    distinct = [*dict.fromkeys(s for s in sentences if s), ()]
    digest = hashlib.sha256(elmo.fingerprint().encode())
    for sentence in distinct:
        digest.update("\0".join(sentence).encode(errors="surrogatepass") + b"\n")
    place = folder / digest.hexdigest()[:24]
    if not (place / "meta.json").is_file():
        _make(elmo, distinct, place)
    return LayerCache(place, distinct, elmo.device)


def _make(elmo: Elmo, sentences: Sequence[Words], place: Path) -> None:
    tokens = sum(map(len, sentences))
    shape = tokens, elmo.config.num_layers, elmo.config.width
    needed = 2 * shape[0] * shape[1] * shape[2]
    if needed > MAX_BYTES:
        raise ConfigError(
            f"the layers of {tokens:,} tokens would take {needed / 2**30:.0f} GiB on disk, more "
            f"than {MAX_BYTES / 2**30:.0f}; use a smaller model or less data"
        )
    begun = time.monotonic()
    temporary = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    with explain(place.parent, "free some space, or choose another folder"):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            _write(elmo, sentences, temporary / "layers.npy", shape)
            seconds = round(time.monotonic() - begun, 2)
            meta = {"shape": shape, "bytes": needed, "seconds": seconds, "model": elmo.config.name}
            write_json(temporary / "meta.json", json.loads(json.dumps(meta)))
            if place.exists():
                shutil.rmtree(temporary)  # another process was quicker
            else:
                temporary.rename(place)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(place.parent)


def _write(elmo: Elmo, sentences: Sequence[Words], path: Path, shape: tuple[int, int, int]) -> None:
    table = np.lib.format.open_memmap(path, "w+", dtype=np.float16, shape=shape)
    first = 0
    for vectors in elmo.embed_stream([list(s) for s in sentences], dtype="float16"):
        past = first + vectors.shape[1]
        table[first:past] = vectors.swapaxes(0, 1)  # (T, L + 1, D)
        first = past
    table.flush()
