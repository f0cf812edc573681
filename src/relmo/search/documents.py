"""Files -> documents -> passages.

    .txt .md .markdown      one document: the whole file
    .csv .tsv .xlsx .jsonl  one document per row; `TableColumns` names the columns

The text of a row is its column `text` by default; several text columns are joined by newlines. The
other columns become metadata for filters. A row is identified by its id column, or by its number.
What cannot be read is yielded as a `BadRow`, with file and line, in place of a document.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relmo.config import Settings
from relmo.errors import ConfigError, TextError, need_extra
from relmo.search.settings import PassageUnit
from relmo.text.sentences import split_sentences

TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".jsonl")
SUFFIXES = (".txt", ".md", ".markdown", *TABLE_SUFFIXES)
csv.field_size_limit(2**24)
_SURROGATE = re.compile("[\ud800-\udfff]")

MetaValue = str | int | float | bool | None
"""A metadata value, which filters can compare."""
Row = tuple[int, Mapping[str, Any] | str]
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


def find_sources(paths: Iterable[str | Path]) -> list[str]:
    """The files that can be indexed among paths and in folders, each once, without hidden files.

    A file keeps the form of the path that was given, so that the same call finds the same names.
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
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            is_hidden = any(part.startswith(".") for part in each.relative_to(path).parts)
            if not is_hidden and each.suffix.lower() in SUFFIXES and each.is_file():
                found[each.as_posix()] = None
    return list(found)


def is_under(source: str, paths: Iterable[str | Path]) -> bool:
    """Whether a source is one of the paths or lies in one of them."""
    here = Path(source)
    return any(here.is_relative_to(os.path.normpath(path)) for path in paths)


def read_source(source: str, columns: TableColumns) -> Iterator[Document | BadRow]:
    """The documents of one file, and its rows that cannot be read."""
    path = Path(source)
    try:
        if path.suffix.lower() in TABLE_SUFFIXES:
            yield from _read_table(path, source, columns)
            return
        raw = path.read_bytes()
        meta = {"path": source, "suffix": path.suffix.lower()}
        yield Document(key=source, source=source, text=raw.decode("utf-8-sig"), meta=meta)
    except OSError as error:
        yield BadRow(source, 1, f"cannot be read ({error.strerror or error})")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        yield BadRow(source, line, f"not UTF-8 (byte 0x{raw[error.start]:02x}); convert the file")


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _read_table(path: Path, source: str, columns: TableColumns) -> Iterator[Document | BadRow]:
    seen: set[str] = set()
    suffix = path.suffix.lower()
    read_rows = {".jsonl": _jsonl_rows, ".xlsx": _xlsx_rows}.get(suffix, _csv_rows)
    for number, (line, cells) in enumerate(read_rows(path), start=1):
        if isinstance(cells, str):
            yield BadRow(source, line, cells)
            continue
        if suffix != ".jsonl" and (missing := columns.missing(cells)):
            yield BadRow(source, 1, missing)
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
    if missing := columns.missing(cells):
        raise TextError(missing)
    texts = {name: cells[name] for name in columns.text if cells[name] is not None}
    for name, text in texts.items():
        if isinstance(text, dict | list):
            raise TextError(f"column {name!r} must be text, got {type(text).__name__}")
    row_id = number if columns.id is None else cells[columns.id]
    if row_id is None or row_id == "":
        raise TextError(f"column {columns.id!r} is empty")
    kept = columns.meta
    meta: dict[str, MetaValue] = {
        name: value if isinstance(value, int | float | None) else str(value)
        for name, value in cells.items()
        if not isinstance(value, dict | list)
        and (name not in columns.text if kept is None else name in kept)
    }
    text = "\n".join(map(str, texts.values()))
    return Document(f"{source}#{row_id}", source, text, line, is_row=True, meta=meta)


def _csv_rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        start = file.readline(2**16)
        # spreadsheets write `;` where the comma is the decimal separator
        delimiter = ";" if start.count(";") > start.count(",") else ","
        delimiter = "\t" if path.suffix.lower() == ".tsv" else delimiter
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        header: list[str] | None = None
        line = 1
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield line, f"not valid {path.suffix[1:].upper()} ({error})"
                line = reader.line_num + 1
                continue
            if header is None:
                header = cells
            elif cells and len(cells) != len(header):
                yield line, f"expected {len(header)} cells as in the header, got {len(cells)}"
            elif cells:
                yield line, {name: _number(cell) for name, cell in zip(header, cells, strict=True)}
            line = reader.line_num + 1


def _number(cell: str) -> str | int | float:
    """Plain numbers as numbers, so that filters can compare them; anything else stays text."""
    if len(cell) <= 15 and cell.lstrip("-")[:1].isdigit():  # not "nan" or "inf"
        for kind in (int, float):
            with suppress(ValueError):
                if str(value := kind(cell)) == cell:
                    return value
    return cell


def _xlsx_rows(path: Path) -> Iterator[Row]:
    need_extra("search")
    from openpyxl import load_workbook

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # a broken zip file, or one of many XML errors
        yield 1, f"not valid XLSX ({error})"
        return
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        header = [str(name) if name is not None else "" for name in next(rows, ())]
        for line, cells in enumerate(rows, start=2):
            if any(cell is not None for cell in cells):
                named = dict(zip(header, cells, strict=False))
                yield line, {name: cell for name, cell in named.items() if name}
    finally:
        book.close()


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            try:
                cells = json.loads(raw.decode("utf-8-sig"))
            except UnicodeDecodeError:
                yield line, "not UTF-8; convert the file"
            except ValueError as error:
                yield line, f"not valid JSON ({error})"
            except RecursionError:
                yield line, "JSON is nested too deeply"
            else:
                yield line, cells if isinstance(cells, dict) else "not a JSON object"


# ── passages ──────────────────────────────────────────────────────────────────────────────────────

TextRange = tuple[int, int]
"""(start, end) in characters of a text."""

MAX_WRAPPED_LINE = 160
"""Characters of the longest line in text that counts as wrapped to a page width."""
MAX_HEADING_WORDS = 16

_WORD = re.compile(r"\S{1,32}")  # limits text without spaces, too
_BLANK = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\S[^\n]*")
_LIST_ITEM = re.compile(r"[-*+•][ \t]|\d{1,3}[.)][ \t]+[^\W\d]")  # "3. 5" is a number
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
    """The passages of a document in order, with their positions in it."""
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
    words = [m.span() for m in _WORD.finditer(text, *sentence)]
    pieces = -(-len(words) // max_words)
    size = -(-len(words) // pieces)
    for first in range(0, len(words), size):
        last = min(first + size, len(words)) - 1
        yield words[first][0], words[last][1]


def _count_words(text: str, start: int, end: int) -> int:
    return sum(1 for _ in _WORD.finditer(text, start, end))


# ── paragraphs ───────────────────────────────────────────────────────────────────────────────────


def split_paragraphs(text: str) -> Iterator[TextRange]:
    """(start, end) of each paragraph in order; only white space is left out."""
    heading: TextRange | None = None
    for start, end in _blocks(text):
        if _is_heading(text[start:end]):
            if heading is not None:
                yield heading
            heading = (start, end)
        else:
            yield (heading or (start, end))[0], end
            heading = None
    if heading is not None:
        yield heading


def split_lines(text: str, start: int = 0, end: int | None = None) -> Iterator[TextRange]:
    """(start, end) of each line that is not blank."""
    for line in _LINE.finditer(text, start, len(text) if end is None else end):
        yield line.start(), line.start() + len(line[0].rstrip())


_SPLITTERS: dict[str, Callable[[str], Iterable[TextRange]]] = {
    "paragraph": split_paragraphs,
    "sentence": split_sentences,
    "line": split_lines,
}


def _blocks(text: str) -> Iterator[TextRange]:
    """Paragraphs and headings."""
    start = 0
    for end, following in [*(m.span() for m in _BLANK.finditer(text)), (len(text), len(text))]:
        if lines := list(split_lines(text, start, end)):
            yield from _join_lines(text, lines)
        start = following


def _join_lines(text: str, lines: list[TextRange]) -> Iterator[TextRange]:
    """The lines between two blank ones, joined where a line continues the one before."""
    continues = [_continues(text[start : start + 8]) for start, _ in lines[1:]]
    longest = max(end - start for start, end in lines)
    is_wrapped = 3 * sum(continues) >= len(continues) and longest <= MAX_WRAPPED_LINE
    begin, end = lines[0]
    for line, is_middle in zip(lines[1:], continues, strict=True):
        if not is_middle and (not is_wrapped or _LIST_ITEM.match(text, *line)):
            yield begin, end
            begin = line[0]
        end = line[1]
    yield begin, end


def _continues(start: str) -> bool:
    """Whether a line with this start continues a sentence; in scripts without case it may."""
    if _LIST_ITEM.match(start):
        return False
    letter = next((each for each in start[:3] if each.isalpha()), "A")
    return not (letter.isupper() or letter.istitle())


def _is_heading(text: str) -> bool:
    words = len(text.split())
    is_short = words <= 3 or (words <= MAX_HEADING_WORDS and not _SENTENCE_END.search(text))
    return "\n" not in text and (text.startswith("#") or (is_short and text[0] not in "-*+•|"))
