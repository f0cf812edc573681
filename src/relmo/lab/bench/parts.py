"""Where the time of a batch goes: text -> words -> word vectors -> LSTMs -> arrays."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch

from relmo.elmo import Elmo
from relmo.lab.bench.rounds import timed
from relmo.lab.bench.sentences import Words
from relmo.runtime.runtime import unpack_layers
from relmo.text.batches import index_words
from relmo.text.words import tokenized

PART_NAMES = (
    "tokenising",
    "character CNN, all words new",
    "looking words up, all known",
    "LSTMs",
    "joining and copying out",
)


class Parts:
    """Times of each part of one batch of one model, round by round."""

    def __init__(self) -> None:
        self._rounds: list[list[float]] = []

    @torch.no_grad()
    def measure(self, elmo: Elmo, sentences: Sequence[Words], keep: bool) -> None:
        """One batch, part by part."""
        text = [" ".join(words) for words in sentences]
        found = index_words(sentences)
        index, lengths = torch.from_numpy(found.index), torch.from_numpy(found.lengths)
        elmo.runtime.memo.clear()
        tokenising, _ = timed(lambda: list(tokenized(text, elmo.tokenizer)))
        cnn, _ = timed(lambda: elmo.runtime.memo.vectors(found.words))  # (U, P)
        lookup, x = timed(lambda: elmo.runtime.memo.vectors(found.words)[index])  # (B, T, P)
        lstms, (layers, _) = timed(lambda: elmo.runtime.fast.read(x, lengths))
        joining, _ = timed(lambda: unpack_layers(layers.values, sentences))
        if keep:
            self._rounds.append([tokenising, cnn, lookup, lstms, joining])

    def to_dict(self) -> dict[str, float]:
        """Milliseconds of each part: medians."""
        columns = zip(*self._rounds, strict=True)
        found = zip(PART_NAMES, columns, strict=True)
        return {name: round(1000 * median(values), 3) for name, values in found}
