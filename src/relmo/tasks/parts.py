"""A folder of labelled data -> its training, development and test files, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Literal

from relmo.errors import ConfigError

Part = Literal["train", "dev", "test"]
NAMES: dict[Part, tuple[str, ...]] = {
    "train": ("train",),
    "dev": ("dev", "testa", "valid", "trial"),
    "test": ("testb", "test"),
}
"""What a file's name holds, the surest first; CoNLL-2003 calls its development part testa."""


def find_part(
    folder: Path, part: Part, suffixes: Sequence[str] = ("",), prefix: str = ""
) -> Path | None:
    """The file of one part, None if there is none.

    Args:
        folder: where files lie; below it is not looked.
        part: which.
        suffixes: how its name may end, compression left aside, the surest first; "" is any.
        prefix: how its name begins.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; give the one that holds the data's files")
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name.startswith(prefix))
    others = [word for name, words in NAMES.items() if name != part for word in words]
    for word, suffix in product(NAMES[part], suffixes):
        longer = [other for other in others if word in other]  # test is in testa
        found = [p for p in files if _is_named(p, word, longer) and _ends(p, suffix)]
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise ConfigError(f"{folder}: {names} could each be the {part} part; leave one there")
        if found:
            return found[0]
    return None


def need_part(folder: Path, part: Part, suffixes: Sequence[str] = ("",), prefix: str = "") -> Path:
    """Like find_part; a part that is not there is an error."""
    found = find_part(folder, part, suffixes, prefix)
    if found is None:
        wanted = " or ".join(NAMES[part])
        raise ConfigError(
            f"{folder} has no {part} part; a file with {wanted} in its name is needed"
        )
    return found


def _is_named(path: Path, word: str, longer: Sequence[str]) -> bool:
    name = path.name.lower()
    return word in name and not any(other in name for other in longer)


def _ends(path: Path, suffix: str) -> bool:
    name = path.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".zst")
    return name.endswith(suffix)
