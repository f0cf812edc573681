"""A run's metrics for TensorBoard too, where it is installed (pip install 'relmo[tensorboard]').

metrics.jsonl is the record; this is a second pair of eyes. It may be missing or fail, and the run
goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

FLUSH_SECONDS = 30


class TensorBoard:
    """Writes the numbers of metrics lines as scalars, each under its own key.

    Args:
        folder: gets the event files.
        step: the last step that is done; what an earlier process wrote of later ones is hidden.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._writer: Any = None
        with suppress(Exception):  # not installed, or not in working order
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder), purge_step=step + 1, flush_secs=FLUSH_SECONDS)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add one line of metrics; its `step` says where."""
        if self._writer is None:
            return
        try:
            for key, value in line.items():
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if is_number and key != "step":
                    self._writer.add_scalar(key, value, line["step"])
        except Exception:
            self._writer = None  # a full disk is metrics.jsonl's to report

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()
        self._writer = None
