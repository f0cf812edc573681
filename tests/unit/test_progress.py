"""A progress bar in a terminal, nothing anywhere else."""

import io
import sys

import pytest

from relmo.progress import printable, progress


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
