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
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult
from relmo.lab.probes.intrinsic import probe_intrinsic
from relmo.lab.probes.pos import probe_pos
from relmo.lab.probes.wic import probe_wic
from relmo.lab.probes.wsd import probe_wsd
from relmo.progress import working
from relmo.train.distributed import World
from relmo.train.run import Run, write_record

PROBES: dict[str, Callable[[ProbeInputs], ProbeResult]] = {
    "pos": probe_pos,
    "wsd": probe_wsd,
    "wic": probe_wic,
    "intrinsic": probe_intrinsic,
}
SCORE = re.compile(r"(?P<part>.+?)_(?P<metric>accuracy|f1)_(?P<reading>.+)")
MEASURE = re.compile(r"(?P<part>.+)_(?P<reading>layer_\d+)")
MEASURED = {"wsd": "F1 in percent", "intrinsic": "cosines and explained variance"}


def run_probe(
    name: str,
    elmo: Elmo,
    data: str | Path,
    *,
    output: str | Path | None = None,
    vectors: str | Path | None = None,
    cache: str | Path | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Score a model by a probe: PART_METRIC_READING -> percent.

    Args:
        name: pos, wsd, wic or intrinsic.
        elmo: the model.
        data: folder with the probe's files.
        output: folder to write the record, run.json, to; by default none is written.
        vectors: file of static vectors to probe beside the layers.
        cache: folder in which the layers of the data are kept for the next run.
        seed: of the classifiers that are trained.
    """
    data = Path(data)
    output, vectors, cache = (None if p is None else Path(p) for p in (output, vectors, cache))
    check_probe(name, data, output, vectors, cache, seed)
    begun = time.monotonic()
    with working(f"probe {name}"):  # and of its parts, what takes long
        result = PROBES[name](ProbeInputs(elmo, data, vectors, cache, seed))
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
    name: str, data: Path, output: Path | None, vectors: Path | None, cache: Path | None, seed: int
) -> None:
    """Raise ConfigError for a call that cannot work, before a model is loaded for it."""
    if name not in PROBES:
        near = get_close_matches(name, PROBES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose {', '.join(PROBES)}"
        raise ConfigError(f"no probe {name!r}; {hint}")
    if not data.is_dir():
        raise ConfigError(f"{data} is not a folder; give the folder with the data files")
    if seed < 0:
        raise ConfigError(f"seed must be an integer ≥ 0, got {seed}")
    if vectors is not None and not vectors.is_file():
        raise ConfigError(f"{vectors}: no such file; give a file of static vectors")
    for folder in (output, cache):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder; choose another one")
    if output is not None:
        Run(output).check_start(resume=False)


def score_table(results: Mapping[str, float]) -> Table:
    """One row per reading, one column per part or measure."""
    cells: dict[str, dict[str, float]] = {}
    parts: dict[str, None] = {}  # an ordered set
    for name, value in results.items():
        found = SCORE.fullmatch(name) or MEASURE.fullmatch(name)
        assert found is not None, name
        parts[found["part"]] = None
        cells.setdefault(found["reading"], {})[found["part"]] = value
    table = Table(box=None, pad_edge=False)
    table.add_column("reading", no_wrap=True)
    for part in parts:
        table.add_column(part, justify="right", no_wrap=True)
    for reading, row in cells.items():
        table.add_row(reading, *(f"{row[part]:.2f}" if part in row else "" for part in parts))
    return table
