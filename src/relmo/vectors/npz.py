"""npz: one array per line under the key `str(line)`, for `numpy.load` without pickle.

Written entry by entry, so no more than one array is in memory; of each line zipfile keeps a small
entry of the table that ends the archive (some 350 bytes) until then.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from relmo.vectors.formats import About
    from relmo.vectors.record import Record


def write(records: Iterable[Record], about: About, path: Path) -> None:
    """Write one array per line. npz has no place for what `about` says."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for record in records:
            # A bare ZipInfo carries no time of day: the same vectors give the same bytes.
            entry = zipfile.ZipInfo(f"{record.line}.npy")
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, record.vectors, allow_pickle=False)
