"""A progress bar in a terminal, nothing anywhere else."""

import io
import sys

from relmo.progress import progress


class Terminal(io.StringIO):
    """Standard error on a screen."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    assert list(progress(range(3), 3, "lines", show=True)) == [0, 1, 2]
    assert "lines" in screen.getvalue()


def test_a_terminal_without_rich_shows_nothing(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("relmo.progress.find_spec", lambda name: None)
    assert list(progress(range(3), 3, "lines", show=True)) == [0, 1, 2]
    assert screen.getvalue() == ""


def test_a_pipe_shows_nothing(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    assert list(progress(range(3), 3, "lines", show=True)) == [0, 1, 2]
    assert pipe.getvalue() == ""


def test_a_bar_that_was_not_asked_for_is_not_shown(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress(range(3), 3, "lines", show=False)) == [0, 1, 2]
    assert screen.getvalue() == ""
