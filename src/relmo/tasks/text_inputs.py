"""What `relmo predict` reads: lines of plain text, or the texts of a table, for a trained model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from relmo.errors import ConfigError, TextError
from relmo.tasks.data_files import decoded_lines, numbered_lines, stem_of
from relmo.tasks.labelled import AnyTask
from relmo.tasks.registry import find_task
from relmo.tasks.run import TaskCard
from relmo.tasks.sources import read_texts
from relmo.tasks.tables import Columns

TABLES = (".csv", ".jsonl", ".json", ".parquet")
"""Endings of files that are no lines of two texts."""


class TextInput(NamedTuple):
    """The texts of one input, and the line, or the row of a table, where it begins."""

    line: int
    texts: tuple[str, ...]


def inputs_of_file(folder: Path, file: str, column: str | None) -> Iterator[TextInput]:
    """The inputs of a file or of standard input ("-") for the task model in a folder.

    Args:
        folder: of the model.
        file: plain text, packed or not, or a table that the task reads.
        column: of a table's texts.
    """
    path, card = Path(file), TaskCard.read(folder)
    task = find_task(card.task)
    is_csv = bool(task.tables) and stem_of(path).endswith(".csv")  # none is plain text
    if file != "-" and (is_csv or task.is_table(path)):
        texts = read_texts(path, Columns(text=column), card.facts.get("source", {}))
        return (TextInput(number, (text,)) for number, text in enumerate(texts, 1))
    if column is not None:
        where = "standard input" if file == "-" else path.name
        raise ConfigError(f"--text names a column of a table, but {where} is plain text")
    is_stdin = file == "-"
    if len(task.text_names) > 1 and stem_of(path).endswith(TABLES):
        names = " TAB ".join(each.upper() for each in task.text_names)
        raise ConfigError(
            f"{file}: {card.task} reads no tables; give a text file with lines {names}"
        )
    lines = decoded_lines(sys.stdin.buffer, "standard input") if is_stdin else numbered_lines(path)
    if task.reads_documents:
        return _documents(lines)
    return _lines(task, lines, "standard input" if is_stdin else file)


def _lines(task: type[AnyTask], lines: Iterable[tuple[int, str]], name: str) -> Iterator[TextInput]:
    """An input per line, blank ones included; a tab separates two texts."""
    names = task.text_names
    for number, line in lines:
        texts = line.split("\t", len(names) - 1) if line.strip() else [""] * len(names)
        if len(texts) != len(names):
            wanted = ", a tab and ".join(f"a {each}" for each in names)
            shown = line if len(line) <= 40 else f"{line[:39]}…"
            raise TextError(f"{name}, line {number}: expected {wanted}, got {shown!r}")
        yield TextInput(number, tuple(texts))


def _documents(lines: Iterable[tuple[int, str]]) -> Iterator[TextInput]:
    """An input per document; blank lines end it, and its lines are joined by line feeds."""
    first, kept = 0, list[str]()
    for number, line in lines:
        if line.strip():
            first = first if kept else number
            kept.append(line)
        elif kept:
            yield TextInput(first, ("\n".join(kept),))
            kept = []
    if kept:
        yield TextInput(first, ("\n".join(kept),))
