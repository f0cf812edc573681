"""The text that is measured on: a file's sentences, or made-up ones that look like English.

Made-up sentences are as long as those of news and encyclopedias, about 22 words with a long tail,
and repeat words as text does: the r-th most frequent word has a share of about 1 / r. Their words
are the model's own where it carries a list, most frequent first, else invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, cycle, islice
from pathlib import Path

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextError
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE
from relmo.text.lexicon import UNKNOWN
from relmo.text.lines import read_files
from relmo.text.words import tokenized

Words = list[str]

INVENTED_WORDS = 50_000
CONSONANTS = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr")
VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
LONGEST = 120
"""Words of a made-up sentence at most."""


def sentences_of_file(path: Path, elmo: Elmo) -> list[Words]:
    """One sentence per line, split by the model's tokenizer; blank lines are left out."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; --text takes a file with one sentence per line")
    found = [words for words in tokenized(read_files([path], "strict"), elmo.tokenizer) if words]
    if not found:
        raise TextError(f"{path}: holds no words; give one sentence per line")
    return found


def made_up_sentences(elmo: Elmo, count: int, seed: int = 0) -> list[Words]:
    """Sentences of the model's own words, or of invented ones; equal for equal seeds."""
    random = np.random.default_rng(seed)
    words = known_words(elmo) or invent_words(INVENTED_WORDS)
    shares = 1 / (np.arange(len(words)) + 2.7)  # Zipf's law with Mandelbrot's offset
    lengths = np.clip(random.lognormal(3.0, 0.5, count), 3, LONGEST).astype(int)
    picked = random.choice(len(words), lengths.sum(), p=shares / shares.sum())
    stream = (words[i] for i in picked)
    return [list(islice(stream, length)) for length in lengths]


def known_words(elmo: Elmo) -> Words:
    """The model's word list without its markers."""
    markers = {BEGIN_SENTENCE, END_SENTENCE, UNKNOWN}
    return [w for w in (elmo.lexicon.words if elmo.lexicon else ()) if w not in markers]


def invent_words(count: int) -> Words:
    """Distinct words, short ones first: their numbers, written with syllables for digits."""
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    return [_written(number, syllables) for number in range(count)]


def _written(number: int, digits: Sequence[str]) -> str:
    rest, digit = divmod(number, len(digits))
    return (_written(rest, digits) if rest else "") + digits[digit]


def take(sentences: Sequence[Words], first: int, count: int) -> list[Words]:
    """`count` sentences from number `first` on; past the last the first follows."""
    return list(islice(cycle(sentences), first % len(sentences), first % len(sentences) + count))


def of_length(sentences: Iterable[Words], length: int) -> Words:
    """One sentence of exactly that length: words of several, one after the other."""
    return list(islice(cycle(chain.from_iterable(sentences)), length))
