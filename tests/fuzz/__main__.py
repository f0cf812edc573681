"""`python -m tests.fuzz [--inputs N] [--seed N] [--output FILE]`: mutated inputs, their table."""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.fuzz.mutate import mutate
from tests.fuzz.targets import (
    Target,
    explained,
    file_targets,
    request_targets,
    serving,
    text_targets,
)

SLOW = 2.0
"""Seconds of computing above which an input of 4 kB counts as a hang."""
TOO_SLOW = "too slow"
HEAD = """# Fuzzing

Mutated text, files and requests, made by `make fuzz` (`tests/fuzz`). Each input must give a result
or an error in words; offsets must be right; no input of 4 kB may take 2 seconds. What once failed
is a test (`tests/fuzz/cases.py`).

| target | inputs | unexplained | slow |
|---|---:|---:|---:|
"""


def main() -> None:
    """Run every target, print what fails, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="targets whose name contains this")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    bad, rows, began, total = 0, [], time.monotonic(), 0
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with ExitStack() as stack:
        tmp = stack.enter_context(tempfile.TemporaryDirectory(dir=memory))
        client = stack.enter_context(serving(Path(tmp) / "index"))
        targets = [*text_targets(), *file_targets(Path(tmp)), *request_targets(client)]
        chosen = [target for target in targets if options.only in target.name]
        share = options.inputs / sum(target.weight for target in chosen)
        for target in chosen:
            number = round(share * target.weight)
            failed, slow = fuzz(target, number, options.seed)
            bad, total = bad + failed + slow, total + number
            rows.append(f"| {target.name} | {number:,} | {failed} | {slow} |")
            print(rows[-1], f"{time.monotonic() - began:.0f} s", flush=True)
    end = f"\n{total:,} inputs, {bad} bad, {(time.monotonic() - began) / 60:.0f} minutes; "
    text = HEAD + "\n".join(rows) + "\n" + end + f"seed {options.seed}.\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    raise SystemExit(int(bad > 0))


def fuzz(target: Target, number: int, seed: int, show: int = 5) -> tuple[int, int]:
    """Unexplained failures and slow inputs among `number` mutations; the first few are printed."""
    chance, kept = random.Random(f"{target.name} {seed}"), list(target.seeds)
    seen: set[str] = set()
    failed = slow = 0
    for data in target.seeds:
        explained(target, data)  # the first call imports
    for _ in range(number):
        data = mutate(chance.choice(kept), kept, chance, max(4096, *map(len, target.seeds)))
        problem = within(SLOW, lambda: explained(target, data))  # noqa: B023 - called at once
        is_slow = problem == TOO_SLOW
        failed, slow = failed + (problem not in (None, TOO_SLOW)), slow + is_slow
        kind = (problem or "")[:40]
        if problem and kind not in seen and len(seen) < show:
            seen.add(kind)
            print(f"{target.name}: {problem}: {data!r}"[:1500], flush=True)
    return failed, slow


def within(seconds: float, act: Callable[[], str | None]) -> str | None:
    """What `act` returns, or TOO_SLOW after so many seconds of computing."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return act()
    except TooSlow:
        return TOO_SLOW
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class TooSlow(BaseException):
    """No reader catches it."""


if __name__ == "__main__":
    main()
