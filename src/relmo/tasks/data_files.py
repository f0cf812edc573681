"""Files of labeled data: the parts of a folder, the lines of a file, and their rows.

Rows are columns with a word per line, or lines of two texts each; tables are in tables.py. Errors
name the file and the line.
"""

from __future__ import annotations

import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from relmo.errors import ConfigError, DataError, RelmoError, TextError
from relmo.text.documents import Errors, open_text, read_lines

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")
NAMES: dict[Part, tuple[str, ...]] = {
    "train": ("train",),
    "dev": ("dev", "testa", "valid", "val", "trial"),
    "test": ("testb", "test"),
}
"""How a word of a file's name begins. CoNLL-2003 calls its development part testa."""
WHOLE_WORDS = {"testa", "testb", "val"}
"""Names that must be the whole word."""
MAX_WHOLE = 2**29
"""Characters of a file that is parsed as a whole."""
COMPRESSED = (".gz", ".xz", ".zst")
Suffixes = Sequence[str | tuple[str, ...]]
"""Accepted endings of files' names, compression aside, the best first; "" is any. Of endings in one
tuple, none is better than another: a part must not have files of both."""
ANY: Suffixes = ("",)
WHITE = " \t"
"""The only white space within a line: a no-break space is part of its word."""
Tokenize = Callable[[str], list[str]]
"""Splits a text into words."""
Line = tuple[int, str]
"""Number of a line, counted from 1, and its text."""
_CELL = re.compile(f"[^{WHITE}]+")
_WORD = re.compile(r"[^ \t\n\r\f\v]+")
Example = TypeVar("Example")


# ── parts of a folder ───────────────────────────────────────────────────────────────────────────


def find_part(folder: Path, part: Part, suffixes: Suffixes = ANY) -> Path | None:
    """The file of a part; None if the folder has none.

    Args:
        folder: searched without its subfolders and hidden files.
        part: which one.
        suffixes: accepted endings of the name.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give the folder with the data files")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    named = [path for path in files if _part_words(path) & set(NAMES[part])]
    for suffix in suffixes:
        found = [path for path in named if stem_of(path).endswith(suffix)]
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise ConfigError(f"{folder}: {names} could each be the {part} part; keep one of them")
        if found:  # of one part only: a model must not be tested on training data
            parts = [part for part, words in NAMES.items() if _part_words(found[0]) & set(words)]
            if len(parts) > 1:
                either = " or the ".join(parts)
                raise ConfigError(f"{found[0]} could be the {either} part; rename it")
            return found[0]
    return None


def need_part(folder: Path, part: Part, suffixes: Suffixes = ANY) -> Path:
    """Like `find_part`; ConfigError if there is none."""
    found = find_part(folder, part, suffixes)
    if found is None:
        words = " or ".join(NAMES[part])
        groups = (each if isinstance(each, tuple) else (each,) for each in suffixes)
        ends = " or ".join(suffix for group in groups for suffix in group if suffix)
        ending = f" and the ending {ends}" if ends else ""
        folders = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")
        below = f"; is it in a subfolder, {', '.join(folders[:5])}?" if folders else ""
        raise ConfigError(
            f"{folder} has no {part} part; expected a file with {words} in its name{ending}{below}"
        )
    return found


def find_parts(folder: Path, suffixes: Suffixes = ANY) -> dict[Part, Path]:
    """The files of all parts in the folder."""
    found = {part: find_part(folder, part, suffixes) for part in PARTS}
    return {part: path for part, path in found.items() if path is not None}


def _part_words(path: Path) -> set[str]:
    """The words of NAMES in a file's name; none if the file is hidden."""
    if path.name.startswith("."):
        return set()
    pieces = {piece.lower() for piece in re.findall("[A-Z]*[a-z]+|[A-Z]+", path.name)}
    known = {word for words in NAMES.values() for word in words} - WHOLE_WORDS
    begun = {word for word in known for piece in pieces - WHOLE_WORDS if piece.startswith(word)}
    return begun | pieces & WHOLE_WORDS


def stem_of(path: Path) -> str:
    """A file's name in lower case, without the suffix of its compression."""
    return (path.stem if path.suffix.lower() in COMPRESSED else path.name).lower()


# ── lines of a file ─────────────────────────────────────────────────────────────────────────────


def numbered_lines(path: str | Path, errors: Errors = "strict") -> Iterator[tuple[int, str]]:
    """Lines of a file, numbered from 1; decompressed as the suffix says.

    With errors="replace", bytes that are not UTF-8 are accepted.

    Raises:
        DataError: a line is not UTF-8.
        TextError: the file cannot be opened or decompressed.
    """
    try:
        with open_text(Path(path)) as file:
            yield from decoded_lines(file, str(path), errors)
    except FileNotFoundError as error:
        raise TextError(f"{path}: cannot be read: no such file; check its name") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TextError(f"{path}: cannot be read ({error}); is the file complete?") from error


def decoded_lines(
    file: Iterable[bytes], name: str, errors: Errors = "strict"
) -> Iterator[tuple[int, str]]:
    """Lines of an open file, numbered from 1; DataError for a line that is not UTF-8."""
    number = 0
    try:
        for number, line in enumerate(read_lines(file, name, errors), start=1):
            yield number, line
    except TextError as error:
        cause = error.__cause__
        if not isinstance(cause, UnicodeDecodeError):
            raise  # such as a line without an end
        is_utf16 = "looks like UTF-16" in str(error)
        if b"\0" in cause.object and not is_utf16:
            reason = "it looks like a binary file; expected text in UTF-8"
            raise DataError(name, number + 1, reason) from error
        encoding = "UTF-16" if is_utf16 else "LATIN1"
        reason = (
            f"not UTF-8 ({cause}); convert the file: save it as CSV UTF-8 in Excel, or "
            f"run iconv -f {encoding} -t UTF-8 FILE > NEW"
        )
        raise DataError(name, number + 1, reason) from error


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what Python's parsers raise for odd content into a TextError that names the file.

    JSON may be nested too deep to parse, a number have more digits than Python converts.
    """
    try:
        yield
    except RelmoError:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise TextError(f"{path}: cannot be read ({what}); is the file complete?") from error


def whole_text(path: str | Path) -> str:
    """The text of a file that is parsed as a whole, such as JSON; see `numbered_lines`."""
    text, size = io.StringIO(), 0
    for number, line in numbered_lines(path):
        size += len(line) + 1
        if size > MAX_WHOLE:  # a small compressed file may hold any amount of text
            what = f"the file has more than {MAX_WHOLE:,} characters; split it into several"
            raise DataError(path, number, what)
        text.write(f"{line}\n")
    return text.getvalue().removesuffix("\n")


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def split_cells(line: str, has_tabs: bool | None = None) -> list[str]:
    """The cells of a line, separated by tabs or by runs of spaces.

    Args:
        line: the text of one line.
        has_tabs: whether tabs separate the cells, which may then contain spaces and may be empty;
            by default, they do where the line has one.
    """
    if "\t" in line if has_tabs is None else has_tabs:
        return [cell.strip(" ") for cell in line.split("\t")]
    return _CELL.findall(line)


def sentence_lines(
    path: str | Path, comment: str | None = None, boundary: str | None = None
) -> Iterator[list[Line]]:
    """The lines of each sentence of a file.

    Args:
        path: the file, decompressed as its suffix says.
        comment: how lines begin that are skipped.
        boundary: how lines begin that end a sentence as a blank line does.
    """
    lines: list[Line] = []
    for number, line in numbered_lines(path):
        if comment and line.startswith(comment):
            continue
        if line.strip(WHITE) and not (boundary and line.startswith(boundary)):
            lines.append((number, line))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def not_empty(path: str | Path, examples: list[Example], what: str) -> list[Example]:
    """The examples of a file; DataError if there are none."""
    if not examples:
        raise DataError(path, 1, f"the file contains no {what} per line")
    return examples


def split_at_spaces(text: str) -> list[str]:
    """Words of a text that is already tokenized; a no-break space stays part of its word."""
    return _WORD.findall(text)
