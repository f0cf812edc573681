"""Turn text into words: split a string into tokens with offsets, or check a list of tokens.

    RelmoTokenizer().tokens("Don't go.")                      ->  Do  n't  go  .
    tokenized(["Don't go.", ["A", "list"]], RelmoTokenizer())  ->  the words of each sentence

All tokenizers keep one contract: tokens come in order and never overlap, `text[start:end]` is the
token, no token contains white space, and every other character is in exactly one token. White space
is what `str.isspace` says, so zero-width spaces, byte order marks and control characters become
tokens. Nothing is dropped or changed, and the time is linear in the length of the text.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from relmo.config import check_choice
from relmo.errors import TextError, TextWarning
from relmo.types import Token

Sentence = str | Sequence[str]
"""One sequence: a string, which the model's tokenizer splits, or a list of tokens."""

TITLES = "Mr Mrs Ms Mme Mlle Messrs Dr Drs Prof Rev Hon Fr St Ste Mt " + (
    "Gen Col Maj Capt Lt Sgt Cpl Pvt Adm Cmdr Gov Sen Rep Pres Supt"
)
"""Abbreviations before a name: their period never ends a sentence."""

MID_SENTENCE = "vs v viz op cf Cf esp approx incl resp lit"
"""Abbreviations before any word: their period never ends a sentence either."""

MAY_END = "etc al Inc Corp Ltd Co Bros Jr Sr Esq Ave Blvd Rd Dept Univ Ph.D M.Sc B.Sc " + (
    "oz lb lbs ft ibid Ibid cit Feb Apr Aug Sept Oct Nov Dec"
)
"""Abbreviations whose period may also end the sentence."""

BEFORE_NUMBER = "No Nos no nos Vol vol Vols vols Ch ch Chap chap Fig fig Figs figs FIG Art art " + (
    "Sec sec Op p pp pg col fol ll c ca b d r fl Rs Jan Mar Jun Jul Sep"
)
"""Abbreviations only if a number follows: `No. 5`, but `He said no.`"""

STARTERS = "The This These That There I It He She They We You A An His Her Its Their Our My " + (
    "Some Many Most In On At As For From To With By After Before During When While Since "
    "If Although But And However Then What"
)
"""Words that start a sentence more often than they follow an abbreviation inside one."""


class Tokenizer(ABC):
    """Splits text into tokens, the matches of one regular expression."""

    name: str
    """The name that `make_tokenizer` accepts."""

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of the text, in order."""
        return [Token(m[0], m.start(), m.end()) for m in self._pattern().finditer(text)]

    @abstractmethod
    def _pattern(self) -> re.Pattern[str]:
        """The pattern of one token."""


class WhitespaceTokenizer(Tokenizer):
    """Splits at white space, as `str.split` does: for text that is already tokenized."""

    name = "whitespace"

    def _pattern(self) -> re.Pattern[str]:
        return re.compile(r"\S+")


class TreebankTokenizer(Tokenizer):
    """Splits much like the Penn Treebank, in every script, without changing a character.

    It differs in these points. Hyphenated words, dotted abbreviations and numbers with separators
    are one token; signs and currency symbols are tokens of their own (`- $ 5 %`). En dashes split
    (`1914 – 1918`); slashes split words but not digits. Underscores inside a word stay, underscores
    around it (`_so_`) are split off. A period before a lower-case letter stays in the word
    (`Amazon.com`), before a capital it splits. Words in Hangul and in scripts without spaces, such
    as Thai, are one token; each Han ideograph is one; so is each run of Hiragana or Katakana.
    Combining marks and joiners belong to the character before them.
    """

    name = "treebank"

    def _pattern(self) -> re.Pattern[str]:
        return token_pattern()


class RelmoTokenizer(Tokenizer):
    """Splits like `TreebankTokenizer`, and compounds into their parts.

    Hyphens, underscores, separators inside numbers and units become tokens: `well - known`,
    `1 , 000 . 5`, `5 kg`; `3rd` and `1990s` stay whole. New compounds are formed all the time, from
    known parts: with split compounds, a vocabulary of 100,000 words misses a fifth fewer of the
    words of English Wikipedia.
    """

    name = "relmo"

    def _pattern(self) -> re.Pattern[str]:
        return token_pattern(whole=False)


def make_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer with this name: "relmo", "treebank" or "whitespace"."""
    known = {each.name: each for each in (RelmoTokenizer, TreebankTokenizer, WhitespaceTokenizer)}
    check_choice("tokenizer", name, known)
    return known[name]()


def tokenized(sentences: Iterable[Sentence], tokenizer: Tokenizer) -> Iterator[list[str]]:
    """The words of each sentence: strings are split by the tokenizer, token lists are checked."""
    check_sentences(sentences)
    return (words_of(each, number, tokenizer) for number, each in enumerate(sentences))


def check_sentences(sentences: Iterable[Sentence]) -> None:
    """Raise TextError for a single string, which would be read letter by letter, and for no list.

    See `how_to_list`.
    """
    if isinstance(sentences, str):
        raise TextError("expected a list of sentences, got a string; pass [text] instead")
    if (advice := how_to_list(sentences)) is not None:
        kind = type(sentences).__name__
        raise TextError(f"expected a list of sentences, got {kind}; {advice}")


def how_to_list(given: object) -> str | None:
    """What to do with what is no list of texts, though most of it can be iterated over.

    A table would give its column names and a mapping its keys, bytes give numbers, and a set has no
    order. None for lists, tuples, columns of a table, arrays, generators and the like.
    """
    if isinstance(given, list | tuple):
        return None
    if hasattr(given, "columns"):  # of pandas, polars, pyarrow
        return "select a column, for example df['text']"
    if isinstance(given, Mapping):
        return "pass list(d.values()), or the entry that contains the texts"
    if isinstance(given, bytes | bytearray):
        return "decode it to a string first"
    if isinstance(given, Set):
        return "pass a list, which has an order"
    is_many = isinstance(given, Iterable) and getattr(given, "ndim", 1) != 0
    return None if is_many else "pass a list of strings"


def is_missing(value: object) -> bool:
    """Whether a value is what tables hold where there is none: None, NaN, pandas' NA and NaT."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def words_of(sentence: Sentence, number: int, tokenizer: Tokenizer) -> list[str]:
    """The words of one sentence, checked; error messages and warnings call it `number`."""
    if isinstance(sentence, str):
        return [token.text for token in tokenizer.tokens(sentence)]
    return checked_words(sentence, number)


def checked_words(sentence: Iterable[str], number: int, *, may_split: bool = False) -> list[str]:
    """The words of a token list; TextError if it is none, or holds what is no string.

    A word with a space in it is warned about, unless words may be split further.
    """
    if how_to_list(sentence) is not None:
        advice = "; drop missing values, or replace them by ''" if is_missing(sentence) else ""
        raise TextError(
            f"sentence {number} is a {type(sentence).__name__}; "
            f"expected a string or a list of strings{advice}"
        )
    words = list(sentence)
    try:
        if " ".join(words).split() == words:  # the usual case, checked in one fast step
            return words
    except TypeError:
        position, word = next((i, w) for i, w in enumerate(words) if not isinstance(w, str))
        raise TextError(
            f"sentence {number}, token {position} is {word!r} ({type(word).__name__}); "
            f"a sentence is a string or a list of strings"
        ) from None
    spaced = next((word for word in words if word.split() != [word] and word), None)
    if spaced is not None and not may_split:
        warn_caller(
            f"sentence {number}: {spaced!r} contains a space and is embedded as one token; pass "
            f"the text as a string to have it tokenized, or split it yourself"
        )
    return words


def warn_caller(message: str) -> None:
    """Warn with the location of the first caller outside the library, who passed the text."""
    library = str(Path(__file__).parents[1])
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(library) or "site-packages" in frame.f_code.co_filename
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, TextWarning, stacklevel=level)


# Character classes that `re` lacks, each written to go between the brackets of a pattern.

HAN = "\u3005\u3007\u3021-\u3029\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
HIRAGANA = "ぁ-ゖゝ-ゟー\U0001b001-\U0001b11f\U0001b150-\U0001b152"
KATAKANA = "ァ-ヺー-ヿㇰ-ㇿｦ-ﾟ\U0001aff0-\U0001b000\U0001b120-\U0001b122\U0001b164-\U0001b167"
"""ー lengthens vowels in both kana, so both classes contain it."""

CAPITAL = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĘĚĢĪĶĹĽŁĻŃŇŅŌŐŒŔŘŚŠŞŤŪŮŰŹŻŽΑ-ΩЀ-Я"
"""Capitals that are common as initials; `re` has no class for all of them."""

PICTOGRAPH = "©®‼⁉™↔-↪⌀-⏿Ⓜ▪-◿☀-➿⤴⤵⬀-⯿〰〽㊗㊙\U0001f000-\U0001faff"
"""Characters that may be emoji. Wide on purpose: each would be a token of its own anyway."""

FLAG_LETTER = "\U0001f1e6-\U0001f1ff"
SKIN_TONE = "\U0001f3fb-\U0001f3ff"
TAG = "\U000e0020-\U000e007f"
"""Invisible letters that distinguish the flags of regions: 🏴󠁧󠁢󠁳󠁣󠁴󠁿."""


# One pattern, read from top to bottom: the first alternative that matches wins, and one of them
# matches at every character that is not white space. The time is linear because each alternative is
# bounded or looks only a little beyond its match. Repeated classes are possessive (`++`). Repeated
# groups are not, because Python 3.11.0 to 3.11.4 get those wrong; nothing after one can fail.

_CLITIC = r"(?i:s|m|d|ll|re|ve)(?![^\W_])"
_URL = r"0-9A-Za-zÀ-ӿ_\-~/\#&=+%@*$|"


@cache
def token_pattern(*, whole: bool = True, shortcut: bool = True) -> re.Pattern[str]:
    """Compile the pattern of one token.

    Args:
        whole: Keep a compound as one token; otherwise each of its parts is a token.
        shortcut: Try plain English words first, which saves time and changes no token.
    """
    plain = r"[A-Za-z]++(?![^\s,;]) |" if shortcut else ""
    letter = rf"[^\W_{HAN}{HIRAGANA}{KATAKANA}]"  # digits included
    hyphen, tail, separator = r"\-‐‑־", r"(?:-\w++)*", r"(?<=\d)[.,:/٫٬](?=\d)"
    underscore, point = r"_++", r"(?<![^\s(\[$£€¥+\-−<>=~])\.\d++\w*+"
    nowhere = unit = r"(?!)"
    if not whole:
        hyphen, tail, separator, underscore, point = "", "", nowhere, nowhere, nowhere
        unit = r"\d++(?=[A-Za-z]++(?!\w))(?!(?:s|st|nd|rd|th)(?!\w))"
    extend, capital, emoji = _extenders(), CAPITAL, PICTOGRAPH
    pattern = rf"""
{plain}                                                    # most English words
(?:
  (?=\w)(?:                                                # --- starts like a word
    [0-9]\ufe0f?\u20e3                                     # keycap: 1️⃣
  | (?i:https?://|ftp://|www\.)(?=\w) (?: [{_URL}]++       # web address: www.a.org/b_(c)
      | [.,;:!?']++(?=[{_URL}])                            #   punctuation, except at the end
      | \([^\s()<>"]*+\) | \[[^\s\[\]<>"]*+\] )+           #   brackets, only in pairs
  | [A-Za-z0-9][A-Za-z0-9._%+\-]{{0,63}}+                  # e-mail address: a.b@c.org
      @(?:[A-Za-z0-9\-]{{1,63}}+\.)+[A-Za-z]{{2,63}}
  | [^\W\d_]\.(?=[^\W\d_](?!\w)) (?:[^\W\d_]\.)*           # U.S. e.g. U.S.-led
      (?:[^\W\d_](?!\w))? {tail}
  | (?=[A-Za-z]{{1,8}}+\.|[{capital}]\.) (?:
        (?:{_any_of(TITLES, MID_SENTENCE, MAY_END)})\.(?!\.)  # Mr. etc.
      | (?:{_any_of(BEFORE_NUMBER)})\.(?=\s?(?:\d|[ivx]{{2,}}\b))  # No. 5, vol. ii
      | (?!I\.\s*+[{capital}](?!\.))                       # not: So do I. Alice ...
        (?!.\.\s++(?:{_any_of(STARTERS)})(?![\w.]))        # not: vitamin C. The ...
        [{capital}]\.(?=\s*+[^\W\d_])                      # initial: J. Smith
      | [A-Za-z]{{1,8}}+\.(?=[,;])                         # Ibid., p. 5
    ) {tail}
  | (?i:(?=[a-z]{{3,}}+['’]t)[a-z]{{2,}}(?=n['’]t(?![^\W_])))  # do|n't
  | (?i:n['’]t(?![^\W_]))
  | _++
  | {unit}                                                 # 5|kg, but 3rd and 90s
  | (?: [{extend}]*+ (?:                                   # word or number; inside it:
        [{hyphen}·&]                                       #   well-known AT&T
      | {underscore}                                              #   snake_case
      | {separator}                                        #   1,000.5 12:30 1/2
      | \.(?=[a-z])                                        #   Amazon.com
      | (?<=\d)\.(?=[A-Z](?!\w)) | (?<=[A-Z])\.(?=\d)      #   section 1.C, book VII.22
      | ['’](?=[^\W\d_])(?!{_CLITIC})                      #   O'Neill, not it's
      | (?<=[א-ת])["״׳](?=[א-ת])                           #   צה"ל
    )? {letter}++ )+
  | [{HIRAGANA}]++
  | [{KATAKANA}]++
  | \w                                                     # an ideograph, the only case left
  )
| ['’](?:                                                  # --- starts with an apostrophe
    (?<=[^\s(\[{{“‘'’—–\-]['’]){_CLITIC}                   # it|'s
  | (?<!\S['’]){_CLITIC}(?!\S)                             # the same in text already split: it 's
  | (?<!\w['’])(?i:t(?=(?:is|was|were|will|would)(?!\w)))  # 't|is
  | (?<!\w['’])(?i:em|til|neath|twixt|gainst|\d0s|n['’])(?!\w)  # 'em '90s rock 'n' roll
  )
| {point}{tail}                                            # .45
| (?<!\w)[@\#]\d*+[^\W\d][\w{extend}]*+                    # @user #hashtag
| [\#*]\ufe0f?\u20e3                                       # keycap: #️⃣
| [{FLAG_LETTER}]{{2}}                             # flag: 🇰🇷
| [{emoji}] (?: [{extend}{SKIN_TONE}{TAG}]++  # emoji: 👍🏽 👩‍🚀
              | (?<=\u200d)[{emoji}] )*
| \.{{2,}}+ | -{{2,}}+ | —++ | …++ | '' | ``               # runs; Treebank quotes
| \S                                                       # any other single character
)[{extend}]*+"""
    return re.compile(pattern, re.VERBOSE)


def _any_of(*lists: str) -> str:
    """A pattern that matches any word of the lists."""
    return "|".join(re.escape(word) for words in lists for word in words.split())


# All combining marks are in these ranges; scanning all 1.1 million code points would be slow.
_MARK_RANGES = (0x0300, 0x3100), (0xA660, 0xAC00), (0xFB00, 0x1E950), (0xE0100, 0xE01F0)


@cache
def _extenders() -> str:
    """What attaches to the character before: combining marks, ZWNJ, ZWJ, the soft hyphen."""
    ranges: list[list[int]] = []
    for first, past in _MARK_RANGES:
        for code in range(first, past):
            if unicodedata.category(chr(code))[0] != "M":
                continue
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return f"{marks}\u200c\u200d\u00ad"
