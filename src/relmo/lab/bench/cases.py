"""What is timed in a round: one sentence of a known length, then batches of growing size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relmo.lab.bench.sentences import Words, of_length, take

LATENCY_TOKENS = 25
"""Words of the sentence whose time is given on its own."""
BATCHES = (1, 32, 128)
"""Sentences per call."""
SINGLES = 4
"""Calls of one sentence per round: a single one says little, as lengths differ."""


@dataclass(frozen=True, slots=True)
class Case:
    """Calls that are timed together."""

    name: str
    calls: list[list[Words]]
    """Sentences of each call."""

    @property
    def tokens(self) -> int:
        """Words of all calls."""
        return sum(len(words) for call in self.calls for words in call)

    @property
    def sentences(self) -> list[Words]:
        """Of all calls."""
        return [words for call in self.calls for words in call]


def cases_of_round(sentences: Sequence[Words], number: int) -> list[Case]:
    """Each round reads on in the text, so that no round knows the sentences of another."""
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
