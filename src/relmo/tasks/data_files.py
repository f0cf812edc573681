"""Files of labeled data: the parts of a folder, the lines of a file, and their rows.

Rows are columns with a word per line, tables, or lines of two texts each. Errors name the file and
the line.
"""

from __future__ import annotations

import csv
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Literal, TypeVar

from relmo.errors import ConfigError, DataError, TextError
from relmo.text.documents import Errors, open_text, read_lines

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")
NAMES: dict[Part, tuple[str, ...]] = {
    "train": ("train",),
    "dev": ("dev", "testa", "valid", "val", "trial"),
    "test": ("testb", "test"),
}
"""How a word of a file's name begins, the most specific first. CoNLL-2003 calls its development
part testa."""
WHOLE_WORDS = {"testa", "testb", "val"}
"""Names that must be the whole word."""
COMPRESSED = (".gz", ".xz", ".zst")
ANY = ("",)
WHITE = " \t"
"""The only white space within a line: a no-break space is part of its word."""
TableFormat = Literal["csv", "tsv", "jsonl"]
FORMATS: dict[str, TableFormat] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl"}
Tokenize = Callable[[str], list[str]]
"""Splits a text into words."""
MAX_SHOWN = 200
"""Characters of a table's column names that an error shows."""
Line = tuple[int, str]
"""Number of a line, counted from 1, and its text."""
_CELL = re.compile(f"[^{WHITE}]+")
_WORD = re.compile(r"[^ \t\n\r\f\v]+")
Example = TypeVar("Example")


# ── parts of a folder ───────────────────────────────────────────────────────────────────────────


def find_part(folder: Path, part: Part, suffixes: Sequence[str] = ANY) -> Path | None:
    """The file of a part; None if the folder has none.

    Args:
        folder: searched without its subfolders and hidden files.
        part: which one.
        suffixes: accepted endings of the name, compression aside, the best first; "" is any.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give the folder with the data files")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for word, suffix in product(NAMES[part], suffixes):
        found = [p for p in files if word in _part_words(p) and _stem(p).endswith(suffix)]
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise ConfigError(f"{folder}: {names} could each be the {part} part; keep one of them")
        if found:  # of one part only: a model must not be tested on training data
            named = [part for part, words in NAMES.items() if _part_words(found[0]) & set(words)]
            if len(named) > 1:
                either = " or the ".join(named)
                raise ConfigError(f"{found[0]} could be the {either} part; rename it")
            return found[0]
    return None


def need_part(folder: Path, part: Part, suffixes: Sequence[str] = ANY) -> Path:
    """Like `find_part`; ConfigError if there is none."""
    found = find_part(folder, part, suffixes)
    if found is None:
        words = " or ".join(NAMES[part])
        ends = " or ".join(suffix for suffix in suffixes if suffix)
        ending = f" and the ending {ends}" if ends else ""
        folders = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")
        below = f"; is it in a subfolder, {', '.join(folders[:5])}?" if folders else ""
        raise ConfigError(
            f"{folder} has no {part} part; expected a file with {words} in its name{ending}{below}"
        )
    return found


def find_parts(folder: Path, suffixes: Sequence[str] = ANY) -> dict[Part, Path]:
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


def _stem(path: Path) -> str:
    """A file's name without the suffix of its compression."""
    return path.stem if path.suffix.lower() in COMPRESSED else path.name


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
        reason = f"not UTF-8 ({error.__cause__}); convert the file"
        raise DataError(name, number + 1, reason) from error


def whole_text(path: str | Path) -> str:
    """The text of a file that is parsed as a whole, such as JSON; see `numbered_lines`."""
    return "\n".join(line for _, line in numbered_lines(path))


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


class TableRow:
    """A row of a table, column name -> value; errors name its file and the line it begins at."""

    def __init__(self, path: str | Path, number: int, cells: Mapping[str, object]) -> None:
        self.path, self.number, self.cells = path, number, cells

    def error(self, reason: str) -> DataError:
        """An error about this row."""
        return DataError(self.path, self.number, reason)

    def text(self, name: str) -> str:
        """The value of a column without surrounding white space; DataError if it is empty."""
        if name not in self.cells:
            known = ", ".join(repr(each) for each in self.cells) or "none"
            known = known if len(known) <= MAX_SHOWN else f"{known[:MAX_SHOWN]} …"
            raise self.error(f"no column {name!r}; found {known}: rename one of these")
        value = self.cells[name]
        if isinstance(value, bool | int | float):
            value = json.dumps(value)
        if not isinstance(value, str):
            raise self.error(f"{name!r} must be a string, got {json.dumps(value)[:40]}")
        if not (text := value.strip(" \t\n\r\f\v")):
            raise self.error(f"{name!r} is empty; fill it in or delete the row")
        return text

    def words(self, name: str, tokenize: Tokenize) -> tuple[str, ...]:
        """The words of a column; DataError if there are none."""
        words = tuple(tokenize(self.text(name)))
        if not words:
            raise self.error(f"{name!r} contains no words; fill it in or delete the row")
        return words


def not_empty(path: str | Path, examples: list[Example], what: str) -> list[Example]:
    """The examples of a file; DataError if there are none."""
    if not examples:
        raise DataError(path, 1, f"the file contains no {what} per line")
    return examples


def table_rows(path: str | Path, kind: TableFormat | None = None) -> Iterator[TableRow]:
    """The rows of a table; blank lines are skipped.

    Args:
        path: the file. CSV may quote its cells; in TSV a quote is an ordinary character.
        kind: the table's format; by default the one that the file's suffix names.
    """
    if kind is None:
        suffix = Path(_stem(Path(path)).lower()).suffix
        if suffix not in FORMATS:
            known = ", ".join(FORMATS)
            raise ConfigError(f"{path}: unknown table format {suffix!r}; use one of {known}")
        kind = FORMATS[suffix]
    rows = _json_rows(path) if kind == "jsonl" else _named_rows(path, kind)
    return (TableRow(path, number, cells) for number, cells in rows)


def split_at_spaces(text: str) -> list[str]:
    """Words of a text that is already tokenized; a no-break space stays part of its word."""
    return _WORD.findall(text)


def tab_pairs(lines: Iterable[str], first: str, second: str) -> Iterator[tuple[int, str, str]]:
    """(line number, first, second) of each line that is not blank: two texts with a tab between.

    `first` and `second` say what these are, in the words of an error: "a question".
    """
    for number, line in enumerate(lines, 1):
        one, _, other = line.partition("\t")
        if one.strip() and other.strip():
            yield number, one, other
        elif line.strip():
            wanted = f"{first}, a tab and {second}"
            raise TextError(f"line {number}: expected {wanted}, got {line[:40]!r}")


def _json_rows(path: str | Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in numbered_lines(path):
        if not line.strip(WHITE):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(path, number, f"invalid JSON ({error})") from error
        if not isinstance(row, dict):
            raise DataError(path, number, f"expected one object {{…}} per line, got {line[:30]!r}")
        yield number, row


def _named_rows(path: str | Path, kind: TableFormat) -> Iterator[tuple[int, Mapping[str, object]]]:
    lines = ((n, line.split("\t")) for n, line in numbered_lines(path) if line.strip(WHITE))
    rows = _csv_rows(path) if kind == "csv" else lines
    first, names = next(rows, (1, []))
    if len(set(names)) < len(names):
        raise DataError(path, first, f"two columns have the same name: {', '.join(names)}")
    for number, cells in rows:
        if len(cells) != len(names):
            what = f"{len(cells)} cells, but {len(names)} column names in line {first}"
            raise DataError(path, number, f"{what}; every row needs the same number")
        yield number, dict(zip(names, cells, strict=True))


def _csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in numbered_lines(path)), strict=True)
    number = 1
    try:
        for cells in reader:
            if cells:  # a blank line has none
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(path, number, f"invalid CSV ({error}); are all quotes closed?") from error
