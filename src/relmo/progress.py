"""A progress bar on standard error, shown only in a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable
from importlib.util import find_spec
from typing import TypeVar

Item = TypeVar("Item")
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line separators, marks that turn the direction, halves of characters."""


def printable(text: str) -> str:
    """The text as one line that a terminal shows and does not obey: a file may have any name."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


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
