"""A progress bar on standard error, shown only in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from importlib.util import find_spec
from typing import TypeVar

Item = TypeVar("Item")


def progress(
    items: Iterable[Item], total: int | None, what: str, show: bool
) -> Generator[Item, None, None]:
    """Yield the items; if `show` is set and standard error is a terminal, show a progress bar.

    Without rich nothing is shown: training does not need it.
    """
    if not (show and sys.stderr is not None and sys.stderr.isatty() and find_spec("rich")):
        yield from items
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        for item in items:
            yield item
            bar.advance(task)
