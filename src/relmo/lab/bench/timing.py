"""How things are timed: in interleaved rounds, so that a busy moment affects all alike.

The first round warms up and is dropped; figures are medians over the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from relmo.kernels.cpu_products import Precision
from relmo.lab.bench.sentences import Case
from relmo.progress import working

Label = TypeVar("Label")
Result = TypeVar("Result")
Memo = Literal["cold", "warm", "none"]
"""The word memo: cleared before each call, knowing all words, or absent (a peer)."""
MIN_ROUNDS = 3
STAT = Path("/proc/stat")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """How long one call takes, in seconds, and its result."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def rounds(seconds: float, clock: Callable[[], float] = time.perf_counter) -> Iterator[int]:
    """Numbers of rounds: 0 warms up, then as many as fit, but at least `MIN_ROUNDS`."""
    with working("warming up"):
        yield 0
    begin, number = clock(), 1
    with working("rounds timed") as work:
        while number <= MIN_ROUNDS or clock() - begin < seconds:
            yield number
            work.advance()
            work.share = min(work.seconds / seconds, number / MIN_ROUNDS)
            number += 1


def interleave(
    seconds: float, tasks: Mapping[Label, Callable[[], Result]]
) -> dict[Label, list[Result]]:
    """What each task returned in every round, the warm-up dropped: a task measures itself."""
    found: dict[Label, list[Result]] = {label: [] for label in tasks}
    for number in rounds(seconds):
        for label, task in tasks.items():  # round-robin: all see the same moments
            result = task()
            if number > 0:
                found[label].append(result)
    return found


@dataclass(slots=True)
class SpeedSeries:
    """One runner on one case, round by round."""

    who: str
    case: str
    memo: Memo
    precision: Precision = "float32"
    rounds: list[tuple[Case, float]] = field(default_factory=list)
    """What was embedded and the seconds it took."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        rates = sorted(case.tokens / seconds for case, seconds in self.rounds)
        per_call = [seconds / len(case.calls) for case, seconds in self.rounds]
        return {
            "who": self.who,
            "case": self.case,
            "memo": self.memo,
            "rounds": len(self.rounds),
            "milliseconds_per_call": round(1000 * median(per_call), 3),
            "tokens_per_second": round(median(rates), 1),
            "lowest_and_highest": [round(rates[0], 1), round(rates[-1], 1)],
        }


class SpeedBook(dict[tuple[str, str, Memo], SpeedSeries]):
    """All series of a run, by runner, case and memo."""

    def add(
        self, who: str, memo: Memo, case: Case, seconds: float, precision: Precision = "float32"
    ) -> None:
        """Add the time of one case."""
        empty = SpeedSeries(who, case.name, memo, precision)
        self.setdefault((who, case.name, memo), empty).rounds.append((case, seconds))


def speed_ratios(
    series: Sequence[SpeedSeries], peers: Sequence[SpeedSeries]
) -> list[dict[str, Any]]:
    """How many times faster each runner of ours is: the median over rounds, same sentences."""
    found = []
    for theirs, ours in product(peers, series):
        if ours.case == theirs.case:
            pairs = zip(theirs.rounds, ours.rounds, strict=True)  # of each: case, seconds
            times = round(median(slow / fast for (_, slow), (_, fast) in pairs), 2)
            names = {"who": ours.who, "memo": ours.memo, "peer": theirs.who, "case": ours.case}
            found.append({**names, "times_faster": times})
    return found


def watch_others() -> Callable[[], float | None]:
    """Start watching; the function returned says how many cores others kept busy since, on average.

    It returns None if the system does not report that. Ended child processes count as our own.
    """
    begin, before, own = time.perf_counter(), _busy_seconds(), sum(os.times()[:4])

    def cores() -> float | None:
        after, elapsed = _busy_seconds(), max(time.perf_counter() - begin, 1e-9)
        if after is None or before is None:
            return None
        others = (after - before) - (sum(os.times()[:4]) - own)
        return round(max(0.0, others / elapsed), 2)

    return cores


def _busy_seconds() -> float | None:
    """Non-idle time of all cores, including what a host took from its virtual machine."""
    if not STAT.is_file():
        return None
    ticks = list(map(int, STAT.read_text().splitlines()[0].split()[1:9]))
    idle_and_waiting = sum(ticks[3:5])
    return float((sum(ticks) - idle_and_waiting) / os.sysconf("SC_CLK_TCK"))
