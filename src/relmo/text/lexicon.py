"""A fixed list of words and their ids: the input of a word-table model, the softmax of an LM.

The file is vocab.txt: one word per line, in row order, with `<S>`, `</S>` and `<UNK>` among them.
vocab_counts.txt beside it, where there is one, gives each word's count in the training text.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from relmo.errors import TextError
from relmo.files import read_limited
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE
from relmo.text.letters import LetterModel
from relmo.text.tokenize import warn_caller

Words = TypeVar("Words", bound=Sequence[str])
UNKNOWN = "<UNK>"
MAX_BYTES = 256 * 2**20
"""Maximum size of a vocab.txt that is read; a million words take about 8 MB."""
SPECIAL = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
SAMPLE = 5000
"""Words of the vocabulary by which its scripts are found."""
FAMILIAR = 0.02
"""Share of the vocabulary's words in a script from which on the model knows the script."""
WATCHED = 32
"""Sentences of a call, and words of a sentence, whose scripts are looked at."""


class Lexicon:
    """Words in row order; words outside the list get the row of `<UNK>`.

    Args:
        words: in row order.
        counts: how often each came in the training text, all other words as `<UNK>`, if known.
    """

    def __init__(self, words: Sequence[str], counts: NDArray[np.int64] | None = None) -> None:
        self.words, self.counts = tuple(words), counts
        self._row_of = {word: row for row, word in enumerate(self.words)}
        if len(self._row_of) != len(self.words):
            twice = next(w for row, w in enumerate(self.words) if self._row_of[w] != row)
            raise TextError(f"the vocabulary contains {twice!r} twice; remove one of them")
        self._has_warned = False
        for needed in SPECIAL:
            if needed not in self._row_of:
                raise TextError(f"the vocabulary lacks {needed!r}; add it at its row")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._row_of

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The row of each word, (U,)."""
        unknown = self._row_of[UNKNOWN]
        return np.array([self._row_of.get(word, unknown) for word in words], dtype=np.int64)

    @cached_property
    def letters(self) -> LetterModel:
        """A letter model of the words, for what stands outside the list."""
        return LetterModel([word for word in self.words if word not in SPECIAL])

    @cached_property
    def log_frequencies(self) -> NDArray[np.float64]:
        """Log, to base 2, of each word's share of the words of the training text, (V,).

        Boundaries are no words, and a word that never came counts as if it had come once. NaN
        without counts.
        """
        if self.counts is None:
            return np.full(len(self.words), np.nan)
        counts = np.maximum(self.counts, 1).astype(np.float64)
        boundaries = self.rows([BEGIN_SENTENCE, END_SENTENCE])
        found: NDArray[np.float64] = np.log2(counts / (counts.sum() - counts[boundaries].sum()))
        return found

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts that a fair share of the words is written in, by Unicode's names."""
        every = max(1, len(self.words) // SAMPLE)
        sample = (word for word in self.words[::every] if word not in SPECIAL)
        counts = Counter(filter(None, map(script_of, sample)))
        return frozenset(s for s, n in counts.items() if n >= FAMILIAR * counts.total())

    def watch(self, sentences: Iterable[Words]) -> Iterator[Words]:
        """The same sentences; the first ones of a call are looked at by `check_script`."""
        rest = iter(sentences)
        for sentence in () if self._has_warned else islice(rest, WATCHED):
            self.check_script(sentence)
            yield sentence
        yield from rest

    def check_script(self, sentence: Sequence[str]) -> None:
        """Warn, once, if most words are in a script that the list hardly contains."""
        if not self._has_warned and (message := self.strange_script(sentence)) is not None:
            self._has_warned = True
            warn_caller(message)

    def strange_script(self, sentence: Sequence[str]) -> str | None:
        """What to say if most words are in a script that the list hardly contains, else None."""
        found = Counter(filter(None, map(script_of, sentence[:WATCHED])))
        if not self.scripts or not found:
            return None
        strange, count = max(found.items(), key=lambda item: (item[0] not in self.scripts, item[1]))
        if strange in self.scripts or 2 * count <= found.total():
            return None
        own = ", ".join(sorted(self.scripts))
        return (
            f"the text is in {strange} script, the words that this model knows are in {own}: "
            f"its vectors, scores and perplexity mean little here; use a model of this language"
        )

    @classmethod
    def read(cls, path: Path, max_words: int | None = None) -> Lexicon:
        """Read vocab.txt; only a newline ends a line, as words may contain other white space.

        `max_words` is how many rows there are for its words.
        """
        try:
            content = read_limited(path, MAX_BYTES)
        except OSError as error:
            raise TextError(f"{path}: cannot be read ({error.strerror}); copy it again") from error
        found = content.count(b"\n") + (not content.endswith(b"\n"))
        if max_words is not None and found > max_words:  # before words take memory
            raise TextError(
                f"{path}: has {found:,} words, the model at most {max_words:,} rows; are they from "
                f"the same model?"
            )
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise TextError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
        lines = text.removesuffix("\n").split("\n")
        return cls([line.removesuffix("\r") for line in lines])

    def with_counts(self, path: Path) -> Lexicon:
        """The same words with their counts, one integer per line, in row order."""
        try:
            counts = np.array(read_limited(path, MAX_BYTES).split(), dtype=np.int64)
        except OSError as error:
            raise TextError(f"{path}: cannot be read ({error.strerror}); copy it again") from error
        except (ValueError, OverflowError) as error:
            raise TextError(
                f"{path}: must contain integers, one per line; copy it again"
            ) from error
        if len(counts) != len(self) or counts.min(initial=0) < 0:
            raise TextError(
                f"{path}: has {len(counts):,} counts for {len(self):,} words; expected one ≥ 0 per "
                f"word: are vocab.txt and it from the same model?"
            )
        found = copy(self)  # numbering 100,000 words again would take as long as reading them
        found.counts = counts
        vars(found).pop("log_frequencies", None)
        return found

    def write_counts(self, path: Path) -> None:
        """Write the counts, if there are any: one integer per line."""
        if self.counts is not None:
            path.write_text("".join(f"{count}\n" for count in self.counts), encoding="ascii")

    def write(self, path: Path) -> None:
        """Write vocab.txt."""
        path.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8", newline="\n")


def script_of(word: str) -> str:
    """The script of a word's first letter by Unicode's name of it; empty if there is no letter."""
    letter = next(filter(str.isalpha, word), "")
    if letter.isascii():
        return letter and "Latin"
    return unicodedata.name(letter, "").partition(" ")[0].capitalize()
