"""Every error that relmo raises on purpose.

    RelmoError
    ├── ConfigError          settings that contradict each other or are not known
    ├── TextError            input text or tokens that cannot be read
    ├── DataError            labelled data with a row that cannot be used
    ├── WeightError          a model file that is broken, or does not fit its settings
    │   └── ModelNotFound    no model under that name or path
    ├── OutputError          vectors that cannot be written, or a run that cannot be resumed
    └── MissingExtra         an optional dependency is not installed

A message says what came, what was wanted and what to do. `assert` is for our own mistakes.
"""

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
"""Extra -> (the module it brings, how its message begins)."""


class RelmoError(Exception):
    """The parent of all errors a user can cause and mend."""


class ConfigError(RelmoError, ValueError):
    """Settings contradict each other or are not known."""


class TextError(RelmoError, ValueError):
    """Input text or tokens cannot be read."""


class DataError(RelmoError, ValueError):
    """Labelled data has a row that cannot be used; the message names file and line.

    In a file without lines, such as JSON, `line` says in words where it stands: `question 'q1'`.
    """

    def __init__(self, path: str | PathLike[str], line: int | str, what: str) -> None:
        where = f"line {line}" if isinstance(line, int) else line
        super().__init__(f"{path}, {where}: {what}")


class WeightError(RelmoError, ValueError):
    """A model file is broken or does not fit its settings."""


class ModelNotFound(WeightError, FileNotFoundError):
    """No model under that name or path."""


class OutputError(RelmoError, OSError):
    """Vectors cannot be written, or an interrupted run cannot be resumed."""


class MissingExtra(RelmoError, ImportError):
    """An optional dependency is not installed."""


class TextWarning(UserWarning):
    """Text was understood, but probably not as its author meant it."""


def exit_code(error: RelmoError) -> int:
    """What a command that ended so exits with: 2 the call is wrong, 1 the work failed."""
    return 2 if isinstance(error, ConfigError | ModelNotFound | MissingExtra) else 1


def need_extra(extra: str) -> None:
    """Raise MissingExtra with the install line unless the extra's module can be imported."""
    module, purpose = EXTRAS[extra]
    if find_spec(module) is None:
        raise MissingExtra(
            f"{purpose} {module}, which is not installed: pip install 'relmo[{extra}]'"
        )
