"""A progress bar in a terminal, plain lines anywhere else, silence for what is short."""

import io
import time
from contextlib import redirect_stderr, redirect_stdout

import pytest

from relmo.progress import Work, duration, printable, progress, tell, working


class Terminal(io.StringIO):
    """Standard error on a screen."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def fast(monkeypatch):
    """Clocks that run fifty times as fast."""
    for name, seconds in (("FIRST", 0.02), ("EVERY", 0.2), ("TICK", 0.005)):
        monkeypatch.setattr(f"relmo.progress.{name}", seconds)
    time.sleep(0.03)  # a pause, after which work counts anew


def lines_of(do):
    """What is printed on standard error in a pipe."""
    with redirect_stderr(io.StringIO()) as pipe:
        do()
    return pipe.getvalue().splitlines()


def test_the_time_left_is_a_bound_or_nothing_where_work_may_end_early_or_stops():
    work = Work("steps", 10)
    work.started -= 20
    work.advance(5)
    assert str(work) == "steps: 5 of 10 (50%), about 20 s left"
    work.may_end_early = True
    assert str(work) == "steps: 5 of 10 (50%), at most 20 s left"
    work.is_stopping = True
    assert str(work) == "steps: 5 of 10 (50%)"


def test_a_terminal_shows_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as screen:
        assert list(progress(range(3), 3, "lines", show=True)) == [0, 1, 2]
    assert "lines: 0 of 3" in screen.getvalue()


def test_results_do_not_go_where_the_bar_is(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stdout(io.StringIO()) as results, redirect_stderr(Terminal()) as screen:
        for number in progress(range(3), 3, "lines", show=True):
            print(f"result {number}")  # noqa: T201
    assert results.getvalue() == "result 0\nresult 1\nresult 2\n"
    assert "result" not in screen.getvalue()


def test_work_inside_other_work_shares_the_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("relmo.progress.TICK", 0.005)
    with redirect_stderr(Terminal()) as screen, working("training steps", 5) as work:
        work.advance(2)
        with working("sentences", 7):
            pass
        tell("a line of its own")
        time.sleep(0.05)
    shown = screen.getvalue()
    assert "sentences: 0 of 7" in shown
    assert "training steps: 2 of 5" in shown
    assert "a line of its own\n" in shown


def test_a_terminal_without_rich_gets_lines(fast, monkeypatch):
    monkeypatch.setattr("relmo.progress.find_spec", lambda name: None)
    with redirect_stderr(Terminal()) as screen:
        for _ in progress(range(3), 3, "lines", show=True):
            time.sleep(0.05)
    assert screen.getvalue().startswith("relmo: lines: 0 of 3")


@pytest.mark.parametrize("total", [3, None])
def test_short_work_in_a_pipe_says_nothing(total):
    assert lines_of(lambda: list(progress(range(3), total, "lines", show=True))) == []


def test_a_pipe_gets_lines_even_while_one_item_takes_long(fast):
    def work_long():
        with working("sentences", 10) as work:
            work.advance(4)
            time.sleep(0.55)

    started = time.monotonic()
    first, *others, last = lines_of(work_long)
    assert first.startswith("relmo: sentences: 4 of 10 (40%)")
    assert 1 <= len(others) <= (time.monotonic() - started) / 0.2
    assert "about 1 s left" in others[0]
    assert last == "relmo: sentences (4): done in 1 s"


def test_work_that_cannot_be_counted_says_how_long_it_takes(fast):
    def read():
        with working("reading data"):
            time.sleep(0.3)

    lines = lines_of(read)
    assert lines[:2] == ["relmo: reading data ...", "relmo: reading data: 1 s so far"]


def test_many_short_works_are_not_silent_together(fast):
    def evaluate():
        for _ in range(50):
            with working("evaluating"):
                time.sleep(0.01)

    assert "relmo: evaluating ..." in lines_of(evaluate)


def test_lines_of_others_count(fast, monkeypatch):
    monkeypatch.setattr("relmo.progress.EVERY", 3.0)

    def train():
        with working("training steps", 10) as work:
            work.is_announced = True
            for step in range(10):
                tell(f"step {step}")
                time.sleep(0.03)

    assert lines_of(train)[:10] == [f"step {step}" for step in range(10)]


def test_work_bounded_by_time_says_what_is_left():
    work = Work("training steps", done=100)
    work.started -= 60
    work.share, work.detail = 0.2, "loss 3.1"
    assert str(work) == "training steps: 100, loss 3.1, about 4 min left"


def test_what_was_done_before_does_not_count_as_fast():
    work = Work("training steps", 1000, done=500)
    work.started -= 60
    work.advance(100)
    assert str(work) == "training steps: 600 of 1,000 (60%), about 4 min left"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1 s"), (89, "89 s"), (100, "2 min"), (5000, "83 min"), (12000, "3 h 20 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_what_was_not_asked_for_is_not_shown(fast):
    items = progress(range(3), 3, "lines", show=False)
    assert lines_of(lambda: [time.sleep(0.05) for _ in items]) == []


def test_a_closed_standard_error_does_not_end_the_work(fast):
    with redirect_stderr(io.StringIO()) as pipe:
        pipe.close()
        with working("reading data"):
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("naïve 日本 👩\u200d🚀 \u3000.txt", "naïve 日本 👩\u200d🚀 \u3000.txt"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b]0;title\x07\x9b31m\x7f", r"\x1b]0;title\x07\x9b31m\x7f"),
        ("\u2028\u202egnp.exe\u2066", r"\u2028\u202egnp.exe\u2066"),
        (b"\xff".decode(errors="surrogateescape"), r"\udcff"),
    ],
)
def test_a_name_is_shown_as_one_line_that_does_nothing(name, shown):
    assert printable(name) == shown


def test_time_that_passed_before_a_run_was_resumed_does_not_count():
    work = Work("steps", first=0.7)  # of an earlier process
    work.started -= 60
    work.share = 0.75
    assert "about 5 min left" in str(work)
