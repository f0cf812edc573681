"""Convert GoEmotions to the tables that `relmo train multilabel` reads.

    python scripts/emotion_data.py goemotions-group emotions
    relmo train multilabel --data emotions --output runs/emotions

The folder has train.tsv, dev.tsv and test.tsv without headers: a text, the numbers of its labels
joined by commas, an id. The names of the labels are the lines of labels.txt (emotions.txt where the
data were not grouped), from number 0 on. The output has a .jsonl file for each part:
{"text": "It shines!", "labels": ["positive"]}
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from relmo.errors import DataError, RelmoError, TextError
from relmo.files import make_folder, replacing
from relmo.tasks.data_files import PARTS, numbered_lines

NAMES = ("labels.txt", "emotions.txt")


def main(args: list[str] | None = None) -> None:
    """Parse the command line and convert."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="with train.tsv, dev.tsv, test.tsv, labels.txt")
    parser.add_argument("output", type=Path, help="a folder for the .jsonl files")
    chosen = parser.parse_args(args)
    try:
        counts = convert(chosen.folder, chosen.output)
    except RelmoError as error:
        sys.exit(f"emotion_data: {error}")
    print(f"{'/'.join(f'{count:,}' for count in counts)} texts in {chosen.output}")


def convert(folder: Path, output: Path) -> list[int]:
    """Write the parts; return how many texts each has."""
    names = read_names(folder)
    parts = {part: list(read_texts(folder / f"{part}.tsv", names)) for part in PARTS}
    make_folder(output)
    for part, rows in parts.items():
        lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        with replacing(output / f"{part}.jsonl") as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")
    return [len(rows) for rows in parts.values()]


def read_names(folder: Path) -> list[str]:
    """The names of the labels, by number."""
    for name in NAMES:
        if (folder / name).is_file():
            lines = (line.strip() for _, line in numbered_lines(folder / name))
            return [line for line in lines if line]
    raise TextError(f"{folder} has none of {', '.join(NAMES)}; is it a folder of GoEmotions?")


def read_texts(path: Path, names: list[str]) -> Iterator[dict[str, str | list[str]]]:
    """The rows of a part."""
    name_of = {str(number): name for number, name in enumerate(names)}
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != 3:
            raise DataError(path, number, f"expected text, labels and id, got {len(cells)} cells")
        text, numbers, _ = cells
        if unknown := [each for each in numbers.split(",") if each not in name_of]:
            what = f"label {unknown[0]!r}; expected a number from 0 to {len(names) - 1}"
            raise DataError(path, number, what)
        yield {"text": text.strip(), "labels": [name_of[each] for each in numbers.split(",")]}


if __name__ == "__main__":
    main()
