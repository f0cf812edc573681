"""The errors that relmo raises. Catch `RelmoError` for all of them.

    RelmoError
    ├── ConfigError          unknown settings, values out of range, settings that contradict
    ├── TextError            input text or tokens that cannot be read
    ├── DataError            labelled data with a row that cannot be used
    ├── WeightError          a model file that is damaged or does not match its settings
    │   └── ModelNotFound    no model with this name or path
    ├── OutputError          a file that cannot be written, or a run that cannot be resumed
    └── MissingExtra         an optional dependency is not installed

A message says what was expected, what was found and what to do:

    >>> from relmo import Elmo, errors
    >>> try:
    ...     Elmo.from_pretrained("relmo-en-tiny")
    ... except errors.ModelNotFound as error:
    ...     print(error)

Each class also derives from the closest built-in exception (`ValueError`, `OSError`, …). Any other
exception is a bug in relmo. `TextWarning` is a warning, not an error. `Interrupted` is a
KeyboardInterrupt that says what is safe.
"""

import signal
from importlib.util import find_spec
from os import PathLike

EXTRAS = {
    "parquet": ("pyarrow", "Parquet files need"),
    "report": ("matplotlib", "pictures need"),
    "search": ("Stemmer", "stemming and spreadsheets need"),
    "server-store": ("psycopg", "an index in PostgreSQL needs"),
    "serve": ("fastapi", "the server needs"),
    "zstd": ("zstandard", ".zst files need"),
}
"""Extra -> (a module that it installs, the start of the error message)."""


class RelmoError(Exception):
    """The base class of all errors that a user can cause and fix."""


class ConfigError(RelmoError, ValueError):
    """A setting is unknown or out of range, or settings contradict each other."""


class TextError(RelmoError, ValueError):
    """Input text or tokens cannot be read."""


class DataError(RelmoError, ValueError):
    """Labelled data has a row that cannot be used; the message names file and line.

    In a file without lines, such as JSON, `line` is a description: `question 'q1'`.
    """

    def __init__(self, path: str | PathLike[str], line: int | str, what: str) -> None:
        where = f"line {line}" if isinstance(line, int) else line
        super().__init__(f"{path}, {where}: {what}")


class WeightError(RelmoError, ValueError):
    """A model file is damaged or does not match its settings."""


class ModelNotFound(WeightError, FileNotFoundError):
    """There is no model with this name or path."""


class OutputError(RelmoError, OSError):
    """A file cannot be written, or an interrupted run cannot be resumed."""


class MissingExtra(RelmoError, ImportError):
    """An optional dependency is not installed."""


class TextWarning(UserWarning):
    """Text was read, but probably not as intended."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or SIGTERM, stopped the work; the message says what is safe.

    Args:
        safe: "interrupted at step 120; everything up to it is saved in runs/a/checkpoint".
        can_resume: whether the same call with `resume` continues.
        cause: what stopped the work; an earlier exception of this class knows the signal.
    """

    def __init__(
        self, safe: str = "", can_resume: bool = False, cause: BaseException | int | None = None
    ) -> None:
        super().__init__(safe)
        self.can_resume = can_resume
        self.signal: int = cause if isinstance(cause, int) else getattr(cause, "signal", _CTRL_C)


_CTRL_C = int(signal.SIGINT)


def exit_code(error: RelmoError) -> int:
    """The exit code of a command that failed: 2 for a wrong call, 1 for failed work."""
    return 2 if isinstance(error, ConfigError | ModelNotFound | MissingExtra) else 1


def need_extra(extra: str, module: str | None = None) -> None:
    """Raise MissingExtra with the install command unless the extra is installed.

    Args:
        extra: its name.
        module: the one needed, if the extra installs several.
    """
    usual, purpose = EXTRAS[extra]
    module = module or usual
    if find_spec(module) is None:
        raise MissingExtra(
            f"{purpose} {module}, which is not installed: pip install 'relmo[{extra}]'"
        )
