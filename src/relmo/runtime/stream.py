"""Sentences of any number and length -> their vectors, in order, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from relmo.errors import TextError
from relmo.runtime.choice import begin_split
from relmo.text.batches import in_windows, map_batches, plan_batches
from relmo.types import VectorDtype, Vectors

BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Padded tokens per batch, by device: bounds memory. On a GPU a step of few rows costs as much as
one of many."""
WINDOW_TOKENS = {"cpu": 8192, "cuda": 262_144}
"""Tokens of a stream that are sorted by length together: bounds memory, fills batches."""

Words = Sequence[str]


@dataclass(frozen=True)
class Stream:
    """Reads batches of sentences and hands out what was chosen of their layers."""

    read: Callable[[Sequence[Words]], Tensor]
    """Layers (L + 1, B, T, D) of a batch, boundaries included."""
    choose: Callable[[Tensor], Tensor]
    """What of them is wanted: (…, B, T, F). Only this leaves the device."""
    dtype: VectorDtype

    def vectors(
        self,
        sentences: Iterable[list[str]],
        batch_tokens: int,
        window_tokens: int,
        batch_sentences: int | None = None,
    ) -> Iterator[Vectors]:
        """(…, T, F) of each sentence, lazily: a window of sentences at a time is held.

        Args:
            sentences: as their words.
            batch_tokens: padded tokens per batch, boundaries counted.
            window_tokens: of the sentences that are sorted by length together.
            batch_sentences: at most that many in a batch.
        """
        for window in in_windows(sentences, lambda words: len(words) + 2, window_tokens):
            lengths = [len(words) + 2 for words in window]
            plan = plan_batches(lengths, batch_tokens, batch_sentences)
            yield from map_batches(window, plan, self._begin)

    def _begin(self, batch: Sequence[Words]) -> Callable[[], list[Vectors]]:
        """Start a batch, halved where memory is short; what is given back waits for its vectors."""
        try:
            return begin_split(self.choose(self.read(batch)), batch, self.dtype)
        except (MemoryError, RuntimeError) as error:  # torch has no other type for it on a CPU
            if "alloc" not in str(error) and not isinstance(error, MemoryError):
                raise
            if len(batch) == 1:
                raise TextError(
                    f"a sequence of {len(batch[0]):,} tokens needs more memory than there is; "
                    f"split long lines"
                ) from error
        half = len(batch) // 2
        parts = [self._begin(part)() for part in (batch[:half], batch[half:])]
        return lambda: [vectors for part in parts for vectors in part]
