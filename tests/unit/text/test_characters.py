"""Words -> character ids, to the last id."""

import numpy as np
import pytest

from relmo import CharCnnConfig
from relmo.text.characters import (
    ByteCharacters,
    CodePointCharacters,
    make_characters,
)


def spelled(word: str, characters=None) -> list[int]:
    return (characters or ByteCharacters()).spell([word])[0].tolist()


@pytest.mark.parametrize(
    ("word", "start"),
    [
        ("a", [259, 98, 260]),
        ("<S>", [259, 257, 260]),
        ("</S>", [259, 258, 260]),
        ("é", [259, 0xC3 + 1, 0xA9 + 1, 260]),
        ("", [259, 260]),
        ("\x00", [259, 1, 260]),
    ],
)
def test_the_byte_scheme_spells_as_the_original(word, start):
    assert spelled(word) == start + [261] * (50 - len(start))


def test_a_word_of_48_bytes_fits_and_of_49_is_cut():
    characters = ByteCharacters()
    fits, cut = "x" * 48, "x" * 49
    assert spelled(fits) == [259, *[121] * 48, 260] == spelled(cut)
    assert not characters.is_cut(fits)
    assert characters.is_cut(cut)


def test_a_cut_may_split_a_code_point_as_the_original_does():
    word = "가" * 17  # 51 bytes
    raw = word.encode()[:48]
    assert spelled(word) == [259, *(byte + 1 for byte in raw), 260]
    assert spelled("x" + word)[48] == word.encode()[46] + 1  # 47 bytes of the Hangul are left


def test_half_a_surrogate_pair_has_no_bytes_but_the_word_stays():
    assert spelled("a\ud800b") == spelled("ab")
    assert spelled("\ud800") == spelled("")


def test_no_id_is_the_padding_of_a_batch():
    words = [chr(code) for code in range(0, 0x11000, 97)]
    ids = ByteCharacters().spell(words)
    assert ids.min() >= 1
    assert ids.max() == 261
    assert ids.dtype == np.int64


def test_no_words_give_no_rows():
    assert ByteCharacters().spell([]).shape == (0, 50)


def test_the_code_point_scheme_gives_a_character_one_id():
    characters = CodePointCharacters("가나")
    unknown, padding = 3, 8
    assert spelled("나x", characters)[:4] == [6, 2, unknown, 7]
    assert set(spelled("나x", characters)[4:]) == {padding}
    assert spelled("<S>", characters)[:3] == [6, 4, 7]
    assert spelled("</S>", characters)[:3] == [6, 5, 7]


def test_a_korean_word_that_bytes_cut_is_whole_in_code_points():
    word = "가" * 40
    assert ByteCharacters().is_cut(word)
    assert not CodePointCharacters("가").is_cut(word)


@pytest.mark.parametrize(
    "tail", ["e\u0301", "👩\u200d👩", "👍🏽"], ids=["mark", "joiner", "skin tone"]
)
def test_the_code_point_scheme_never_cuts_inside_a_character(tail):
    characters = CodePointCharacters("x" + tail, max_characters=10)
    word = "x" * (8 - len(tail) + 1) + tail  # one code point too long
    assert characters.is_cut(word)
    ids = spelled(word, characters)
    end = ids.index(characters.end_word)
    assert ids[1:end] == [1] * (8 - len(tail) + 1)


def test_a_word_of_marks_alone_is_cut_somewhere():
    characters = CodePointCharacters("\u0301", max_characters=10)
    assert spelled("\u0301" * 20, characters) == [
        characters.begin_word,
        *[1] * 8,
        characters.end_word,
    ]


def test_settings_choose_the_scheme():
    assert isinstance(make_characters(CharCnnConfig()), ByteCharacters)
    code_points = make_characters(CharCnnConfig(scheme="code_points", alphabet="a"))
    assert isinstance(code_points, CodePointCharacters)


@pytest.mark.parametrize("scheme", ["bytes", "code_points"])
def test_the_last_id_is_the_padding_inside_a_word(scheme):
    config = CharCnnConfig(scheme=scheme, alphabet="ab" if scheme == "code_points" else "")
    assert make_characters(config).padding == config.num_ids - 1
