"""A fixed word list and its rows."""

import pytest

from relmo.errors import TextError
from relmo.text.lexicon import Lexicon

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
