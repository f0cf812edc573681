"""What series of times say."""

from relmo.lab.bench.cases import Case
from relmo.lab.bench.memory import peak_mb
from relmo.lab.bench.others import Others
from relmo.lab.bench.rounds import MIN_ROUNDS, rounds
from relmo.lab.bench.speed import Book, ratios
from relmo.lab.bench.work import Rates
from tests.conftest import tiny_config

CASE = Case("batch of 1", [[["a", "b"]]])


def filled(ours: list[float], theirs: list[float]) -> Book:
    book = Book()
    for fast, slow in zip(ours, theirs, strict=True):
        book.add("relmo", "cold", CASE, lambda _, fast=fast: fast)
        book.add("peer", "none", CASE, lambda _, slow=slow: slow)
    return book


def test_the_round_that_warms_up_is_not_kept():
    book = Book()
    book.add("relmo", "cold", CASE, lambda _: 9.0, keep=False)
    assert book.series == {}


def test_a_ratio_is_the_median_of_rounds_on_the_same_sentences():
    book = filled([1.0, 2.0, 1.0], [10.0, 8.0, 3.0])
    (row,) = ratios(book.of(peers=False), book.of(peers=True))
    assert (row["who"], row["peer"], row["times_faster"]) == ("relmo", "peer", 4.0)
    book.forget("peer")
    assert book.of(peers=True) == []


def test_a_series_tells_medians_and_their_spread():
    (series,) = filled([1.0, 4.0, 2.0], [1.0] * 3).of(peers=False)
    found = series.to_dict()
    assert found["tokens_per_second"] == 1.0
    assert found["lowest_and_highest"] == [0.5, 2.0]
    assert found["milliseconds_per_call"] == 2000.0


def test_a_slower_run_reaches_less_of_the_floor():
    fast, slow = (
        filled([seconds], [1.0])
        .of(peers=False)[0]
        .fraction_of_floor(tiny_config(), Rates(1e9, 1e9))
        for seconds in (1.0, 2.0)
    )
    assert fast == 2 * slow > 0


def test_there_are_three_rounds_at_least_and_more_while_time_is_left():
    times = iter(range(100))
    assert list(rounds(0.1, lambda: float(next(times)))) == list(range(MIN_ROUNDS + 1))
    times = iter(range(100))
    assert len(list(rounds(10.0, lambda: float(next(times))))) > 10


def test_a_process_holds_some_memory():
    assert 10 < peak_mb() < 10**6


def test_our_own_work_is_not_that_of_others():
    others = Others()
    sum(range(10**6))
    found = others.cores()
    assert found is None or 0 <= found < 1000
