"""Progress of long work on standard error: a bar in a terminal, plain lines in a pipe.

    for sentence in progress(sentences, len(sentences), "sentences", show=True): ...

    with working("reading data"): ...

    with working("training steps", total=500) as work:
        work.advance()
        work.detail = "loss 3.1"

Work of less than a second says nothing. Longer work says in a pipe what it is doing, then every
ten seconds how far it is, even while a single item takes long. Of works inside each other, the
innermost speaks.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, TypeVar

Item = TypeVar("Item")
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line separators, marks that turn the direction, halves of characters."""


def printable(text: str) -> str:
    """The text as one line that a terminal shows and does not obey: a file may have any name."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def readable(name: str) -> str:
    """The name of a score as people write it: `dev_macro_f1` is `dev macro F1`."""
    return name.replace("_", " ").replace("f1", "F1").replace("mrr", "MRR")


FIRST = 1.0
"""Seconds after which work is announced in a pipe."""
EVERY = 10.0
"""Seconds between lines in a pipe."""
TICK = 0.2
"""Seconds between looks at the clock."""


class Work:
    """One piece of long work; whoever does it calls `advance` and may set `detail`."""

    def __init__(
        self, what: str, total: int | None = None, done: int = 0, first: float = 0.0
    ) -> None:
        self.what, self.total, self.done = printable(what), total, done
        self.detail = ""
        """What else there is to say, such as the last loss."""
        self.share: float | None = None
        """The fraction completed, where it is not `done / total`: in work that time bounds."""
        self.may_end_early = False
        """Whether the work may end before its total, so that the time left is a bound."""
        self.is_stopping = False
        """Whether the work ends now, so that there is nothing to say about the time."""
        self.started = time.monotonic()
        self.is_announced = False
        self._first = done / total if total else first

    def advance(self, count: int = 1) -> None:
        """Count items as done."""
        self.done += count

    def skip(self, count: int) -> None:
        """Count items as done before: they say nothing about the speed."""
        self.done += count
        self._first = self.done / self.total if self.total else 0.0

    @property
    def fraction(self) -> float | None:
        """The fraction completed; None if the total is unknown."""
        if self.share is not None:
            return min(self.share, 1.0)
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return time.monotonic() - self.started

    def __str__(self) -> str:
        """`sentences: 1,025 of 8,544 (12%), about 2 min left`."""
        fraction, said = self.fraction, []
        if self.total:
            said.append(f"{self.done:,} of {self.total:,} ({self.done / self.total:.0%})")
        elif self.done:
            said.append(f"{self.done:,}")
        if self.detail:
            said.append(self.detail)
        if self.is_stopping:
            pass
        elif fraction is not None and fraction > self._first and self.seconds > FIRST:
            left = self.seconds * (1 - fraction) / (fraction - self._first)
            said.append(f"{'at most' if self.may_end_early else 'about'} {duration(left)} left")
        elif self.is_announced:
            said.append(f"{duration(self.seconds)} so far")
        return f"{self.what}: {', '.join(said)}" if said else f"{self.what} ..."


@contextmanager
def working(
    what: str, total: int | None = None, done: int = 0, show: bool = True, first: float = 0.0
) -> Iterator[Work]:
    """Show this work on standard error, if `show` is set, until the block ends.

    Args:
        what: is being done, or of what there are so many: "reading data", "sentences".
        total: number of items, if it is known.
        done: items that were done before.
        show: whether to show anything.
        first: fraction that was done before, of work that time bounds.
    """
    work = Work(what, total, done, first)
    if not show or sys.stderr is None or sys.stderr.closed:
        yield work
        return
    _display.begin(work)
    try:
        yield work
    except BaseException:
        _display.end(work, is_done=False)
        raise
    _display.end(work, is_done=True)


def progress(
    items: Iterable[Item], total: int | None, what: str, show: bool
) -> Generator[Item, None, None]:
    """Yield the items; if `show` is set, show how many are done on standard error."""
    with working(what, total, show=show) as work:
        for item in items:
            yield item
            work.advance()


def tell(text: str) -> None:
    """Print a line on standard error; progress in a pipe then is silent for a while."""
    _display.spoken = time.monotonic()
    with suppress(OSError, ValueError):  # nobody reads it: the work goes on
        if sys.stderr is not None:
            print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 - progress


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


class _Display:
    """Shows the innermost work from a thread of its own, which runs while there is any."""

    def __init__(self) -> None:
        self.spoken = 0.0  # when the last line was printed, or work began after a pause
        self._paused = 0.0  # when the last work ended
        self._works: list[Work] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._bar: Any = None  # rich.progress.Progress

    def begin(self, work: Work) -> None:
        with self._lock:
            self._works.append(work)
            if self._thread is None:
                if work.started - self._paused > FIRST:
                    self.spoken = work.started
                self._bar, self._ended = _make_bar(), threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._ended,), name="relmo-progress", daemon=True
                )
                self._thread.start()
            if self._bar is not None:
                self._show(work)

    def end(self, work: Work, is_done: bool) -> None:
        with self._lock:
            self._works.remove(work)
            if is_done and work.is_announced and self._bar is None:
                count = f" ({work.done:,})" if work.done else ""
                tell(f"relmo: {work.what}{count}: done in {duration(work.seconds)}")
            if self._works:
                return
            self._paused = time.monotonic()
            thread, self._thread = self._thread, None
            bar, self._bar = self._bar, None
            self._ended.set()
        if thread is not None:
            thread.join(TICK * 5)
        if bar is not None:
            bar.stop()

    def _run(self, ended: threading.Event) -> None:
        while True:
            with self._lock:
                if ended.is_set() or not self._works:
                    return
                self._show(self._works[-1])
            ended.wait(TICK)

    def _show(self, work: Work) -> None:
        if self._bar is not None:
            work.is_announced = True
            fraction = work.fraction
            whole = None if fraction is None else 1.0  # an unknown total shows a moving bar
            self._bar.update(0, description=str(work), total=whole, completed=fraction or 0.0)
            self._bar.refresh()
        elif self._is_due(work):
            tell(f"relmo: {work}")
            work.is_announced = True

    def _is_due(self, work: Work) -> bool:
        """A second after work began, then every ten; many short works together every ten."""
        silence = time.monotonic() - self.spoken
        is_new = not work.is_announced and work.seconds >= FIRST
        return silence >= (FIRST if is_new else EVERY)


def _make_bar() -> Any:  # noqa: ANN401 - rich.progress.Progress, where rich is installed
    """A bar on a screen; None in a pipe, or without rich."""
    if not (sys.stderr.isatty() and find_spec("rich")):
        return None
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    columns = rich.BarColumn(bar_width=24), rich.TextColumn("{task.description}", markup=False)
    bar = rich.Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,  # else results would go where the bar is
    )
    bar.add_task("", total=1.0)
    bar.start()
    return bar


_display = _Display()
