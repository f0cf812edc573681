"""The tokenizers: their contract on any text, and each convention by example."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relmo.errors import ConfigError, TextError, TextWarning
from relmo.text.tokenize import (
    RelmoTokenizer,
    TreebankTokenizer,
    WhitespaceTokenizer,
    make_tokenizer,
    token_pattern,
    tokenized,
)

ANY_TEXT = st.text(st.characters(), max_size=80)  # lone surrogates, too
PIECES = (
    "a B don n't 's 'll t em O U.S. e.g. Mr. No. J. I. etc Ph.D vol. ii 1 23 90s ' ’ \" ( ) [ ] "
    ". , ; : ! ? - -- — … _ / @ # & % $ + * www. http:// https://x ftp:// .org é e\u0301 "
    "\u0301 \u200d \u200c \u200b \ufe0f \u20e3 \ufeff \x00 \ud800 "
    "한국 韓 の カ ー हि ภา א ш 👍 🏽 👩 🇰 🇷"
)
TRICKY = st.lists(st.sampled_from([*PIECES.split(" "), " ", "\n", "\t", "\u00a0"]), max_size=14)
TRICKY = TRICKY.map("".join)


def words(text, tokenizer=None):
    return [token.text for token in (tokenizer or RelmoTokenizer()).tokens(text)]


def check_examples(examples, *tokenizers):
    """Each line is the text, an arrow, and the tokens with spaces between."""
    for line in examples.strip().splitlines():
        text, _, wanted = line.strip().partition(" -> ")
        for tokenizer in tokenizers or (RelmoTokenizer(), TreebankTokenizer()):
            assert words(text, tokenizer) == wanted.split(), (text, tokenizer.name)


# --- the contract


@pytest.mark.parametrize(
    "tokenizer", [RelmoTokenizer(), TreebankTokenizer(), WhitespaceTokenizer()]
)
@given(text=ANY_TEXT | TRICKY)
@settings(max_examples=150, deadline=None)
def test_every_character_but_white_space_stands_in_exactly_one_token(tokenizer, text):
    tokens = tokenizer.tokens(text)
    end = 0
    for token in tokens:
        assert token.start >= end
        assert not text[end : token.start].strip()
        assert text[token.start : token.end] == token.text != ""
        assert not any(character.isspace() for character in token.text)
        end = token.end
    assert not text[end:].strip()


@pytest.mark.parametrize("tokenizer", [RelmoTokenizer(), TreebankTokenizer()])
@given(text=TRICKY)
@settings(max_examples=150, deadline=None)
def test_shortcut_for_plain_words_changes_no_token(tokenizer, text):
    whole = tokenizer.name == "treebank"
    long_way = [match[0] for match in token_pattern(whole=whole, shortcut=False).finditer(text)]
    assert words(text, tokenizer) == long_way


@given(text=ANY_TEXT)
@settings(max_examples=100, deadline=None)
def test_whitespace_tokenizer_is_str_split(text):
    assert [token.text for token in WhitespaceTokenizer().tokens(text)] == text.split()


def test_offsets_point_into_the_text():
    tokens = RelmoTokenizer().tokens("  Don't\tgo.")
    assert [(t.text, t.start, t.end) for t in tokens] == [
        ("Do", 2, 4),
        ("n't", 4, 7),
        ("go", 8, 10),
        (".", 10, 11),
    ]


@pytest.mark.parametrize("name", ["relmo", "treebank", "whitespace"])
def test_make_tokenizer_knows_it_by_name(name):
    assert make_tokenizer(name).name == name


def test_make_tokenizer_names_the_choices_when_the_name_is_unknown():
    with pytest.raises(ConfigError, match=r"'spacy'.*relmo, treebank, whitespace"):
        make_tokenizer("spacy")


# --- words


def test_contractions_split_as_the_treebank_does():
    check_examples("""
        don't -> do n't
        can't won't ain't -> ca n't wo n't ai n't
        DON'T Didn’t -> DO N'T Did n’t
        it's I'll we've they're I'd I'm -> it 's I 'll we 've they 're I 'd I 'm
        IT'S he’s -> IT 'S he ’s
        who'd've couldn't've -> who 'd 've could n't 've
        cannot -> cannot
        'tis 'Twas -> 't is 'T was
    """)


def test_possessives_split():
    check_examples("""
        the dogs' bones -> the dogs ' bones
        James's the U.S.'s -> James 's the U.S. 's
        "Hamlet"'s -> " Hamlet " 's
        jose\u0301's -> jose\u0301 's
    """)


def test_apostrophes_inside_names_stay():
    check_examples("""
        O'Neill d'Artagnan D’Angelo -> O'Neill d'Artagnan D’Angelo
        o'clock ma'am Qur'an rock'n'roll -> o'clock ma'am Qur'an rock'n'roll
        gov't on't -> gov't on't
        them: get 'em -> them : get 'em
        rock 'n' roll -> rock 'n' roll
    """)


def test_quotes_are_not_taken_for_contractions():
    check_examples("""
        'he said' -> ' he said '
        the 's' and 'd' -> the ' s ' and ' d '
        ‘Stop,’ he -> ‘ Stop , ’ he
        “It’s” -> “ It ’s ”
        ``Go,'' he -> `` Go , '' he
    """)


def test_text_already_split_stays_as_it_is():
    text = "It 's not what they 'd do , is n't it ? `` No . ''"
    assert words(text) == text.split()


def test_hyphenated_words_stand_in_their_parts():
    check_examples(
        """
        a well-known ten-year-old -> a well - known ten - year - old
        U.S.-led Jean-Paul 1914-18 -> U.S. - led Jean - Paul 1914 - 18
        St.-Denis .45-caliber -> St. - Denis . 45 - caliber
        co‑op בית־ספר cafe\u0301-bar -> co ‑ op בית ־ ספר cafe\u0301 - bar
        x-ray's don't-know -> x - ray 's do n't - know
        joe-b@x-y.org http://a-b.org/c-d #a-b -> joe-b@x-y.org http://a-b.org/c-d #a - b
        """,
        RelmoTokenizer(),
    )


def test_hyphenated_words_are_whole_in_the_treebank():
    check_examples(
        """
        a well-known ten-year-old -> a well-known ten-year-old
        U.S.-led Jean-Paul 1914-18 -> U.S.-led Jean-Paul 1914-18
        .45-caliber cafe\u0301-bar -> .45-caliber cafe\u0301-bar
        """,
        TreebankTokenizer(),
    )


def test_joined_words_stay_whole():
    check_examples("""
        pre- and -post U.S.- -> pre - and - post U.S. -
        AT&T R&D a & b -> AT&T R&D a & b
        and/or -> and / or
        Amazon.com Node.js -> Amazon.com Node.js
        end.Next -> end . Next
    """)


def test_underscores_for_emphasis_split_from_the_word():
    check_examples("""
        _very_ good -> _ very _ good
        _don't_ -> _ do n't _
        fill ____ in -> fill ____ in
    """)


# --- numbers


def test_separators_and_units_of_numbers_stand_apart():
    check_examples(
        """
        1,000,000 3.14 12:30 1/2 -> 1 , 000 , 000 3 . 14 12 : 30 1 / 2
        5kg 45.1bn 1080p 3D-printed -> 5 kg 45 . 1 bn 1080 p 3 D - printed
        4x4 B52 H2O v2.0 mp3s -> 4x4 B52 H2O v2 . 0 mp3s
        .45 (.5) formula_1 -> . 45 ( . 5 ) formula _ 1
        ٣٫١٤ -> ٣ ٫ ١٤
        """,
        RelmoTokenizer(),
    )


def test_numbers_with_inner_separators_are_whole_in_the_treebank():
    check_examples(
        """
        1,000,000 3.14 12:30 1/2 2014-15 -> 1,000,000 3.14 12:30 1/2 2014-15
        192.168.0.1 1e-5 v2.0 5kg -> 192.168.0.1 1e-5 v2.0 5kg
        .45 (.5) $.05 -> .45 ( .5 ) $ .05
        snake_case formula_1 -> snake_case formula_1
        ٣٫١٤ -> ٣٫١٤
        """,
        TreebankTokenizer(),
    )


def test_other_numbers_stay_whole():
    check_examples("""
        3rd 225th 1990s '90s m² -> 3rd 225th 1990s '90s m²
        section 1.C of book VII.22 -> section 1.C of book VII.22
        1, 2, and 3. -> 1 , 2 , and 3 .
        1914–1918 -> 1914 – 1918
    """)


def test_signs_and_units_of_numbers_stand_apart():
    check_examples("""
        $5 €350 US$5 -> $ 5 € 350 US $ 5
        5% -5 +5 −5 -> 5 % - 5 + 5 − 5
        5°C 5'10" -> 5 ° C 5 ' 10 "
    """)


# --- periods


def test_abbreviations_keep_their_period():
    check_examples("""
        in the U.S. and e.g. at 5 a.m. sharp -> in the U.S. and e.g. at 5 a.m. sharp
        Mr. Dr. St. etc. vs. Inc. Ph.D. -> Mr. Dr. St. etc. vs. Inc. Ph.D.
        U.S.A St.Petersburg -> U.S.A St. Petersburg
        et al., Ibid., p. 5 -> et al. , Ibid. , p. 5
        etc... -> etc ...
    """)


def test_number_abbreviations_need_a_number():
    check_examples("""
        No. 5 no. 5 No.5 -> No. 5 no. 5 No. 5
        He said no. -> He said no .
        No. It is -> No . It is
        vol. ii -> vol. ii
        Jan. 5 with Jan. -> Jan. 5 with Jan .
    """)


def test_initials_keep_their_period_before_a_name():
    check_examples("""
        J. Smith and J. R. R. Tolkien -> J. Smith and J. R. R. Tolkien
        J.R.R. Tolkien É. Zola -> J.R.R. Tolkien É. Zola
        M. de Laporte E. coli -> M. de Laporte E. coli
        I. M. Pei -> I. M. Pei
        So do I. Alice too. -> So do I . Alice too .
        plan B. -> plan B .
        vitamin C. The end -> vitamin C . The end
    """)


def test_period_at_the_end_of_a_sentence_stands_apart():
    check_examples("""
        He left. She stayed. -> He left . She stayed .
        "He left." -> " He left . "
        It was 1990. -> It was 1990 .
    """)


def test_runs_of_dots_and_dashes_are_one_token():
    check_examples("""
        wait...what -> wait ... what
        a--b --- -> a -- b ---
        so…… — —— -> so …… — ——
        what?! -> what ? !
    """)


# --- addresses and tags


def test_web_addresses_stay_whole_without_what_follows_them():
    check_examples("""
        http://example.com/foo. -> http://example.com/foo .
        (see https://en.wiki.org/A_(b)), -> ( see https://en.wiki.org/A_(b) ) ,
        (www.x.org/a). -> ( www.x.org/a ) .
        [http://a.b/c] "ftp://f.g/h", -> [ http://a.b/c ] " ftp://f.g/h " ,
        https://a.b/c?d=e&f=1,2#g; -> https://a.b/c?d=e&f=1,2#g ;
        https://a.b/Käse HTTP://X.Y! -> https://a.b/Käse HTTP://X.Y !
        http://naver.com에서 http://a.jpで -> http://naver.com 에서 http://a.jp で
        http:// www. -> http : / / www .
    """)


def test_mail_addresses_and_tags_stay_whole():
    check_examples("""
        joe.b+x@example.co.uk. -> joe.b+x@example.co.uk .
        (a@b.org), -> ( a@b.org ) ,
        a@b -> a @ b
        #hashtag @user, #2014wahl (@you) -> #hashtag @user , #2014wahl ( @you )
        #1 C# -> # 1 C #
        #हिन्दी @김철수 -> #हिन्दी @김철수
    """)


# --- scripts


def test_hangul_words_stay_whole():
    check_examples("""
        한국어 문장을 읽는다. -> 한국어 문장을 읽는다 .
        KBS는 2014년에 1000원을 -> KBS는 2014년에 1000원을
        "안녕"이라고 -> " 안녕 " 이라고
    """)


def test_ideographs_stand_alone_and_kana_in_runs():
    check_examples("""
        中国人 人々 〇 -> 中 国 人 人 々 〇
        日本語のテキストをする。 -> 日 本 語 の テキスト をする 。
        ラーメン らーめん ｶﾞｷﾞ -> ラーメン らーめん ｶﾞｷﾞ
        2014年 A型 カ\u3099 -> 2014 年 A 型 カ\u3099
        葛\U000e0100城 𠮷野 -> 葛\U000e0100 城 𠮷 野
    """)


def test_words_keep_their_combining_marks():
    check_examples("""
        हिन्दी में लिखा। -> हिन्दी में लिखा ।
        العَرَبِيَّة مُحَمَّد، -> العَرَبِيَّة مُحَمَّد ،
        שָׁלוֹם צה"ל -> שָׁלוֹם צה"ל
        ภาษาไทยเป็น -> ภาษาไทยเป็น
        e\u0301te\u0301 -> e\u0301te\u0301
        می\u200cخواهم क्\u200dष -> می\u200cخواهم क्\u200dष
        co\u00adop -> co\u00adop
    """)


def test_emoji_are_one_token_each():
    check_examples("""
        👍🏽👩\u200d🚀 -> 👍🏽 👩\u200d🚀
        ok👍ok ❤\ufe0f\u200d🔥☺\ufe0e -> ok 👍 ok ❤\ufe0f\u200d🔥 ☺\ufe0e
        🇰🇷🇺🇸🇫 -> 🇰🇷 🇺🇸 🇫
        1\ufe0f\u20e32\u20e3#\ufe0f\u20e3 -> 1\ufe0f\u20e3 2\u20e3 #\ufe0f\u20e3
        👨\u200d👩\u200d👧\u200d👦👋 -> 👨\u200d👩\u200d👧\u200d👦 👋
    """)
    scotland = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
    assert words(scotland + scotland) == [scotland, scotland]


# --- odd text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        (" \t\r\n\u00a0\u3000", []),
        ("a\r\nb\tc", ["a", "b", "c"]),
        ("\ufeffa\ufeffb", ["\ufeff", "a", "\ufeff", "b"]),
        ("a\x00b\x07", ["a", "\x00", "b", "\x07"]),
        ("foo\u200bbar", ["foo", "\u200b", "bar"]),
        ("a \ud800b\udfff", ["a", "\ud800", "b", "\udfff"]),
        ("\u0301 a \u0301b", ["\u0301", "a", "\u0301", "b"]),
        (".\u0301", [".\u0301"]),
        ("w" * 400 + ".", ["w" * 400, "."]),
        ("\u200fשלום\u200f", ["\u200f", "שלום", "\u200f"]),
    ],
)
def test_odd_text_is_kept_to_the_last_character(text, wanted):
    assert words(text) == wanted


PARTS = "a. A.\t 1, ' a' a+ a@ @a a@b. http:// http://. http://a( _ --a a\u0301 👍\u200d א\""


@pytest.mark.parametrize("part", PARTS.split(" "))
def test_time_grows_with_length_only(part):
    text = part * (100_000 // len(part))
    started = time.process_time()
    words(text)
    assert time.process_time() - started < 2  # about 0.2 s


@pytest.mark.parametrize("text", ["word " * 100_000, "w" * 400_000, "." * 400_000])
def test_long_lines_are_no_trouble(text):
    started = time.process_time()
    assert "".join(words(text)) == text.replace(" ", "")
    assert time.process_time() - started < 4


# --- sentences as users give them


def test_strings_are_split_and_token_lists_are_kept():
    sentences = ["Don't go.", ["a", "token list"], (), np.array(["x", "y"])]
    with pytest.warns(TextWarning, match="sentence 1: 'token list' contains a space"):
        found = list(tokenized(sentences, RelmoTokenizer()))
    assert found == [["Do", "n't", "go", "."], ["a", "token list"], [], ["x", "y"]]


def test_one_string_is_refused_before_anything_is_read():
    with pytest.raises(TextError, match=r"expected a list of sentences, got a string"):
        tokenized("Don't go.", RelmoTokenizer())


@pytest.mark.parametrize("bad", [None, 3, b"bytes", bytearray(b"b"), {"a": 1}, {"a"}])
def test_what_is_no_sentence_is_named_by_its_position(bad):
    with pytest.raises(TextError, match=f"sentence 1 is a {type(bad).__name__}; expected a string"):
        list(tokenized([["a"], bad], RelmoTokenizer()))


def test_a_token_that_is_not_a_string_is_named():
    with pytest.raises(TextError, match=r"sentence 0, token 1 is 3 \(int\)"):
        list(tokenized([["a", 3]], RelmoTokenizer()))
