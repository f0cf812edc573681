"""A probe by its name: read the data and the model, score every reading, keep the record."""

from __future__ import annotations

import time
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.files import make_folder
from relmo.lab.probes.intrinsic import probe_intrinsic
from relmo.lab.probes.outcome import Outcome
from relmo.lab.probes.pos import probe_pos
from relmo.lab.probes.wic import probe_wic
from relmo.lab.probes.wsd import probe_wsd
from relmo.train.distributed import World
from relmo.train.run import write_record

PROBES: dict[str, Callable[..., Outcome]] = {
    "pos": probe_pos,
    "wsd": probe_wsd,
    "wic": probe_wic,
    "intrinsic": probe_intrinsic,
}


def run_probe(
    name: str,
    elmo: Elmo,
    data: Path,
    *,
    output: Path | None = None,
    vectors: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Score a model by a probe: <part>_<metric>_<reading> -> percent.

    Args:
        name: pos, wsd, wic or intrinsic.
        elmo: the model.
        data: folder with the probe's files.
        output: folder in which the record, run.json, is written; none is unless given.
        vectors: file of static vectors that are probed beside the layers.
        cache: folder where the layers of the data are kept for the next time; nowhere unless given.
        seed: of what is trained.
    """
    check_probe(name, data, output, vectors, cache, seed)
    begun = time.monotonic()
    outcome = PROBES[name](elmo, data, vectors=vectors, cache=cache, seed=seed)
    if output is not None:
        record = {
            "task": f"probe-{name}",
            "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
            "precision": elmo.precision,
            "data": outcome.data,
            "seed": seed,
            "seconds": round(time.monotonic() - begun, 1),
            "settings": outcome.settings,
            "results": outcome.results,
        }
        make_folder(output)
        write_record(output / "run.json", record, World(device=elmo.device))
    return outcome.results


def check_probe(
    name: str,
    data: Path,
    output: Path | None,
    vectors: Path | None,
    cache: Path | None,
    seed: int,
) -> None:
    """Raise ConfigError for a call that cannot work, before a model is read for it."""
    if name not in PROBES:
        near = get_close_matches(name, PROBES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PROBES)}"
        raise ConfigError(f"no probe {name!r}; {hint}")
    if not data.is_dir():
        raise ConfigError(f"{data} is no folder; give the one that holds the data's files")
    if seed < 0:
        raise ConfigError(f"seed is {seed}; 0 or more is needed")
    if vectors is not None and not vectors.is_file():
        raise ConfigError(f"{vectors}: no such file; give one of static vectors")
    for folder in (output, cache):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is no folder; choose another place")
    if output is not None and (output / "run.json").exists():
        raise ConfigError(f"{output} holds a finished run; choose another folder")
