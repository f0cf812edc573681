"""A fixed word list and its rows."""

import pytest

from relmo.errors import TextError, TextWarning
from relmo.text.lexicon import Lexicon, script_of

WORDS = ["</S>", "<S>", "<UNK>", "the", "bank"]


def test_words_have_their_line_as_row_and_others_the_unknown_row():
    assert Lexicon(WORDS).rows(["bank", "xyz", "<S>"]).tolist() == [4, 2, 1]
    assert "bank" in Lexicon(WORDS)
    assert "xyz" not in Lexicon(WORDS)


def test_a_word_list_survives_its_file(tmp_path):
    odd = [*WORDS, "a\u2028b", "\x85", "é", "a\rb"]
    Lexicon(odd).write(tmp_path / "vocab.txt")
    assert Lexicon.read(tmp_path / "vocab.txt").words == tuple(odd)


def test_a_file_from_windows_reads_the_same(tmp_path):
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(WORDS).encode())
    assert Lexicon.read(tmp_path / "vocab.txt").words == tuple(WORDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [([*WORDS, "the"], "contains 'the' twice"), (WORDS[1:], "lacks '</S>'"), (["<S>"], "lacks")],
)
def test_a_bad_list_is_refused(words, message):
    with pytest.raises(TextError, match=message):
        Lexicon(words)


def test_a_list_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"<S>\n\xff\n")
    with pytest.raises(TextError, match="not UTF-8 at byte 4"):
        Lexicon.read(tmp_path / "vocab.txt")


# ── scripts ─────────────────────────────────────────────────────────────────────────────────

KOREAN = ["저는", "오늘", "은행", "에", "갔다", "."]
ENGLISH = ["We", "went", "to", "the", "bank", "."]


@pytest.mark.parametrize(
    ("word", "script"),
    [
        ("bank", "Latin"), ("«élan", "Latin"), ("은행", "Hangul"), ("банк", "Cyrillic"),
        ("銀行", "Cjk"), ("3.5", ""), ("", ""), ("😀", ""), ("\ud800", ""),
    ],
)  # fmt: skip
def test_a_word_is_in_the_script_of_its_first_letter(word, script):
    assert script_of(word) == script


def test_text_in_a_script_that_the_words_are_not_in_is_told_once():
    lexicon = Lexicon(WORDS)
    told = r"in Hangul script, .* this model knows are in Latin"
    with pytest.warns(TextWarning, match=told) as said:
        found = list(lexicon.watch([KOREAN, ENGLISH, KOREAN]))
    assert found == [KOREAN, ENGLISH, KOREAN]
    assert len(said) == 1
    lexicon.check_script(KOREAN)  # another warning would be an error


@pytest.mark.parametrize(
    "sentence", [ENGLISH, [], ["."], ["the", "은행", "bank"], ["3", "4"], ["<S>", "banque"]]
)
def test_text_in_its_own_script_is_not_told(sentence):
    Lexicon(WORDS).check_script(sentence)  # a warning would be an error


def test_a_list_without_letters_knows_no_script_and_says_nothing():
    Lexicon(["<S>", "</S>", "<UNK>", "."]).check_script(KOREAN)


def test_a_few_foreign_words_do_not_make_a_script_known():
    lexicon = Lexicon([*WORDS, *(f"w{n}" for n in range(500)), "은행", "한국"])
    assert lexicon.scripts == {"Latin"}
