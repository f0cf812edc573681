"""Split text into words, each with its place in the text.

    RelmoTokenizer().tokens("Don't go.")  ->  Do  n't  go  .

Every tokenizer keeps one contract: tokens stand in order and never overlap, `text[start:end]` is
the token, no token holds white space, and every other character stands in exactly one token. White
space is what `str.isspace` says. Zero-width spaces, byte order marks and control characters are
therefore tokens; nothing is dropped or changed, and the time taken grows with the text's length.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Protocol

from relmo.errors import ConfigError
from relmo.text import unicode_classes as classes
from relmo.types import Token

TITLES = "Mr Mrs Ms Mme Mlle Messrs Dr Drs Prof Rev Hon Fr St Ste Mt " + (
    "Gen Col Maj Capt Lt Sgt Cpl Pvt Adm Cmdr Gov Sen Rep Pres Supt"
)
"""Abbreviations before a name: their period never ends a sentence."""

MID_SENTENCE = "vs v viz op cf Cf esp approx incl resp lit"
"""Abbreviations before any word: nor does theirs."""

MAY_END = "etc al Inc Corp Ltd Co Bros Jr Sr Esq Ave Blvd Rd Dept Univ Ph.D M.Sc B.Sc " + (
    "oz lb lbs ft ibid Ibid cit Feb Apr Aug Sept Oct Nov Dec"
)
"""Abbreviations whose period may be the sentence's, too."""

BEFORE_NUMBER = "No Nos no nos Vol vol Vols vols Ch ch Chap chap Fig fig Figs figs FIG Art art " + (
    "Sec sec Op p pp pg col fol ll c ca b d r fl Rs Jan Mar Jun Jul Sep"
)
"""Abbreviations only where a number follows: `No. 5`, but `He said no.`"""

STARTERS = "The This These That There I It He She They We You A An His Her Its Their Our My " + (
    "Some Many Most In On At As For From To With By After Before During When While Since "
    "If Although But And However Then What"
)
"""Words that more often begin a sentence than follow an abbreviation within one."""


class Tokenizer(Protocol):
    """Anything that splits text into tokens and keeps the contract above."""

    name: str
    """What `make_tokenizer` knows it by."""

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of the text, in order."""
        ...


class WhitespaceTokenizer:
    """Takes what stands between white space, as `str.split` does: for text already split."""

    name = "whitespace"

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of the text, in order."""
        return [Token(m[0], m.start(), m.end()) for m in re.finditer(r"\S+", text)]


class TreebankTokenizer:
    """Splits close to the Penn Treebank, in every script, without changing a character.

    Where usage differs: hyphenated words, dotted abbreviations and numbers with inner separators
    are whole, signs and units of money apart (`- $ 5 %`), en dashes split (`1914 – 1918`), slashes
    split words but not digits. Underscores inside a word stay, those around it (`_so_`) do not. A
    period before a lower-case letter stays inside (`Amazon.com`), before a capital it splits.
    Words of Hangul and of scripts without spaces, such as Thai, are whole; Han ideographs stand
    alone; Hiragana and Katakana stand in runs. Marks and joiners belong to what is before them.
    """

    name = "treebank"

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of the text, in order."""
        return [Token(m[0], m.start(), m.end()) for m in _pattern().finditer(text)]


class RelmoTokenizer:
    """Splits as `TreebankTokenizer` does, and compounds into their parts.

    Hyphens, underscores, separators within numbers and units stand apart: `well - known`,
    `1 , 000 . 5`, `5 kg`, but `3rd` and `1990s` are whole.
    Compounds are without number, their parts are not: a vocabulary of 100,000 words misses a fifth
    fewer of the words of English Wikipedia.
    """

    name = "relmo"

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of the text, in order."""
        return [Token(m[0], m.start(), m.end()) for m in _pattern(whole=False).finditer(text)]


def make_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of that name: "relmo", "treebank" or "whitespace"."""
    kinds: tuple[type[Tokenizer], ...] = (RelmoTokenizer, TreebankTokenizer, WhitespaceTokenizer)
    known = {each.name: each for each in kinds}
    if name not in known:
        raise ConfigError(f"no tokenizer is called {name!r}; choose one of {', '.join(known)}")
    return known[name]()


# What follows is one pattern, read from top to bottom: the first alternative that fits wins. It
# matches at every character that is not white space. Time stays linear because an alternative is
# bounded or looks little further than it takes. Repeats of a class are possessive (`++`); repeats
# of a group are not, since Python 3.11.0 to 3.11.4 get those wrong, but nothing after one can fail.

_CLITIC = r"(?i:s|m|d|ll|re|ve)(?![^\W_])"
_URL = r"0-9A-Za-zÀ-ӿ_\-~/\#&=+%@*$|"


@cache
def _pattern(*, whole: bool = True, shortcut: bool = True) -> re.Pattern[str]:
    """Return the pattern of one token; the shortcut saves time and changes no token.

    Args:
        whole: compounds are one token; else their parts are.
        shortcut: plain words of English are taken first.
    """
    plain = r"[A-Za-z]++(?![^\s,;]) |" if shortcut else ""
    letter = rf"[^\W_{classes.HAN}{classes.HIRAGANA}{classes.KATAKANA}]"  # a digit is one, too
    hyphen, tail, separator = r"\-‐‑־", r"(?:-\w++)*", r"(?<=\d)[.,:/٫٬](?=\d)"
    underscore, point = r"_++", r"(?<![^\s(\[$£€¥+\-−<>=~])\.\d++\w*+"
    nowhere = unit = r"(?!)"
    if not whole:
        hyphen, tail, separator, underscore, point = "", "", nowhere, nowhere, nowhere
        unit = r"\d++(?=[A-Za-z]++(?!\w))(?!(?:s|st|nd|rd|th)(?!\w))"
    extend, capital, emoji = classes.extenders(), classes.CAPITAL, classes.PICTOGRAPH
    pattern = rf"""
{plain}                                                    # most words of English
(?:
  (?=\w)(?:                                                # --- begins as a word does
    [0-9]\ufe0f?\u20e3                                     # keycap: 1️⃣
  | (?i:https?://|ftp://|www\.)(?=\w) (?: [{_URL}]++       # web address: www.a.org/b_(c)
      | [.,;:!?']++(?=[{_URL}])                            #   punctuation, but not at the end
      | \([^\s()<>"]*+\) | \[[^\s\[\]<>"]*+\] )+           #   brackets, but only in pairs
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
  | (?: [{extend}]*+ (?:                                   # word or number; between its parts:
        [{hyphen}·&]                                       #   well-known AT&T
      | {underscore}                                              #   snake_case
      | {separator}                                        #   1,000.5 12:30 1/2
      | \.(?=[a-z])                                        #   Amazon.com
      | (?<=\d)\.(?=[A-Z](?!\w)) | (?<=[A-Z])\.(?=\d)      #   section 1.C, book VII.22
      | ['’](?=[^\W\d_])(?!{_CLITIC})                      #   O'Neill, not it's
      | (?<=[א-ת])["״׳](?=[א-ת])                           #   צה"ל
    )? {letter}++ )+
  | [{classes.HIRAGANA}]++
  | [{classes.KATAKANA}]++
  | \w                                                     # an ideograph: nothing else is left
  )
| ['’](?:                                                  # --- begins with an apostrophe
    (?<=[^\s(\[{{“‘'’—–\-]['’]){_CLITIC}                   # it|'s
  | (?<!\S['’]){_CLITIC}(?!\S)                             # the same where text came split: it 's
  | (?<!\w['’])(?i:t(?=(?:is|was|were|will|would)(?!\w)))  # 't|is
  | (?<!\w['’])(?i:em|til|neath|twixt|gainst|\d0s|n['’])(?!\w)  # 'em '90s rock 'n' roll
  )
| {point}{tail}                                            # .45
| (?<!\w)[@\#]\d*+[^\W\d][\w{extend}]*+                    # @user #hashtag
| [\#*]\ufe0f?\u20e3                                       # keycap: #️⃣
| [{classes.FLAG_LETTER}]{{2}}                             # flag: 🇰🇷
| [{emoji}] (?: [{extend}{classes.SKIN_TONE}{classes.TAG}]++  # emoji: 👍🏽 👩‍🚀
              | (?<=\u200d)[{emoji}] )*
| \.{{2,}}+ | -{{2,}}+ | —++ | …++ | '' | ``               # runs; Treebank quotes
| \S                                                       # any other character alone
)[{extend}]*+"""
    return re.compile(pattern, re.VERBOSE)


def _any_of(*lists: str) -> str:
    """Return a pattern for any one of the words of the lists."""
    return "|".join(re.escape(word) for words in lists for word in words.split())
