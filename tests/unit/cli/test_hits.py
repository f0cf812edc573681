"""Hits as text: near the best sentence, marked on a terminal, and nothing a terminal obeys."""

import io

import pytest
from rich.console import Console

from relmo.cli.hits import CUT, LINE_CHARACTERS, FlatText, as_line, pieces, reason, show, window
from relmo.search import Explanation, Hit

LONG = " ".join(f"Word {i} stands here." for i in range(60))
ESCAPE = "\x1b"


def hit(text, copies=0):
    return Hit("notes/a.md", "notes/a.md", 7, 0, len(text), 0.5, text, {}, copies)


def why(text, sentence, *words):
    spans = [(text.index(word), text.index(word) + len(word)) for word in words]
    start = text.index(sentence)
    return Explanation((start, start + len(sentence)), tuple(spans), 0.7, 0.3)


def screen(hit, why, width=60):
    written = io.StringIO()
    show(hit, why, Console(file=written, force_terminal=True, width=width, highlight=False))
    return written.getvalue()


@pytest.mark.parametrize("text", ["", " ", "One line.", "Two\n\nlines  and\ttabs. "])
def test_a_short_text_is_shown_whole_as_one_line(text):
    assert as_line(hit(text)) == f"0.5000  notes/a.md:7  {' '.join(text.split())}"


def test_a_long_text_is_cut_at_its_end_while_its_best_sentence_is_near_its_beginning():
    for reasons in (None, why(LONG, "Word 3 stands here.")):
        line = as_line(hit(LONG), reasons).removeprefix("0.5000  notes/a.md:7  ")
        assert line == f"{LONG[: LINE_CHARACTERS - 1]}{CUT}"


def test_else_it_begins_at_the_best_sentence():
    text = f"  {LONG.replace(' stands', chr(10) + '  stands')}\n"
    line = as_line(hit(text), why(text, "Word 30\n  stands here.")).split("  ", 2)[2]
    assert line.startswith("…Word 30 stands here. Word 31")
    assert line.endswith(CUT)
    assert len(line) <= LINE_CHARACTERS


def test_the_end_of_a_text_is_shown_with_what_is_before_it():
    line = as_line(hit(LONG), why(LONG, "Word 59 stands here.")).split("  ", 2)[2]
    assert line.startswith(CUT)
    assert line.endswith("Word 58 stands here. Word 59 stands here.")
    assert LINE_CHARACTERS - 10 < len(line) <= LINE_CHARACTERS


def test_a_sentence_longer_than_a_line_is_shown_from_its_first_word():
    text = f"Short. {'word ' * 99}end."
    line = as_line(hit(text), why(text, text[7:])).split("  ", 2)[2]
    assert line.startswith("…word word")


def test_pieces_are_the_text_with_the_styles_of_sentence_and_words():
    text = "It rains. The bank  lends money. Boats go by."
    flat = FlatText.of(hit(text), why(text, "The bank  lends money.", "bank", "money", "Boats"))
    found = list(pieces(flat, *window(flat, 99)))
    assert "".join(piece for piece, _ in found) == " ".join(text.split())
    styles = {piece.strip(): style for piece, style in found}
    assert styles["bank"] == styles["money"] == styles["Boats"] == "bold magenta"
    assert styles["The"] == styles["lends"] == ""
    assert styles["It rains."] == styles["go by."] == "dim"


def test_a_terminal_shows_the_reasons_and_marks_the_words():
    text = "It rains. The bank lends money."
    shown = screen(hit(text, copies=2), why(text, "The bank lends money.", "bank"))
    assert "words 70 %, meaning 30 %; 2 near-copies left out" in shown
    assert f"{ESCAPE}[1;35mbank{ESCAPE}[0m" in shown
    assert max(map(len, shown.replace(ESCAPE, "").split("\n"))) < 99


def test_one_copy_is_one_copy():
    assert reason(hit("x", 1), Explanation((0, 1), (), 0.0, 1.0)).endswith("; 1 near-copy left out")


def test_a_text_cannot_steer_the_terminal():
    text = f"[bold]The{ESCAPE}]0;title\x07 bank :smile: \u202eabc."
    reason = Explanation((0, len(text)), ((text.index("bank"), text.index("bank") + 4),), 1.0, 0.0)
    shown = screen(hit(text), reason, width=200)
    assert r"[bold]The\x1b]0;title\x07 " in shown
    assert r":smile: \u202eabc." in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert shown.count(ESCAPE) == shown.count(f"{ESCAPE}[")
