"""Ctrl-C and SIGTERM while training: the step is finished and a checkpoint written first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

SIGNALS = signal.SIGINT, signal.SIGTERM


class StopRequest:
    """Notes a signal instead of obeying it at once; a second Ctrl-C is obeyed.

    Only the main thread receives signals; in any other one, nothing changes.

    Args:
        heard: called once, when the first signal comes.
    """

    def __init__(self, heard: Callable[[], None]) -> None:
        self.signal: int | None = None
        """The signal that came; None if none did."""
        self._heard = heard
        self._is_impatient = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if kind is None and self.signal is not None:
            raise KeyboardInterrupt  # it came when there was nothing left to finish

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within this block a signal raises KeyboardInterrupt: nothing is lost by leaving it."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self._is_impatient = True
        try:
            yield
        finally:
            self._is_impatient = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_second = self.signal == number == signal.SIGINT
        if self.signal is None:
            self.signal = number
            self._heard()
        if is_second or self._is_impatient:
            raise KeyboardInterrupt
