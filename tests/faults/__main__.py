"""`python -m tests.faults [--size N] [--seed N] [--output FILE]`: every fault, and its table."""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.faults.jobs import Workshop
from tests.faults.process import enter_own_namespace
from tests.faults.trials import GOOD, Faults, Trial

HEAD = """# Faults

What becomes of the work when something goes wrong, made by `make faults` (`tests/faults`).
Commands run on tiny models and data; each trial is compared with the result of the same command
left alone.

- **same**: the same result, to the bit, after running the command again (with `--resume` where it
  has it).
- **said so**: the command refused with an error that says what is wrong.
- **bad**: another result, a traceback, a hang. Every one is listed below the table.

Bits are flipped in every file but logs, which have no checksums: metrics.jsonl, TensorBoard's
events, model cards.

"""

NEED_MOUNTS = ("full_disks", "read_only_folders")


def main() -> None:
    """Run, print as it goes, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2, help="multiplies the number of trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="one method of Faults")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warm_up()
    can_mount = enter_own_namespace()
    began, trials = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        faults = Faults(Workshop(Path(folder)), options.seed, can_mount=can_mount)
        chosen = faults.all(options.size)
        if options.only in NEED_MOUNTS and not can_mount:
            print("no permission to mount: not tried")
            raise SystemExit(0)
        if options.only:
            chosen = getattr(faults, options.only)(options.size)
        for trial in chosen:
            trials.append(trial)
            if trial.outcome not in GOOD:
                print(trial, flush=True)
            elif len(trials) % 50 == 0:
                print(f"{len(trials)} trials, {time.monotonic() - began:.0f} s", flush=True)
    text = HEAD + table(trials) + f"\n{len(trials)} trials, {_bad(trials)} bad, "
    text += f"{(time.monotonic() - began) / 60:.0f} minutes; seed {options.seed}, "
    text += f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    text += "" if can_mount else "; no permission to mount: full and read-only disks not tried"
    text += ".\n" + problems(trials)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text)
    raise SystemExit(int(_bad(trials) > 0))


def warm_up() -> None:
    """Import everything heavy before the first fork, and keep to one thread."""
    import torch

    torch.set_num_threads(1)
    import relmo.cli.main
    import relmo.elmo
    import relmo.search.index
    import relmo.tasks.lm.pretrain
    import relmo.tasks.run  # noqa: F401


def _bad(trials: Iterable[Trial]) -> int:
    return sum(trial.outcome not in GOOD for trial in trials)


def table(trials: Iterable[Trial]) -> str:
    """A Markdown table of faults × jobs × outcomes."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for trial in trials:
        name = trial.outcome if trial.outcome in GOOD else "bad"
        counts[trial.fault, trial.job][name] += 1
    lines = ["| fault | on | trials | same | said so | bad |", "|---|---|---:|---:|---:|---:|"]
    for (fault, job), count in counts.items():
        cells = [fault, job, count.total(), count["same"], count["said so"], count["bad"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def problems(trials: Iterable[Trial]) -> str:
    """A list of the bad trials."""
    bad = [trial for trial in trials if trial.outcome not in GOOD]
    each = [f"- {t.fault}, {t.job}: {t.outcome}: {t.detail}" for t in bad]
    return "\n## Bad\n\n" + "\n".join(each) + "\n" if bad else ""


if __name__ == "__main__":
    main()
