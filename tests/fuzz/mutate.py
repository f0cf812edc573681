"""Random changes to bytes, of the kinds that break readers."""

from __future__ import annotations

import random
import re

NUMBERS = [b"0", b"-1", b"1e999", b"NaN", b"9" * 30, b"2147483648", b"-9223372036854775809", b"1.5"]
BITS = [
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r\n", b"\r", b"\n\n", b"\t", b" ", b'"',
    b"'", b"\\", b"{", b"}", b"[", b"]", b"(", b")", b",", b":", b"#", b"_", b"-DOCSTART-", b"null",
    b"true", "\u00e9".encode(), "\u0301".encode() * 9, "\u200d".encode(), "\u202e".encode(), b"...",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467".encode(), "한국어".encode(), "中文".encode(),
    "\u2028".encode(), b"\xed\xa0\x80", b"\x1b[2J", "ﬁ".encode(), "İ".encode(), "ß".encode(),
    b"A" * 70, b"([" * 40, b"\x1a", b"\xc2\x85", b"Mr. ", b"U.S. ", b"http://a.b/c?d=e#f",
    b"1,000.5",
]  # fmt: skip


def mutate(seed: bytes, others: list[bytes], chance: random.Random, limit: int = 4096) -> bytes:
    """The bytes after one to six random changes, cut at `limit`."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((1, 1, 2, 8, 40)))
        kind = chance.randrange(9)
        if kind == 0 and data:
            data[start % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[start:end]
        elif kind == 2:
            data[start:start] = chance.choice(BITS)
        elif kind == 3:
            data[start:end] = data[start:end] * chance.choice((2, 3, 30))
        elif kind == 4:
            _replace_number(data, chance)
        elif kind == 5:
            other = chance.choice(others)
            place = chance.randrange(len(other) + 1)
            data[start:end] = other[place : place + chance.choice((1, 10, 100))]
        elif kind == 6:
            data[start:start] = chance.randbytes(chance.choice((1, 4)))
        elif kind == 7:
            letter = chr(chance.choice((chance.randrange(0x3000), chance.randrange(0x110000))))
            data[start:start] = letter.encode("utf-8", "replace")
        else:
            del data[start:]
    return bytes(data[:limit])


def _replace_number(data: bytearray, chance: random.Random) -> None:
    """Replace a number in a text, or four bytes of binary data."""
    found = list(re.finditer(rb"-?\d+", data))
    if found:
        one = chance.choice(found)
        data[one.start() : one.end()] = chance.choice(NUMBERS)
    elif len(data) >= 4:
        place = chance.randrange(len(data) - 3)
        data[place : place + 4] = chance.choice((b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x80"))
