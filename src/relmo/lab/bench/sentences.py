"""The text that is timed: a file's sentences or synthetic ones, cut into the cases of a round.

Synthetic sentences have the lengths of news and encyclopedias, about 22 words with a long tail, and
the word frequencies of text: the r-th most frequent word has a share of about 1 / r. Their words
are the model's own if it has a vocabulary, most frequent first, else invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, cycle, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextError
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE
from relmo.text.documents import read_files
from relmo.text.lexicon import UNKNOWN
from relmo.text.tokenize import tokenized

INVENTED_WORDS = 50_000
CONSONANTS = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr")
VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
SYNTHETIC_SENTENCES = 5000
LONGEST = 120
"""Maximum number of words in a synthetic sentence."""
LATENCY_TOKENS = 25
"""Words of the sentence whose latency is reported."""
BATCHES = (1, 32, 128)
"""Sentences per call."""
SINGLES = 4
"""Calls with one sentence per round: a single one says little, as lengths differ."""


class Case(NamedTuple):
    """Calls that are timed together."""

    name: str
    calls: list[list[list[str]]]
    """Sentences of each call."""

    @property
    def tokens(self) -> int:
        """Words of all calls."""
        return sum(map(len, self.sentences))

    @property
    def sentences(self) -> list[list[str]]:
        """Sentences of all calls."""
        return [words for call in self.calls for words in call]


def cases_of_round(sentences: Sequence[list[str]], number: int) -> list[Case]:
    """A sentence of fixed length, then batches; each round continues in the text."""
    first = number * (1 + SINGLES + sum(BATCHES[1:]))
    single = of_length(take(sentences, first, LATENCY_TOKENS), LATENCY_TOKENS)
    cases = [Case(f"{LATENCY_TOKENS}-token sentence", [[single]])]
    first += 1
    for size in BATCHES:
        count = SINGLES if size == 1 else 1
        calls = [take(sentences, first + i * size, size) for i in range(count)]
        cases.append(Case(f"batch of {size}", calls))
        first += count * size
    return cases


def load_sentences(path: Path | None, elmo: Elmo) -> list[list[str]]:
    """A file's non-blank lines, split by the model's tokenizer; without a file synthetic text."""
    if path is None:
        return synthetic_sentences(elmo, SYNTHETIC_SENTENCES)
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; --text takes a file with one sentence per line")
    found = [words for words in tokenized(read_files([path], "strict"), elmo.tokenizer) if words]
    if not found:
        raise TextError(f"{path}: contains no words; give one sentence per line")
    return found


def synthetic_sentences(elmo: Elmo, count: int, seed: int = 0) -> list[list[str]]:
    """Sentences of the model's own words, or of invented ones; equal for equal seeds."""
    random = np.random.default_rng(seed)
    markers = {BEGIN_SENTENCE, END_SENTENCE, UNKNOWN}
    known = [w for w in (elmo.lexicon.words if elmo.lexicon else ()) if w not in markers]
    words = known or invent_words(INVENTED_WORDS)
    shares = 1 / (np.arange(len(words)) + 2.7)  # Zipf's law with Mandelbrot's offset
    lengths = np.clip(random.lognormal(3.0, 0.5, count), 3, LONGEST).astype(int)
    picked = random.choice(len(words), lengths.sum(), p=shares / shares.sum())
    stream = (words[i] for i in picked)
    return [list(islice(stream, length)) for length in lengths]


def invent_words(count: int) -> list[str]:
    """Distinct words, short ones first: their numbers, written with syllables as digits."""
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]

    def spell(number: int) -> str:
        rest, digit = divmod(number, len(syllables))
        return (spell(rest) if rest else "") + syllables[digit]

    return [spell(number) for number in range(count)]


def take(sentences: Sequence[list[str]], first: int, count: int) -> list[list[str]]:
    """`count` sentences from number `first` on, starting over after the last one."""
    start = first % len(sentences)
    return list(islice(cycle(sentences), start, start + count))


def of_length(sentences: Iterable[Sequence[str]], length: int) -> list[str]:
    """One sentence of exactly that length, made of the words of several."""
    return list(islice(cycle(chain.from_iterable(sentences)), length))
