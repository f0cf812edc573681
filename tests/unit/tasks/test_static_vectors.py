"""Files of static vectors: what is read, what is passed over, what is refused and where."""

import gzip
import lzma

import numpy as np
import pytest

from relmo.errors import ConfigError, DataError, TextError
from relmo.tasks.static_vectors import read_vectors

GLOVE = "the 0.5 -1 2e-1\ncat 1 2 3\nnaïve 4 5 6\n😀 7 8 9\nThe 9 9 9\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="vectors.txt", pack=bytes):
        path = tmp_path / name
        path.write_bytes(pack(text if isinstance(text, bytes) else text.encode()))
        return path

    return write


def vectors(path, *words):
    """The vector of each word, as lists; the file is read for these words alone."""
    found = read_vectors(path, set(words))
    return found.table[found.rows(words)].tolist()


def test_a_glove_file_gives_the_vectors_of_the_wanted_words_alone(write):
    found = read_vectors(write(GLOVE), {"cat", "😀", "naïve", "dog"})
    assert found.words == ["cat", "naïve", "😀"]
    assert found.table.shape == (5, 3)
    assert found.table.dtype == np.float32
    assert found.table[2:].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


@pytest.mark.parametrize("header", ["5 3\n", "5 3 \r\n"])
def test_the_first_line_of_word2vec_is_no_word(write, header):
    assert vectors(write(header + GLOVE), "cat", "5")[0] == [1, 2, 3]
    assert read_vectors(write(header + GLOVE), {"cat", "5"}).words == ["cat"]


def test_a_line_may_end_in_a_space_and_in_a_carriage_return(write):
    assert vectors(write("2 3\r\ncat 1 2 3 \r\ndog 4 5 6 \r\n"), "dog") == [[4, 5, 6]]


@pytest.mark.parametrize(("name", "pack"), [("v.txt.gz", gzip.compress), ("v.XZ", lzma.compress)])
def test_a_packed_file_is_read_as_it_is(write, name, pack):
    assert vectors(write(GLOVE, name, pack), "cat") == [[1, 2, 3]]


def test_a_word_is_looked_up_as_it_is_written_then_in_lower_case(write):
    found = read_vectors(write(GLOVE), {"THE", "The", "Cat", "NAÏVE"})
    the, capital, cat, naive, unknown = found.rows(["THE", "The", "Cat", "NAÏVE", "Dog"])
    assert found.table[the].tolist() == pytest.approx([0.5, -1, 0.2])
    assert found.table[capital].tolist() == [9, 9, 9]
    assert found.table[cat].tolist() == [1, 2, 3]
    assert found.table[naive].tolist() == [4, 5, 6]
    assert unknown == 1


def test_padding_is_zero_and_the_unknown_word_is_like_the_others(write):
    found = read_vectors(write(GLOVE), {"cat", "naïve"})
    assert not found.table[0].any()
    assert found.table[1].any()
    assert np.abs(found.table[1]).max() < 5 * found.table[2:].std()
    assert found.rows([]).shape == (0,)


def test_of_a_word_that_stands_twice_the_first_counts(write):
    assert vectors(write("a 1 2\nb 3 4\na 5 6\n"), "a", "b") == [[1, 2], [3, 4]]


def test_a_word_with_spaces_is_passed_over(write):
    text = "a 1 2\n. . . 3 4\nat name@domain.com 5 6\nat 7 8\n. 9 10\n"
    assert vectors(write(text), "at", ".") == [[7, 8], [9, 10]]


def test_a_no_break_space_is_part_of_its_word(write):
    assert vectors(write("1\xa0000 1 2\n1 3 4\n"), "1\xa0000", "1") == [[1, 2], [3, 4]]


def test_bytes_that_are_no_utf8_spoil_their_own_word_alone(write):
    assert vectors(write(b"\xff\xfe 1 2\ncat 3 4\n"), "cat") == [[3, 4]]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("cat 1 2", "expected 3 numbers as in line 1, got 2"),
        ("cat 1 2 3 4", "expected 3 numbers as in line 1, got 4"),
        ("cat", "expected 3 numbers as in line 1, got 0"),
        ("cat 1 2 x", "could not convert .*x.*; expected a word and its numbers"),
        ("cat 1 2 nan", "a number is NaN, infinite or beyond"),
        ("cat 1 -inf 3", "a number is NaN, infinite or beyond"),
        ("cat 1 2 9e29", "a number is NaN, infinite or beyond"),
    ],
)
def test_a_bad_line_is_named_with_file_and_number(write, line, what):
    with pytest.raises(DataError, match=rf"vectors\.txt, line 2: {what}"):
        read_vectors(write(f"the 1 2 3\n{line}\n"), {"cat"})


def test_a_first_line_without_numbers_is_named(write):
    with pytest.raises(DataError, match="line 1: no numbers; expected a word, a space and its"):
        read_vectors(write("the\ncat 1 2\n"), {"cat"})


@pytest.mark.parametrize("text", ["the 1 2 3\n", "", b"\x80\x81 \x00\n"])
def test_a_file_without_any_known_word_is_refused(write, text):
    with pytest.raises(DataError, match="no vector of any word in the data|no numbers"):
        read_vectors(write(text), {"cat"})


def test_a_file_that_is_not_there_or_is_torn_is_a_named_error(write, tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.txt: no such file"):
        read_vectors(tmp_path / "gone.txt", {"cat"})
    torn = write(gzip.compress(GLOVE.encode() * 50)[:-20], "torn.gz")
    with pytest.raises(TextError, match=r"torn\.gz: cannot be read .*; is the file complete"):
        read_vectors(torn, {"dog"})


@pytest.mark.parametrize("header", ["", "4 2\n"])
def test_the_first_words_of_a_file_can_be_kept_besides(tmp_path, header):
    path = tmp_path / "vectors.txt"
    path.write_text(f"{header}the 1 2\nof 3 4\ncat 5 6\ndog 7 8\n")
    assert read_vectors(path, {"dog"}, first=2).words == ["the", "of", "dog"]
    assert read_vectors(path, {"dog"}).words == ["dog"]
    assert read_vectors(path, {"zebra"}, first=9).words == ["the", "of", "cat", "dog"]
