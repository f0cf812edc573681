"""A probe by its name: check the call, score every reading, write the record."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path

from rich.table import Table

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.files import make_folder
from relmo.lab.probes.acceptability import probe_acceptability, sentences_in_words
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult
from relmo.lab.probes.intrinsic import probe_intrinsic
from relmo.lab.probes.minimal_pairs import (
    PARADIGM,
    PairRow,
    find_pairs,
    pairs_in_words,
    probe_minimal_pairs,
)
from relmo.lab.probes.pos import probe_pos
from relmo.lab.probes.wic import probe_wic
from relmo.lab.probes.wsd import probe_wsd
from relmo.progress import working
from relmo.training.distributed import World
from relmo.training.run import Run, write_record
from relmo.vectors.row_files import check_rows_output, write_rows

PROBES: dict[str, Callable[[ProbeInputs], ProbeResult]] = {
    "pos": probe_pos,
    "wsd": probe_wsd,
    "wic": probe_wic,
    "intrinsic": probe_intrinsic,
    "blimp": probe_minimal_pairs,
    "acceptability": probe_acceptability,
}
SCORE = re.compile(r"(?P<part>.+)_(?P<metric>accuracy|f1|mcc)_(?P<reading>.+)")
MEASURE = re.compile(r"(?P<part>.+)_(?P<reading>layer_\d+)")
BY_PART = ("blimp", "acceptability")
"""Probes whose table has a row per part: their readings are few."""
MEASURED = {
    "acceptability": "accuracy and Matthews' correlation in percent",
    "wsd": "F1 in percent",
    "intrinsic": "cosines and explained variance",
}

REMARKS = {"blimp": pairs_in_words, "acceptability": sentences_in_words}


def run_probe(
    name: str,
    elmo: Elmo,
    data: str | Path,
    *,
    output: str | Path | None = None,
    vectors: str | Path | None = None,
    cache: str | Path | None = None,
    seed: int = 0,
    pairs: str | Path | None = None,
) -> dict[str, float]:
    """Score a model by a probe: PART_METRIC_READING -> percent, and counts.

    Args:
        name: pos, wsd, wic, intrinsic, blimp or acceptability.
        elmo: the model.
        data: folder with the probe's files; for blimp also a single file.
        output: folder to write the record, run.json, to; by default none is written.
        vectors: file of static vectors to probe beside the layers.
        cache: folder in which the layers of the data are kept for the next run.
        seed: of the classifiers that are trained.
        pairs: file for the result of each pair, .tsv, .csv, .jsonl or .parquet; blimp alone.
    """
    data = Path(data)
    output, vectors, cache, pairs = (
        None if path is None else Path(path) for path in (output, vectors, cache, pairs)
    )
    check_probe(name, data, output, vectors, cache, seed, pairs)
    begun = time.monotonic()
    with working(f"probe {name}"):  # and of its parts, what takes long
        result = PROBES[name](ProbeInputs(elmo, data, vectors, cache, seed))
    if pairs is not None:
        write_rows(pairs, PairRow._fields, result.rows)
    if output is not None:
        record = {
            "task": f"probe-{name}",
            "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
            "precision": elmo.precision,
            "data": result.data,
            "seed": seed,
            "seconds": round(time.monotonic() - begun, 1),
            "settings": result.settings,
            "results": result.scores,
        }
        make_folder(output)
        write_record(output / "run.json", record, World(device=elmo.device))
    return result.scores


def check_probe(
    name: str,
    data: Path,
    output: Path | None,
    vectors: Path | None,
    cache: Path | None,
    seed: int,
    pairs: Path | None = None,
) -> None:
    """Raise ConfigError for a call that cannot work, before a model is loaded for it."""
    if name not in PROBES:
        near = get_close_matches(name, PROBES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose {', '.join(PROBES)}"
        raise ConfigError(f"no probe {name!r}; {hint}")
    if name == "blimp" and data.is_file():
        find_pairs(data)
    elif not data.is_dir():
        raise ConfigError(f"{data} is not a folder; give the folder with the data files")
    if pairs is not None:
        if name != "blimp":
            raise ConfigError(f"only blimp has pairs; leave --pairs out for {name}")
        check_rows_output(pairs)
    if seed < 0:
        raise ConfigError(f"seed must be an integer ≥ 0, got {seed}")
    if vectors is not None and not vectors.is_file():
        raise ConfigError(f"{vectors}: no such file; give a file of static vectors")
    for folder in (output, cache):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder; choose another one")
    if output is not None:
        Run(output).check_start(resume=False)


def heading(name: str, results: Mapping[str, float]) -> str:
    """What the table shows, and what to know about it."""
    what = MEASURED.get(name, "accuracy in percent")
    return f"{what}; {REMARKS[name](results)}" if name in REMARKS else what


def score_table(results: Mapping[str, float], *, by_part: bool = False) -> Table:
    """One row per reading, one column per part or measure; or the other way round.

    Scores of single paradigms, of which there are dozens, and counts are left out.
    """
    cells: dict[str, dict[str, float]] = {}
    columns: dict[str, None] = {}  # an ordered set
    for name, value in results.items():
        found = SCORE.fullmatch(name) or MEASURE.fullmatch(name)
        if found is None:
            continue
        row, column = found["reading"], found["part"]
        if found.groupdict().get("metric") == "mcc":
            column = f"{column}, Matthews"
        if column.startswith(PARADIGM):
            continue
        row, column = (column, row) if by_part else (row, column)
        columns[column] = None
        cells.setdefault(row, {})[column] = value
    table = Table(box=None, pad_edge=False)
    table.add_column("part" if by_part else "reading", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row, values in cells.items():
        shown = (f"{values[column]:.2f}" if column in values else "" for column in columns)
        table.add_row(row.replace("_", " ") if by_part else row, *shown)
    return table
