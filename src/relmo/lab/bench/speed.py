"""Times of one runner in every round, and what they say: medians, spread, fraction of the floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from relmo.config import ElmoConfig
from relmo.kernels.cpu_products import Precision
from relmo.lab.bench.cases import Case
from relmo.lab.bench.work import Rates, floor_seconds

Memo = Literal["cold", "warm", "none"]
"""Of words: cleared before each call, knowing all of them, or not there at all (a peer)."""


@dataclass(slots=True)
class Series:
    """One runner on one case, round by round."""

    who: str
    case: str
    memo: Memo
    precision: Precision = "float32"
    rounds: list[tuple[Case, float]] = field(default_factory=list)
    """What was read and the seconds it took."""

    def rates(self) -> list[float]:
        """Tokens per second."""
        return [case.tokens / seconds for case, seconds in self.rounds]

    def fraction_of_floor(self, config: ElmoConfig, rates: Rates) -> float:
        """The least time this machine could take / the time taken."""
        return median([floor_of(c, config, self, rates) / seconds for c, seconds in self.rounds])

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        rates = sorted(self.rates())
        seconds = [seconds / len(case.calls) for case, seconds in self.rounds]
        return {
            "who": self.who,
            "case": self.case,
            "memo": self.memo,
            "rounds": len(self.rounds),
            "milliseconds_per_call": round(1000 * median(seconds), 3),
            "tokens_per_second": round(median(rates), 1),
            "lowest_and_highest": [round(rates[0], 1), round(rates[-1], 1)],
        }


def floor_of(case: Case, config: ElmoConfig, series: Series, rates: Rates) -> float:
    """The least seconds for a case, each call a batch of its own."""
    total = 0.0
    for call in case.calls:
        new = {word for words in call for word in words} if series.memo == "cold" else set()
        lengths = [len(words) for words in call]
        total += floor_seconds(config, lengths, sorted(new), series.precision, rates)
    return total


def ratios(series: Sequence[Series], peers: Sequence[Series]) -> list[dict[str, Any]]:
    """How many times sooner each runner of ours is: the median over rounds, same sentences."""
    return [
        {
            "who": ours.who,
            "memo": ours.memo,
            "peer": theirs.who,
            "case": ours.case,
            "times_faster": round(median(_pairwise(ours, theirs)), 2),
        }
        for theirs in peers
        for ours in series
        if ours.case == theirs.case
    ]


def _pairwise(ours: Series, theirs: Series) -> list[float]:
    pairs = zip(ours.rounds, theirs.rounds, strict=True)
    return [slow / fast for (_, fast), (_, slow) in pairs]


class Book:
    """All series of a run, found by who, case and memo."""

    def __init__(self) -> None:
        self.series: dict[tuple[str, str, Memo], Series] = {}

    def add(
        self,
        who: str,
        memo: Memo,
        case: Case,
        measure: Callable[[Case], float],
        *,
        precision: Precision = "float32",
        keep: bool = True,
    ) -> None:
        """Time a case; the round that warms up is not kept."""
        seconds = measure(case)
        if keep:
            empty = Series(who, case.name, memo, precision)
            key = (who, case.name, memo)
            self.series.setdefault(key, empty).rounds.append((case, seconds))

    def forget(self, who: str) -> None:
        """Drop what one runner did."""
        self.series = {key: each for key, each in self.series.items() if key[0] != who}

    def of(self, *, peers: bool) -> list[Series]:
        """The peers' series, or ours."""
        return [series for series in self.series.values() if (series.memo == "none") == peers]
