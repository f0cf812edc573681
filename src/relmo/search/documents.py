"""Files -> documents -> passages.

    .txt .md .markdown      one document: the whole file
    .csv .tsv .xlsx .jsonl  one document per row (of the first sheet); `TableColumns` names the
                            columns

The text of a row is its column `text` by default; several text columns are joined by newlines. The
other columns become metadata for filters. A row is identified by its id column, or by its number.
What cannot be read is yielded as a `BadRow`, with file and line, in place of a document: so is text
beyond a limit, which bounds memory.

Passages are paragraphs, sentences, lines or windows, limited in words:

    split_passages(Document("a", "a", "One. Two. Three."), "window", max_words=2)
    # passages "One. Two." and "Three."

Text longer than the limit is split between sentences, and a long sentence between words. Passages
cover all of a document except white space.

A blank line ends a paragraph. A single line break ends one only where every line is a paragraph of
its own; in text wrapped to a page width, lines continue in the middle of a sentence and none is
long. A heading belongs to the paragraph after it.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, AnyStr, Generic, Self

from relmo.config import Settings
from relmo.errors import ConfigError, TextError, need_extra
from relmo.search.settings import PassageUnit
from relmo.text.lines import TextRange, blocks, split_lines
from relmo.text.sentences import split_sentences

TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".jsonl")
SUFFIXES = (".txt", ".md", ".markdown", *TABLE_SUFFIXES)
MAX_BYTES = 50_000_000
"""Bytes of one document: of a text file, or of a line of a table. A book has about a million."""
MAX_ID_BYTES = 2000
"""Of the id of a row; with a path before it, PostgreSQL must be able to index it."""
MAX_UNPACKED = 5
"""Size of a spreadsheet when it is unpacked, as a multiple of the limit of a document."""
MAX_NAMED = 5
"""Sheets that are not read and named."""
MAX_SHEET_ROWS = 1_048_576
"""Rows of a spreadsheet, by its standard."""
csv.field_size_limit(2**31 - 1)  # `BoundedLines` has a limit that can be chosen
_SURROGATE = re.compile("[\ud800-\udfff]")

MetaValue = str | int | float | bool | None
"""A metadata value, which filters can compare."""
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Twice:
    """The name of two columns of a table, which cannot be told apart."""

    name: str


Row = tuple[int, Mapping[str, Any] | str | Twice]
"""Line number, and the cells by column or a description of what is wrong with the row."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text to index: a file, or a row of a table."""

    key: str
    """Unique name in the index: the file's path, or `path#id` for a row."""
    source: str
    """The file it came from, or any name that groups documents."""
    text: str
    line: int = 1
    """Line of the source on which the text starts, counted from 1."""
    is_row: bool = False
    """A table row counts as one line, even if its text contains newlines."""
    meta: Mapping[str, MetaValue] = field(default_factory=dict)
    """Metadata that searches can filter on."""

    def __post_init__(self) -> None:
        try:
            meta = self._meta_json()
        except (TypeError, ValueError) as error:
            raise TextError(f"{self.key!r}: metadata cannot be stored as JSON ({error})") from error
        for name, text in (("key", self.key), ("source", self.source), ("metadata", meta)):
            if "\0" in text or _SURROGATE.search(text):
                raise TextError(f"{self.key!r}: {name} contains NUL or a lone surrogate; remove it")
        if _SURROGATE.search(self.text):
            raise TextError(f"{self.key!r}: text is not valid Unicode; convert it to UTF-8")

    @property
    def digest(self) -> str:
        """Checksum of line, metadata and text, by which changes are detected."""
        content = f"{self.line}\n{self._meta_json()}\n{self.text}"
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def _meta_json(self) -> str:
        return json.dumps(dict(self.meta), sort_keys=True, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row or file that cannot be indexed."""

    source: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.problem}"


@dataclass(frozen=True, slots=True)
class WrongColumns(BadRow):
    """A row or table without the columns that were asked for, or with one name for two."""


@dataclass(frozen=True, slots=True)
class Skipped(BadRow):
    """A file or folder that is left out."""

    is_unreadable: bool = False
    """It may contain documents that were indexed before."""

    def __str__(self) -> str:
        return f"{self.source}: {self.problem}"


@dataclass(frozen=True, kw_only=True)
class TableColumns(Settings):
    """The roles of a table's columns."""

    text: tuple[str, ...] = ("text",)
    id: str | None = None
    meta: tuple[str, ...] | None = None
    """Columns kept as metadata; None keeps all columns that are not text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.text:
            raise ConfigError("no text column chosen; name at least one")

    def missing(self, cells: Mapping[str, Any]) -> str | None:
        """A message that names the first chosen column the row lacks; None if it has all."""
        for name in (*self.text, *([self.id] if self.id else [])):
            if name not in cells:
                return f"no column {name!r}; columns are: {', '.join(cells) or 'none'}"
        return None


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def find_sources(
    paths: Iterable[str | Path], on_skip: Callable[[Skipped], None] = lambda skipped: None
) -> list[str]:
    """The files that can be indexed among paths and in folders, each once, without hidden files.

    A file keeps the form of the path that was given, so that the same call finds the same names.
    Links are followed if they were given, or if they stay inside the folder that was given.

    Args:
        paths: files and folders.
        on_skip: called with each file that could be indexed by its name but is left out, and with
            each folder that cannot be read.
    """
    found: dict[str, None] = {}  # an ordered set
    for path in (Path(os.path.normpath(each)) for each in paths):
        if not path.exists():
            raise ConfigError(f"{path}: no such file or folder")
        if not path.is_dir() and path.suffix.lower() not in SUFFIXES:
            raise ConfigError(
                f"{path}: cannot read {path.suffix or 'a file without a suffix'!r}; "
                f"supported are {', '.join(SUFFIXES)}"
            )
        for each in sorted(_walk(path, on_skip)) if path.is_dir() else [path]:
            if problem := _problem(each, path):
                on_skip(problem)
            else:
                found[each.as_posix()] = None
    return list(found)


def _walk(root: Path, on_skip: Callable[[Skipped], None]) -> Iterator[Path]:
    """The entries below a folder that look like files to index; links to folders that leave it."""

    def report(error: OSError) -> None:
        problem = f"skipped, cannot be read ({error.strerror or error})"
        on_skip(Skipped(_shown(error.filename), 1, problem, is_unreadable=True))

    for folder, inner, names in os.walk(root, onerror=report):
        inner[:] = [name for name in inner if not name.startswith(".")]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if path.suffix.lower() in SUFFIXES:
                yield path
        yield from (path for path in (Path(folder, name) for name in inner) if _leaves(path, root))


def _leaves(path: Path, root: Path) -> bool:
    """Whether a path is a link to what is not below the folder."""
    return path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(
        os.path.realpath(root)
    )


def _problem(path: Path, given: Path) -> Skipped | None:
    """Why a path is left out; None if it is a file to read."""
    name = _shown(path)
    try:
        path.as_posix().encode()
        if path != given and _leaves(path, given):
            target = _shown(os.path.realpath(path))
            return Skipped(name, 1, f"skipped, a link that leaves {_shown(given)}, to {target}")
        if not stat.S_ISREG(path.stat().st_mode):
            return Skipped(name, 1, "skipped, not a regular file")
    except UnicodeEncodeError:
        return Skipped(name, 1, "skipped, its name is not UTF-8; rename it")
    except OSError as error:
        return Skipped(name, 1, f"skipped, cannot be read ({error.strerror})", is_unreadable=True)
    return None


def _shown(path: str | Path) -> str:
    """A path as text, with escapes for bytes that are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_under(source: str, paths: Iterable[str | Path]) -> bool:
    """Whether a source is one of the paths or lies in one of them."""
    here = Path(source)
    return any(here.is_relative_to(os.path.normpath(path)) for path in paths)


def read_source(
    source: str,
    columns: TableColumns,
    max_bytes: int = MAX_BYTES,
    note: Callable[[str], None] = lambda text: None,
) -> Iterator[Document | BadRow]:
    """The documents of one file, and its rows that cannot be read.

    Args:
        source: path of the file.
        columns: the columns of a table.
        max_bytes: limit of one document; a longer one is a bad row.
        note: called with a line about what is left out by design, such as further sheets.
    """
    path = Path(source)
    try:
        if path.suffix.lower() in TABLE_SUFFIXES:
            yield from _read_table(path, source, columns, max_bytes, note)
            return
        if path.stat().st_size > max_bytes:
            yield BadRow(source, 1, too_long("the file", max_bytes))
            return
        raw = path.read_bytes()
        meta = {"path": source, "suffix": path.suffix.lower()}
        yield Document(key=source, source=source, text=raw.decode("utf-8-sig"), meta=meta)
    except OSError as error:
        yield BadRow(source, 1, f"cannot be read ({error.strerror or error})")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        yield BadRow(source, line, f"not UTF-8 (byte 0x{raw[error.start]:02x}); convert the file")


def too_long(what: str, limit: int) -> str:
    """The description of a document that is beyond the limit."""
    return (
        f"{what} has more than {limit:,} bytes, the limit of a document; split it, or raise the "
        f"limit with --max-megabytes"
    )


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _read_table(
    path: Path,
    source: str,
    columns: TableColumns,
    max_bytes: int,
    note: Callable[[str], None],
) -> Iterator[Document | BadRow]:
    seen: set[str] = set()
    suffix = path.suffix.lower()
    read_rows = _jsonl_rows if suffix == ".jsonl" else _csv_rows
    if suffix == ".xlsx":
        read_rows = partial(_xlsx_rows, note=note)
    for number, (line, cells) in enumerate(read_rows(path, max_bytes), start=1):
        if isinstance(cells, str):
            yield BadRow(source, line, cells)
            continue
        if isinstance(cells, Twice):
            yield WrongColumns(source, line, f"two columns are named {cells.name!r}; rename one")
            return
        if missing := columns.missing(cells):
            yield WrongColumns(source, line if suffix == ".jsonl" else 1, missing)
            if suffix == ".jsonl":
                continue
            return  # the header lacks the column, and so does every row
        try:
            document = _make_document(source, number, line, cells, columns)
            if document.key in seen:
                raise TextError(f"duplicate {columns.id} {document.key[len(source) + 1 :]!r}")
        except TextError as error:
            yield BadRow(source, line, str(error))
            continue
        if columns.id is not None:
            seen.add(document.key)
        yield document


def _make_document(
    source: str, number: int, line: int, cells: Mapping[str, Any], columns: TableColumns
) -> Document:
    """The document of a row; TextError if there is something wrong with the row."""
    texts = {name: cells[name] for name in columns.text if cells[name] is not None}
    for name, text in texts.items():
        if isinstance(text, dict | list):
            raise TextError(f"column {name!r} must be text, got {type(text).__name__}")
    row_id = number if columns.id is None else cells[columns.id]
    if row_id is None or row_id == "":
        raise TextError(f"column {columns.id!r} is empty")
    if len(str(row_id).encode("utf-8", "replace")) > MAX_ID_BYTES:
        raise TextError(f"column {columns.id!r} has more than {MAX_ID_BYTES:,} bytes; shorten it")
    kept = columns.meta
    meta: dict[str, MetaValue] = {
        name: value if isinstance(value, int | float | None) else str(value)
        for name, value in cells.items()
        if not isinstance(value, dict | list)
        and (name not in columns.text if kept is None else name in kept)
    }
    text = "\n".join(map(str, texts.values()))
    return Document(f"{source}#{row_id}", source, text, line, is_row=True, meta=meta)


def _repeated(header: Sequence[str]) -> Twice | None:
    """The first name that two columns have; columns without a name do not count."""
    counts = Counter(name for name in header if name)
    return next((Twice(name) for name, count in counts.items() if count > 1), None)


def _csv_rows(path: Path, max_bytes: int) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        start = file.readline(2**16)
        # spreadsheets write `;` where the comma is the decimal separator
        delimiter = ";" if start.count(";") > start.count(",") else ","
        delimiter = "\t" if path.suffix.lower() == ".tsv" else delimiter
        file.seek(0)
        lines = BoundedLines(file, max_bytes)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        header: list[str] | None = None
        line = 1
        while True:
            lines.begin_row()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except (csv.Error, RowTooLong) as error:
                is_long = isinstance(error, RowTooLong)
                what = str(error) if is_long else f"not valid {path.suffix[1:].upper()} ({error})"
                yield line, what
                line = lines.number + 1
                continue
            if header is None:
                header = cells
                if repeated := _repeated(header):
                    yield line, repeated
                    return
            elif cells and len(cells) != len(header):
                yield line, f"expected {len(header)} cells as in the header, got {len(cells)}"
            elif cells:
                yield line, {name: _number(cell) for name, cell in zip(header, cells, strict=True)}
            line = lines.number + 1


def _number(cell: str) -> str | int | float:
    """Plain numbers as numbers, so that filters can compare them; anything else stays text."""
    if len(cell) <= 15 and cell.lstrip("-")[:1].isdigit():  # not "nan" or "inf"
        for kind in (int, float):
            with suppress(ValueError):
                if str(value := kind(cell)) == cell:
                    return value
    return cell


def _xlsx_rows(path: Path, max_bytes: int, note: Callable[[str], None]) -> Iterator[Row]:
    need_extra("search", "openpyxl")
    line = 1
    try:
        with zipfile.ZipFile(path) as packed:  # which reads no more than it declares
            size = sum(part.file_size for part in packed.infolist())
        if size > MAX_UNPACKED * max_bytes:
            yield (
                1,
                too_long(f"unpacked to {size:,} bytes, the spreadsheet", MAX_UNPACKED * max_bytes),
            )
            return
        # openpyxl leaves a file that it cannot read open: so the file is ours
        with path.open("rb") as file, closing(_open_book(file)) as book:
            sheet, *others = book.worksheets
            if others:
                names = ", ".join(repr(each.title) for each in others[:MAX_NAMED])
                more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
                note(f"{path}: only the sheet {sheet.title!r} is read, not {names}{more}")
            sheet.reset_dimensions()  # what the file says of its size need not be true
            header: list[str] = []
            for line, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
                if line > MAX_SHEET_ROWS:
                    yield line, f"a spreadsheet has at most {MAX_SHEET_ROWS:,} rows; convert it"
                    return
                if line == 1:
                    header = [str(name) if name is not None else "" for name in cells]
                    if repeated := _repeated(header):
                        yield line, repeated
                        return
                elif any(cell is not None for cell in cells):
                    named = dict(zip_longest(header, cells[: len(header)]))
                    size = sum(len(cell) for cell in named.values() if isinstance(cell, str))
                    fits = {name: cell for name, cell in named.items() if name}
                    yield line, fits if size <= max_bytes else too_long("the row", max_bytes)
    except OSError:
        raise
    except Exception as error:  # a broken zip file, or one of many XML errors
        yield line, f"not valid XLSX ({error})"


def _open_book(file: IO[bytes]) -> Any:  # noqa: ANN401 - openpyxl has no types
    from openpyxl import load_workbook

    return load_workbook(file, read_only=True, data_only=True)


def _jsonl_rows(path: Path, max_bytes: int) -> Iterator[Row]:
    with path.open("rb") as file:
        lines = BoundedLines(file, max_bytes)
        while True:
            lines.begin_row()
            try:
                raw = next(lines)
                cells = _parse_json(raw) if raw.strip() else None
            except StopIteration:
                return
            except RowTooLong as error:
                yield lines.number, str(error)
            except UnicodeDecodeError:
                yield lines.number, "not UTF-8; convert the file"
            except ValueError as error:
                yield lines.number, f"not valid JSON ({error})"
            except RecursionError:
                yield lines.number, "JSON is nested too deeply"
            else:
                if raw.strip():
                    yield lines.number, cells if isinstance(cells, dict) else "not a JSON object"


def _parse_json(raw: bytes) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        name = _repeated([name for name, _ in pairs])
        raise ValueError(f"the key {name.name if name else ''!r} occurs twice")
    return values


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


class RowTooLong(Exception):
    """A row beyond the limit; the next line can be read."""


class BoundedLines(Generic[AnyStr]):
    """The lines of a file, of which a very long one is never in memory.

    Args:
        file: open in text or binary mode.
        limit: of the lines of one row together, in characters or bytes.
    """

    def __init__(self, file: IO[AnyStr], limit: int) -> None:
        self._file: IO[AnyStr] = file
        self._limit = self._left = limit
        self.number = 0
        """Of the last line, from 1."""

    def begin_row(self) -> None:
        """The next line is the first of a row."""
        self._left = self._limit

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AnyStr:
        line = self._file.readline(self._left + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._left -= len(line)
        if self._left >= 0:
            return line
        while line and line[-1:] not in ("\n", "\r", b"\n"):
            line = self._file.readline(CHUNK)
        raise RowTooLong(too_long("the row", self._limit))


# ── passages ──────────────────────────────────────────────────────────────────────────────────────

MAX_PASSAGES = 500_000
"""Of one document, whose vectors are in memory together: 2 GB at width 1024. 50 MB of text have
that many only if they have 100 bytes each."""
MAX_HEADING_WORDS = 16

_WORD = re.compile(r"\S{1,32}")  # limits text without spaces, too
_SENTENCE_END = re.compile(r"""[.!?…:;,。！？][\"'”’»)\]_*`]*\Z""")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document that gets one vector."""

    start: int
    end: int
    """Characters of the document's text."""
    line: int
    """Line of the source on which it starts."""
    text: str


def split_passages(document: Document, unit: PassageUnit, max_words: int) -> list[Passage]:
    """The passages of a document in order, with their positions in it; TextError if too many."""
    text = document.text
    if unit == "auto":
        unit = "window" if document.is_row else "paragraph"
    passages: list[Passage] = []
    line, seen = document.line, 0
    for start, end in _ranges(text, unit, max_words):
        if not document.is_row:
            line += text.count("\n", seen, start)
            seen = start
        passages.append(Passage(start, end, line, text[start:end]))
        if len(passages) > MAX_PASSAGES:
            raise TextError(
                f"{document.key!r} splits into more than {MAX_PASSAGES:,} passages, which are "
                f"stored together; split the document, or choose longer passages"
            )
    return passages


def _ranges(text: str, unit: PassageUnit, max_words: int) -> Iterator[TextRange]:
    if unit == "window":
        yield from _pack(text, split_sentences(text), max_words)
        return
    for start, end in _SPLITTERS[unit](text):
        if _count_words(text, start, end) <= max_words:
            yield start, end
        else:
            inner = [(start + a, start + b) for a, b in split_sentences(text[start:end])]
            yield from _pack(text, inner, max_words)


def _pack(text: str, sentences: list[TextRange], max_words: int) -> Iterator[TextRange]:
    """Join neighboring sentences as long as they fit into the limit."""
    begin, end, words = 0, 0, 0
    for sentence in sentences:
        size = _count_words(text, *sentence)
        if words and words + size > max_words:
            yield begin, end
            words = 0
        if size > max_words:
            yield from _cut(text, sentence, max_words)
            continue
        begin = begin if words else sentence[0]
        end, words = sentence[1], words + size
    if words:
        yield begin, end


def _cut(text: str, sentence: TextRange, max_words: int) -> Iterator[TextRange]:
    """Cut a long sentence into pieces of about equal numbers of words, within the limit."""
    count = _count_words(text, *sentence)
    pieces = -(-count // max_words)
    size = -(-count // pieces)
    start = end = sentence[0]
    for number, word in enumerate(_WORD.finditer(text, *sentence)):
        if number % size == 0:
            if number:
                yield start, end
            start = word.start()
        end = word.end()
    yield start, end


def _count_words(text: str, start: int, end: int) -> int:
    return sum(1 for _ in _WORD.finditer(text, start, end))


# ── paragraphs ───────────────────────────────────────────────────────────────────────────────────


def split_paragraphs(text: str) -> Iterator[TextRange]:
    """(start, end) of each paragraph in order; only white space is left out."""
    heading: TextRange | None = None
    for start, end in blocks(text):
        if _is_heading(text[start:end]):
            if heading is not None:
                yield heading
            heading = (start, end)
        else:
            yield (heading or (start, end))[0], end
            heading = None
    if heading is not None:
        yield heading


_SPLITTERS: dict[str, Callable[[str], Iterable[TextRange]]] = {
    "paragraph": split_paragraphs,
    "sentence": split_sentences,
    "line": split_lines,
}


def _is_heading(text: str) -> bool:
    words = len(text.split(None, MAX_HEADING_WORDS))  # no more than needed of a long text
    is_short = words <= 3 or (words <= MAX_HEADING_WORDS and not _SENTENCE_END.search(text))
    return "\n" not in text and (text.startswith("#") or (is_short and text[0] not in "-*+•|"))
