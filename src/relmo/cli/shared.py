"""What commands share: options, and printing.

Results go to standard output, notes and progress to standard error.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Annotated, Any, ParamSpec

import typer

from relmo.errors import Interrupted
from relmo.progress import UNPRINTABLE, duration, printable, readable, tell

P = ParamSpec("P")

DEFAULT_MODEL = "relmo-en-small"
"""The model bundled with relmo."""

Model = Annotated[str, typer.Option(help="Model name or folder.")]
Precision = Annotated[
    str, typer.Option(help="float32 (exact), bfloat16, int8 or auto (bfloat16 if supported).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print progress as JSON lines.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe; repeatable."),
]
NOTHING_WRITTEN = "interrupted; nothing was written"
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")]


def say(values: Mapping[str, Any], as_json: bool, rows: Sequence[Sequence[str]] = ()) -> None:
    """Print a result as one JSON object, or for people as aligned rows, such as `lines  1,200`."""
    if as_json:
        text = json.dumps(values, ensure_ascii=False)
        typer.echo(json.dumps(values) if UNPRINTABLE.search(text) else text)
    else:
        say_rows(rows)


def say_rows(rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Print rows of cells as aligned columns; the last column is as wide as it needs."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)][:-1]
    for *cells, last in shown:
        padded = [f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True)]
        typer.echo(f"{indent}{''.join(padded)}{last}".rstrip())


def say_json(values: Mapping[str, Any]) -> None:
    """Print one line of progress as a JSON object on standard output."""
    typer.echo(json.dumps(values))


def note(text: str) -> None:
    """Print a line on standard error that is not part of the result."""
    tell(f"relmo: {text}")


_signals: list[int] = []
"""Signals that came while the command runs. A library that calls Python from other code may catch
the interruption and raise an error of its own, as safetensors does: that error is no error then."""


@contextmanager
def if_interrupted(safe: str, can_resume: bool = False) -> Iterator[None]:
    """Within the block, say on Ctrl-C and SIGTERM what is safe; the command to go on is added.

    Work that knows better raises Interrupted itself.

    Args:
        safe: "interrupted; the lines so far are saved in out.h5.partial".
        can_resume: whether the same command with --resume continues.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if str(error):
            raise
        raise Interrupted(safe, can_resume, error) from error
    except Exception as error:
        if not _signals:
            raise
        raise Interrupted(safe, can_resume, _signals[-1]) from error  # see `_signals`


class Stopped(Exception):
    """A command was interrupted; typer would hide a KeyboardInterrupt."""

    def __init__(self, cause: KeyboardInterrupt) -> None:
        super().__init__(str(cause))
        self.cause = cause


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """The command; if it is interrupted, `Stopped` is raised, for `say_interrupted`.

    SIGTERM, by which systems end a process, is treated as Ctrl-C is.
    """

    @wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        _signals.clear()
        before = _handle_signals()
        hook, sys.unraisablehook = sys.unraisablehook, _interrupt_again
        try:
            command(*args, **options)
        except KeyboardInterrupt as error:
            raise Stopped(error) from error
        except Exception as error:
            if not _signals:
                raise
            raise Stopped(Interrupted(cause=_signals[-1])) from error
        finally:
            sys.unraisablehook = hook
            for number, handler in before.items():
                signal.signal(number, handler)

    return run


def _handle_signals() -> dict[int, Any]:
    """Handle SIGTERM, and Ctrl-C unless it is ignored; return the handlers before."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        numbers.append(signal.SIGINT)
    return {int(number): signal.signal(number, _interrupt) for number in numbers}


def _interrupt(number: int, frame: FrameType | None) -> None:
    _signals.append(number)
    raise Interrupted(cause=number)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeat a signal that came while Python cleaned up an object, where exceptions are lost."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    number = getattr(lost.exc_value, "signal", signal.SIGINT)
    again = threading.Timer(0.01, os.kill, [os.getpid(), number])  # after the cleaning
    again.daemon = True
    again.start()


def say_interrupted(error: KeyboardInterrupt, command: Sequence[str]) -> int:
    """Print what is safe and how to go on; return the exit code, 128 and the signal's number."""
    number, can_resume = int(signal.SIGINT), False
    if isinstance(error, Interrupted):
        number, can_resume = error.signal, error.can_resume
    how, words = "Continue with" if can_resume else "Start again with", ["relmo", *command]
    if can_resume and "--resume" not in words:
        words.append("--resume")
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        note(f"{str(error) or 'interrupted'}. {how}: {shlex.join(words)}")
    return 128 + number


def size_text(num_bytes: float) -> str:
    """A size in bytes for people: 11.4 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:,.0f} bytes" if unit == "bytes" else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.3g} TB"


def say_line(values: Mapping[str, Any]) -> None:
    """Print one line of training progress on standard error: step 50, loss 4.17."""
    has_mean = any(name.endswith("_loss") for name in values)  # of all steps since the last line
    hidden = {"seconds", "rate", "seconds_left", "may_end_early"}
    hidden |= {"loss"} if has_mean else set()
    parts = []
    for name, value in values.items():
        if name not in hidden:
            words = "loss" if name.endswith("_loss") else readable(name)
            shown = f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
            parts.append(f"{words.replace('held out', 'held-out')} {shown}")
    if "seconds_left" in values:
        about = "at most" if values.get("may_end_early") else "about"
        parts.append(f"{about} {duration(values['seconds_left'])} left")
    tell(f"relmo: {', '.join(parts)}")


def count_text(count: int, noun: str) -> str:
    """A count for people: 1 line, 1,200 lines."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
