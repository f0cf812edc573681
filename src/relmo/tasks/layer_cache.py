"""The biLM's layers of a dataset, computed once: an epoch then costs the task's model alone.

    FOLDER/<key>/layers.npy     (tokens, L + 1, D) float16, sentence after sentence
    FOLDER/<key>/meta.json      shape, bytes, seconds it took, name of the model

The key is a hash of the model and of the sentences, so another model or other text never meets an
old cache. It is made beside its place and renamed when whole; who wants it meanwhile waits.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.elmo import Elmo
from relmo.errors import ConfigError, OutputError, WeightError
from relmo.files import explain, make_folder, read_json, sync_file, sync_folder, write_json
from relmo.kernels.device import to_device
from relmo.progress import progress
from relmo.vectors.journal import open_locked

Words = tuple[str, ...]
MAX_BYTES = 64 * 2**30
"""A cache larger than this is refused: fewer sentences, or a smaller model."""
ON_DEVICE_BYTES = 24 * 2**30
"""A cache up to this size is held on the GPU, where that has room."""
PAUSE = 0.2
"""Seconds between two looks whether another process has made the cache."""


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
        if table.nbytes <= room_on(device):
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
            found = self._table[to_device(rows, self.device)]  # (B, T, L + 1, D)
        else:
            found = to_device(self._table[rows], self.device)
        mask = to_device(there, self.device)
        return (found * mask[..., None, None]).permute(2, 0, 1, 3)


def room_on(device: torch.device) -> int:
    """Bytes of layers that a GPU may hold: half of what is free, for others may work there too."""
    if device.type != "cuda":
        return 0
    return min(ON_DEVICE_BYTES, torch.cuda.mem_get_info(device)[0] // 2)


def open_layers(elmo: Elmo, sentences: Iterable[Words], folder: Path) -> LayerCache:
    """The cache of these sentences, made if it is not there."""
    distinct = [*dict.fromkeys(s for s in sentences if s), ()]
    digest = hashlib.sha256(elmo.fingerprint().encode())
    for sentence in distinct:
        digest.update(json.dumps(sentence).encode() + b"\n")  # escapes what could be mistaken
    place = folder / digest.hexdigest()[:24]
    if not _is_whole(place):
        make_folder(folder)
        with explain(folder, "free some space, or choose another folder"), _alone(place):
            if not _is_whole(place):
                _make(elmo, distinct, place)
    return LayerCache(place, distinct, elmo.device)


def _is_whole(place: Path) -> bool:
    try:
        meta = read_json(place / "meta.json")
        return (place / "layers.npy").stat().st_size == meta.get("bytes")
    except (OSError, WeightError):
        return False


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Let one process at a time make the cache; the others wait."""
    path = place.with_name(f"{place.name}.lock")
    while True:
        try:
            file = open_locked(path)
            break
        except OutputError:
            time.sleep(PAUSE)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _make(elmo: Elmo, sentences: Sequence[Words], place: Path) -> None:
    shape = max(1, sum(map(len, sentences))), elmo.config.num_layers, elmo.config.width
    _check_size(shape)
    begun = time.monotonic()
    for torn in [place, *place.parent.glob(f"{place.name}.*.tmp")]:
        shutil.rmtree(torn, ignore_errors=True)  # what a killed process left
    temporary = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        size = _write(elmo, sentences, temporary / "layers.npy", shape)
        seconds = round(time.monotonic() - begun, 2)
        meta = {"shape": shape, "bytes": size, "seconds": seconds, "model": elmo.config.name}
        write_json(temporary / "meta.json", meta)
        temporary.rename(place)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(place.parent)


def _check_size(shape: tuple[int, int, int]) -> None:
    needed = 2 * shape[0] * shape[1] * shape[2]
    if needed > MAX_BYTES:
        raise ConfigError(
            f"the layers of {shape[0]:,} tokens would take {needed / 2**30:.1f} GiB on disk, more "
            f"than {MAX_BYTES / 2**30:.1f}; use a smaller model or less data"
        )


def _write(elmo: Elmo, sentences: Sequence[Words], path: Path, shape: tuple[int, int, int]) -> int:
    """Write the table, sentence by sentence; give the file's size."""
    header = {"descr": "<f2", "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        stream = elmo.embed_stream(map(list, sentences), dtype="float16")
        for vectors in progress(stream, len(sentences), "sentences read by ELMo", show=True):
            file.write(vectors.swapaxes(0, 1).astype("<f2").tobytes())  # (T, L + 1, D)
        if not any(sentences):  # a table of no rows cannot be mapped
            file.write(bytes(2 * shape[1] * shape[2]))
    sync_file(path)
    return path.stat().st_size
