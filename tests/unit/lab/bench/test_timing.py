"""Rounds, series of times and what they say."""

import os

from relmo.lab.bench import timing
from relmo.lab.bench.floor import MachineRates, fraction_of_floor
from relmo.lab.bench.sentences import Case
from relmo.lab.bench.timing import (
    MIN_ROUNDS,
    SpeedBook,
    interleave,
    rounds,
    speed_ratios,
    watch_others,
)
from tests.conftest import tiny_config

CASE = Case("batch of 1", [[["a", "b"]]])


def filled(ours: list[float], theirs: list[float]) -> SpeedBook:
    book = SpeedBook()
    for fast, slow in zip(ours, theirs, strict=True):
        book.add("relmo", "cold", CASE, fast)
        book.add("peer", "none", CASE, slow)
    return book


def test_a_ratio_is_the_median_of_rounds_on_the_same_sentences():
    book = filled([1.0, 2.0, 1.0], [10.0, 8.0, 3.0])
    ours, theirs = book.values()
    (row,) = speed_ratios([ours], [theirs])
    assert (row["who"], row["peer"], row["times_faster"]) == ("relmo", "peer", 4.0)


def test_a_series_tells_medians_and_their_spread():
    series, _ = filled([1.0, 4.0, 2.0], [1.0] * 3).values()
    found = series.to_dict()
    assert found["tokens_per_second"] == 1.0
    assert found["lowest_and_highest"] == [0.5, 2.0]
    assert found["milliseconds_per_call"] == 2000.0


def test_a_slower_run_reaches_less_of_the_floor():
    fast, slow = (
        fraction_of_floor(
            next(iter(filled([seconds], [1.0]).values())), tiny_config(), MachineRates(1e9, 1e9)
        )
        for seconds in (1.0, 2.0)
    )
    assert fast == 2 * slow > 0


def test_there_are_three_rounds_at_least_and_more_while_time_is_left():
    times = iter(range(100))
    assert list(rounds(0.1, lambda: float(next(times)))) == list(range(MIN_ROUNDS + 1))
    times = iter(range(100))
    assert len(list(rounds(10.0, lambda: float(next(times))))) > 10


def test_tasks_take_turns_and_the_warm_up_is_dropped():
    calls = []
    tasks = {name: lambda name=name: calls.append(name) or len(calls) for name in "ab"}
    found = interleave(1e-9, tasks)
    assert calls == ["a", "b"] * (MIN_ROUNDS + 1)
    assert found == {"a": [3, 5, 7], "b": [4, 6, 8]}


def test_only_other_programs_count(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "STAT", tmp_path / "stat")
    assert watch_others()() is None
    ticks = os.sysconf("SC_CLK_TCK")
    for seconds, busy, own in ((10, 0, 5.0), (12, 3 * ticks, 6.0)):
        (tmp_path / "stat").write_text(f"cpu {busy} 0 0 999 99 0 0 0\n")
        monkeypatch.setattr(timing.time, "perf_counter", lambda seconds=seconds: float(seconds))
        monkeypatch.setattr(timing.os, "times", lambda own=own: (own, 0.0, 0.0, 0.0, 0.0))
        if seconds == 10:
            others = watch_others()
    assert others() == 1.0  # of 3 busy seconds in 2, one was our own
