"""A task's labeled data as users have them: a folder with a file for each part, or one file.

One file is split into train, dev and test parts by a seed: a tenth of its examples is each the dev
and the test part. A command says so, and the record of the run keeps it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from relmo.config import shown
from relmo.errors import ConfigError
from relmo.files import sha256
from relmo.progress import tell, working
from relmo.tasks.data_files import PARTS, Part, find_part, find_parts, need_part, reading
from relmo.tasks.labelled import AnyTask
from relmo.tasks.tables import (
    DEFAULT_COLUMNS,
    NO_COLUMNS,
    TEXT_NAMES,
    Columns,
    TableRow,
    choose_columns,
    table_rows,
    warn_of_skipped,
)

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}
"""Of the examples of one file."""
FEW = 2000
"""Fewer rows are trained on by a task's recipe for few examples."""
PLACES: dict[int, Part] = {4: "dev", 9: "test"}
"""Which of ten examples go to which part; no two neighbors do, so that every kind is trained on."""


class Source(NamedTuple):
    """Labelled data as a user names them."""

    path: Path
    """A folder with a file for each part, or one file to be split."""
    columns: Columns = NO_COLUMNS
    """Of tables; what is not given is found by common names."""
    split_seed: int = 0
    """Decides which examples of one file go to which part."""


def read_parts(task: type[AnyTask], data: str | Path | Source) -> dict[Part, list[Any]]:
    """Examples of each part of a task's data; the test part may be empty."""
    source = _source(data)
    with reading(source.path):
        columns = _columns(task, source)
    if columns not in (source.columns, DEFAULT_COLUMNS):
        tell(f"relmo: {source.path.name}: text from {columns.text!r}, label from {columns.label!r}")
    with working("reading data"), reading(source.path):
        if source.path.is_file():
            return _split_aloud(task, source, task.read_file(source.path, "train", columns))
        # A task of another package may take the folder alone.
        found = task.parts(source.path, *([] if columns == NO_COLUMNS else [columns]))
    for part in ("train", "dev"):
        if not found[part]:
            raise ConfigError(f"{source.path}: the {part} part contains no examples")
    parts: dict[Part, list[Any]] = {part: found.get(part, []) for part in PARTS}
    sizes = ", ".join(f"{len(examples):,} {part}" for part, examples in parts.items())
    tell(f"relmo: {source.path.resolve().name}: {sizes} {task.noun}")
    return parts


def has_few(task: type[AnyTask], data: str | Path | Source) -> bool:
    """Whether the tables of a task's data have fewer than FEW rows to train on; it says so."""
    path = _source(data).path
    if path.is_dir():
        path = find_part(path, "train", task.suffixes) or path
    if not (path.is_file() and task.is_table(path)):
        return False  # reading the data will say more
    count = sum(1 for _ in islice(table_rows(path), FEW))
    if is_few := count < FEW:
        what = f"{count:,} {task.noun}, fewer than {FEW:,}: trained by the recipe {task.few_recipe}"
        tell(f"relmo: {path.name}: {what}")
    return is_few


def data_facts(
    task: type[AnyTask], data: str | Path | Source, examples: Mapping[Part, Sequence[Any]]
) -> dict[str, Any]:
    """What a record says of the data: names, checksums, numbers of examples, columns, split."""
    source = _source(data)
    is_file = source.path.is_file()
    paths = {"all": source.path} if is_file else find_parts(source.path, task.suffixes)
    files = {part: {"name": path.name, "sha256": sha256(path)} for part, path in paths.items()}
    counts: dict[str, int] = {part: len(found) for part, found in examples.items()}
    facts = {"name": source.path.resolve().name, **counts, "files": files}
    columns = _columns(task, source)
    if columns != NO_COLUMNS:
        facts["columns"] = columns._asdict()
    if is_file:
        facts["split"] = {"seed": source.split_seed, "shares": SHARES}
    return facts


def how_read(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Of the facts of a run's data: what must be known to read other data in the same way."""
    found = {key: facts[key] for key in ("columns", "split") if key in facts}
    if "split" in found:
        found["sha256"] = facts["files"]["all"]["sha256"]
    return found


def check_how_read(known: Any) -> None:  # noqa: ANN401 - any JSON
    """Raise ConfigError unless these are facts as `how_read` returns them."""
    is_right = isinstance(known, dict) and isinstance(known.get("columns", {}), dict)
    if is_right:
        names, split = known.get("columns", {}), known.get("split", {"seed": 0})
        is_right = names.keys() <= {*Columns._fields} and isinstance(split, dict)
        is_right = is_right and all(isinstance(each, str | None) for each in names.values())
        is_right = is_right and isinstance(split.get("seed"), int)
        is_right = is_right and ("split" not in known or isinstance(known.get("sha256"), str))
    if not is_right:
        raise ConfigError(f"source must say how the data were read, got {shown(known)}")


def read_examples(
    task: type[AnyTask], path: Path, asked: Columns, known: Mapping[str, Any]
) -> list[Any]:
    """The labelled examples of a file, to score a trained model on.

    Args:
        task: of the model.
        path: the file. Of the very file that the run was split from, only its test part is read.
        asked: columns of a table; by default those of the run.
        known: what `how_read` kept.
    """
    wanted = asked.or_else(_known_columns(known)) if task.is_table(path) else asked
    with reading(path):
        examples = task.read_file(path, "test", task.columns_of(path, wanted))
    if "split" in known and sha256(path) == known["sha256"]:
        examples = split_examples(task, examples, known["split"]["seed"])["test"]
        what = f"{len(examples):,} {task.noun} of its test part, which it was not trained on"
        tell(f"relmo: {path}: the run was trained on this file; scored are the {what}")
    return examples


def read_texts(path: Path, asked: Columns, known: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a table, row by row, for a trained model to answer; arguments as above.

    A row without a text gives an empty one, so that rows keep their numbers.
    """
    own = _known_columns(known).text
    usual = {"text": [*([own.lower()] if own else []), *TEXT_NAMES]}
    name = choose_columns(path, Columns(asked.text), usual, ["text"]).text
    assert name is not None
    return _texts(path, name)


def _texts(path: Path, name: str) -> Iterator[str]:
    empty: list[TableRow] = []
    for row in table_rows(path):
        is_empty = row.is_empty(name)
        yield "" if is_empty else row.text(name)
        if is_empty:
            empty.append(row)
    warn_of_skipped(empty, [name])


def split_examples(
    task: type[AnyTask], examples: Sequence[Any], seed: int
) -> dict[Part, list[Any]]:
    """Spread the examples of one file over the parts as SHARES says, in their order.

    A tenth of them, evenly from each kind that `split_by` names, is each the dev and the test part.
    Examples of no unit are to be trained on; they do not change where the others go.
    """
    keys = [task.split_by(example) for example in examples]
    kind_of: dict[Any, str] = {}
    for kind, unit in keys:
        if unit is not None:
            kind_of.setdefault(unit, kind)  # that of its first example
    sizes = Counter(kind_of.values())
    shuffled = list(kind_of)
    random.Random(seed).shuffle(shuffled)
    shuffled.sort(key=kind_of.__getitem__)  # stable: shuffled within each kind
    part_of: dict[Any, Part] = {None: "train"}
    for number, unit in enumerate(shuffled):
        is_only = sizes[kind_of[unit]] == 1 and len(sizes) > 1  # it must be learned
        part_of[unit] = "train" if is_only else PLACES.get(number % 10, "train")
    found: dict[Part, list[Any]] = {part: [] for part in PARTS}
    for (_, unit), example in zip(keys, examples, strict=True):
        found[part_of[unit]].append(example)
    return found


def _split_aloud(
    task: type[AnyTask], source: Source, examples: Sequence[Any]
) -> dict[Part, list[Any]]:
    """The parts of one file; a line on standard error says so."""
    task.check_training(examples)
    found = split_examples(task, examples, source.split_seed)
    own = "give --data a folder with train, dev and test files for a split of your own"
    if not all(found.values()):
        raise ConfigError(
            f"{source.path}: {len(examples):,} {task.noun} are too few to split into train, dev "
            f"and test parts; add more, or {own}"
        )
    sizes = "/".join(f"{len(found[part]):,}" for part in PARTS)
    said = f"{len(examples):,} {task.noun} split {sizes} by seed {source.split_seed}"
    tell(f"relmo: {source.path.name}: {said}; {own}")
    return found


def _columns(task: type[AnyTask], source: Source) -> Columns:
    """The columns to read of the data, found in the file or in that of the training part."""
    path = source.path
    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder; give a file or a folder of data")
    if path.is_file():
        if not task.splits_one_file:
            raise ConfigError(f"{path} is one file; give the folder with the train and dev files")
        return task.columns_of(path, source.columns)
    if not task.tables and source.columns == NO_COLUMNS:
        return NO_COLUMNS  # such tasks may lay their folders out in another way
    return task.columns_of(need_part(path, "train", task.suffixes), source.columns)


def _known_columns(known: Mapping[str, Any]) -> Columns:
    return Columns(**known.get("columns", {}))


def _source(data: str | Path | Source) -> Source:
    source = data if isinstance(data, Source) else Source(Path(data))
    return source._replace(path=Path(source.path))
