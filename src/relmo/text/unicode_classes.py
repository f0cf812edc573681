"""Character classes that `re` lacks, each written to stand inside the brackets of a pattern.

re.compile(f"[{HAN}]")          one ideograph
re.compile(f"[{extenders()}]")  what clings to the character before it
"""

from __future__ import annotations

import unicodedata
from functools import cache

HAN = "\u3005\u3007\u3021-\u3029\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
HIRAGANA = "ぁ-ゖゝ-ゟー\U0001b001-\U0001b11f\U0001b150-\U0001b152"
KATAKANA = "ァ-ヺー-ヿㇰ-ㇿｦ-ﾟ\U0001aff0-\U0001b000\U0001b120-\U0001b122\U0001b164-\U0001b167"
"""ー lengthens vowels in both kana and so stands in both classes."""

CAPITAL = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĘĚĢĪĶĹĽŁĻŃŇŅŌŐŒŔŘŚŠŞŤŪŮŰŹŻŽΑ-ΩЀ-Я"
"""Capitals that are common as initials; `re` has no class for all of them."""

PICTOGRAPH = "©®‼⁉™↔-↪⌀-⏿Ⓜ▪-◿☀-➿⤴⤵⬀-⯿〰〽㊗㊙\U0001f000-\U0001faff"
"""Characters that may be emoji. Wide on purpose: each would be a token of its own anyway."""

FLAG_LETTER = "\U0001f1e6-\U0001f1ff"
SKIN_TONE = "\U0001f3fb-\U0001f3ff"
TAG = "\U000e0020-\U000e007f"
"""Invisible letters that tell the flags of regions apart: 🏴󠁧󠁢󠁳󠁣󠁴󠁿."""

_SOFT_HYPHEN = "\u00ad"
_JOINERS = "\u200c\u200d"  # ZWNJ, ZWJ

# Nearly all of the 1.1 million code points lie outside these ranges, and none that is a mark does.
_WHERE_MARKS_OCCUR = (
    (0x0300, 0x1E00),
    (0x20D0, 0x2100),
    (0x2CE0, 0x3100),
    (0xA660, 0xAC00),
    (0xFB00, 0xFE30),
    (0x101F0, 0x12000),
    (0x13430, 0x13460),
    (0x16100, 0x17000),
    (0x1BC90, 0x1BCB0),
    (0x1CF00, 0x1D250),
    (0x1DA00, 0x1E950),
    (0xE0100, 0xE01F0),
)


@cache
def extenders() -> str:
    """Return what belongs to the character before it: combining marks, joiners, the soft hyphen."""
    ranges: list[list[int]] = []
    for first, past in _WHERE_MARKS_OCCUR:
        for code in range(first, past):
            if unicodedata.category(chr(code))[0] != "M":
                continue
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return f"{marks}{_JOINERS}{_SOFT_HYPHEN}"
