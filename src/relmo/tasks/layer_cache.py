"""The biLM's layers of a dataset, computed once: an epoch then costs the task's model alone.

They are kept in a table of `relmo.vectors.table_cache`, (tokens, L + 1, D), sentence by sentence.
While it is computed, its parts are kept likewise, in FOLDER/<key>.parts: an interrupted run goes on
with the next part.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from relmo.elmo import Elmo
from relmo.errors import ConfigError, Interrupted
from relmo.kernels.device import to_device
from relmo.progress import Work, working
from relmo.text.batches import in_windows
from relmo.vectors.table_cache import Table, cached_table, table_key

Words = tuple[str, ...]
PART_TOKENS = {"cpu": 20_000, "cuda": 500_000}
"""Tokens of a part, about: what is computed again after an interruption is less. A GPU reads more
than that in a second."""
MAX_BYTES = 64 * 2**30
"""Larger caches are refused."""
ON_DEVICE_BYTES = 24 * 2**30
"""Caches up to this size are kept on the GPU if it has enough free memory."""


class LayerCache:
    """Layers of sentences, by their words; `ElmoLayer.layers_from` calls it.

    Args:
        elmo: the model, which computes the layers unless the cache has them.
        sentences: all that will be asked for.
        folder: of all caches.
    """

    def __init__(self, elmo: Elmo, sentences: Iterable[Words], folder: Path) -> None:
        self.device = elmo.device
        distinct = [*dict.fromkeys(s for s in sentences if s), ()]
        shape = sum(map(len, distinct)), elmo.config.num_layers, elmo.config.width
        needed = 2 * math.prod(shape)
        if needed > MAX_BYTES:
            raise ConfigError(
                f"the layers of {shape[0]:,} tokens would take {needed / 2**30:.1f} GiB on disk, "
                f"more than {MAX_BYTES / 2**30:.1f}; use a smaller model or less data"
            )
        key = table_key(elmo.fingerprint(), distinct)
        facts = {"model": elmo.config.name}
        parts = folder / f"{key}.parts"
        with working("verifying ELMo's layers"):  # if they are there
            table, self.meta = cached_table(
                folder, key, shape, lambda: _read(elmo, distinct, parts), facts
            )
        shutil.rmtree(parts, ignore_errors=True)
        ends = np.cumsum([0, *map(len, distinct)])
        self._first = dict(zip(distinct, ends[:-1].tolist(), strict=True))
        self._table: Tensor | Table = table  # (tokens, L + 1, D)
        if table.nbytes <= free_bytes(self.device):
            self._table = torch.from_numpy(np.array(table)).to(self.device)

    def __call__(self, sentences: Sequence[Words]) -> Tensor:
        """Layers (L + 1, B, T, D) of a batch, float16, 0 past a sentence's end."""
        T = max(map(len, sentences), default=0)
        firsts = np.array([self._first[s] for s in sentences])[:, None]
        lengths = np.array([len(s) for s in sentences])[:, None]
        steps = np.arange(T)[None]
        is_token = steps < lengths  # (B, T)
        rows = np.where(is_token, firsts + steps, 0)
        if isinstance(self._table, Tensor):
            found = self._table[to_device(rows, self.device)]  # (B, T, L + 1, D)
        else:
            found = to_device(self._table[rows], self.device)
        mask = to_device(is_token, self.device)
        return (found * mask[..., None, None]).permute(2, 0, 1, 3)


def free_bytes(device: torch.device) -> int:
    """Bytes of layers to keep on a GPU: at most half its free memory; other runs may need some."""
    if device.type != "cuda":
        return 0
    return min(ON_DEVICE_BYTES, torch.cuda.mem_get_info(device)[0] // 2)


def _read(elmo: Elmo, sentences: Sequence[Words], folder: Path) -> Iterator[Table]:
    """Layers (tokens, L + 1, D) of the sentences, part by part; a folder keeps those that are read.

    Only when all are read are they handed out, and each deleted then: never are all of them on the
    disk twice.
    """
    tables, read, total = [], 0, sum(map(len, sentences))
    with working("tokens read by ELMo", total) as work:
        for part in in_windows(sentences, len, PART_TOKENS[elmo.device.type]):
            shape = sum(map(len, part)), elmo.config.num_layers, elmo.config.width
            key, compute = table_key("", part), partial(_read_part, elmo, part, work)
            try:
                tables.append((cached_table(folder, key, shape, compute, {})[0], folder / key))
            except KeyboardInterrupt as error:
                done = f"{read:,} of {total:,} tokens read by ELMo are kept in {folder}"
                safe = f"interrupted before training; {done if read else 'nothing was kept'}"
                raise Interrupted(safe, cause=error) from error
            read += shape[0]
            if read > work.done:  # by an earlier run
                work.skip(read - work.done)
    with working("storing ELMo's layers: tokens", total) as work:
        for table, place in tables:
            yield table
            shutil.rmtree(place, ignore_errors=True)
            work.advance(len(table))


def _read_part(elmo: Elmo, sentences: Iterable[Words], work: Work) -> Iterator[Table]:
    for vectors in elmo.embed_stream(map(list, sentences), dtype="float16"):
        yield vectors.swapaxes(0, 1).astype(np.float16)
        work.advance(vectors.shape[1])
