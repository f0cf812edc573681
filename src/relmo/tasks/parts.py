"""A folder of labelled data -> its training, development and test files, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Literal

from relmo.errors import ConfigError

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")
NAMES: dict[Part, tuple[str, ...]] = {
    "train": ("train",),
    "dev": ("dev", "testa", "valid", "val", "trial"),
    "test": ("testb", "test"),
}
"""How a word of a file's name begins, the surest first; CoNLL-2003 calls its development part
testa, and that must be the whole word, as must val."""
WHOLE = ("testa", "testb", "val")


def find_part(
    folder: Path, part: Part, suffixes: Sequence[str] = ("",), prefix: str = ""
) -> Path | None:
    """The file of one part, None if there is none.

    Args:
        folder: where files lie; below it is not looked, nor at hidden files.
        part: which.
        suffixes: how its name may end, compression left aside, the surest first; "" is any.
        prefix: how its name begins.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; give the one that holds the data's files")
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name.startswith(prefix))
    for word, suffix in product(NAMES[part], suffixes):
        found = [p for p in files if word in _words(p) and _ends(p, suffix)]
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise ConfigError(f"{folder}: {names} could each be the {part} part; leave one there")
        if found:
            return _of_one_part(found[0])
    return None


def need_part(folder: Path, part: Part, suffixes: Sequence[str] = ("",), prefix: str = "") -> Path:
    """Like find_part; a part that is not there is an error."""
    found = find_part(folder, part, suffixes, prefix)
    if found is None:
        wanted = " or ".join(NAMES[part])
        ends = " or ".join(suffix for suffix in suffixes if suffix)
        how = f" that ends in {ends}" if ends else ""
        folders = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")
        below = f"; is it in one of its folders, {', '.join(folders[:5])}?" if folders else ""
        raise ConfigError(
            f"{folder} has no {part} part; a file with {wanted} in its name{how} is needed{below}"
        )
    return found


def _words(path: Path) -> set[str]:
    """The words of NAMES that a file's name holds; none if it is hidden."""
    if path.name.startswith("."):
        return set()
    pieces = [piece.lower() for piece in re.findall("[A-Z]*[a-z]+|[A-Z]+", path.name)]
    known = {word for words in NAMES.values() for word in words}
    return {word for word in known if any(_begins(piece, word) for piece in pieces)}


def _begins(piece: str, word: str) -> bool:
    return piece == word if word in WHOLE else piece.startswith(word) and piece not in WHOLE


def _of_one_part(path: Path) -> Path:
    """The path, unless its name says two parts: a model would be tested on what it learned."""
    named = [part for part, words in NAMES.items() if _words(path) & set(words)]
    if len(named) > 1:
        raise ConfigError(f"{path} could be the {' or the '.join(named)} part; rename it")
    return path


def _ends(path: Path, suffix: str) -> bool:
    name = path.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".zst")
    return name.endswith(suffix)
