"""Work that is cut into parts gives what it gives in one piece."""

import threading

import pytest

from relmo.runtime.device import MOST_THREADS, in_threads


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1000])
def test_results_come_in_order_and_once(count):
    assert in_threads(lambda rows: [b * b for b in rows], count) == [b * b for b in range(count)]


def test_parts_are_done_side_by_side(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: MOST_THREADS)
    together = threading.Barrier(MOST_THREADS, timeout=10)

    def work(rows: range) -> list[int]:
        together.wait()  # passes only when all parts have begun
        return list(rows)

    assert in_threads(work, 100) == list(range(100))


def test_an_error_in_a_part_is_an_error_of_the_whole():
    def work(rows: range) -> list[int]:
        raise MemoryError(f"{len(rows)} are too many")

    with pytest.raises(MemoryError, match="are too many"):
        in_threads(work, 3)
