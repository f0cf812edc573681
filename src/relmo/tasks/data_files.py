"""Files of labelled data: which file of a folder is which part, and the lines of a file."""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Literal

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
WHOLE_WORDS = ("testa", "testb", "val")
"""Names that must be the whole word."""
COMPRESSED = (".gz", ".xz", ".zst")
ANY = ("",)
WHITE = " \t"
"""The only white space within a line: a no-break space is part of its word."""


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
        found = [p for p in files if word in _words(p) and _stem(p).endswith(suffix)]
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise ConfigError(f"{folder}: {names} could each be the {part} part; keep one of them")
        if found:
            return _of_one_part(found[0])
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


def _words(path: Path) -> set[str]:
    """The words of NAMES in a file's name; none if the file is hidden."""
    if path.name.startswith("."):
        return set()
    pieces = [piece.lower() for piece in re.findall("[A-Z]*[a-z]+|[A-Z]+", path.name)]
    known = {word for words in NAMES.values() for word in words}
    return {word for word in known if any(_begins(piece, word) for piece in pieces)}


def _begins(piece: str, word: str) -> bool:
    is_whole = word in WHOLE_WORDS
    return piece == word if is_whole else piece.startswith(word) and piece not in WHOLE_WORDS


def _of_one_part(path: Path) -> Path:
    """The path, unless its name fits two parts: a model must not be tested on training data."""
    named = [part for part, words in NAMES.items() if _words(path) & set(words)]
    if len(named) > 1:
        raise ConfigError(f"{path} could be the {' or the '.join(named)} part; rename it")
    return path


def _stem(path: Path) -> str:
    """A file's name without the suffix of its compression."""
    name = path.name
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    return name


# ── lines of a file ─────────────────────────────────────────────────────────────────────────────


def numbered_lines(path: str | Path, errors: Errors = "strict") -> Iterator[tuple[int, str]]:
    """Lines of a file, numbered from 1; decompressed as the suffix says.

    Args:
        path: of the file.
        errors: "replace" accepts bytes that are not UTF-8.

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
