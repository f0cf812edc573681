"""Text about nothing: words drawn by lot from a model's word list, common ones often.

An index of a few notes has too few passages to tell what they mean from what all text shares. The
vectors of such texts share it, too: fitted with them, a small index finds what a large one would.
"""

from __future__ import annotations

import numpy as np

from relmo.text.lexicon import Lexicon

ENOUGH = 1000
"""Passages that need no background."""
TEXTS, WORDS = 512, 20
COMMON = 20_000
"""Words that are drawn from."""


def make_background(lexicon: Lexicon) -> list[str]:
    """The same texts each time; none from a list without words."""
    words = [word for word in lexicon.words[:COMMON] if not word.startswith("<")]
    if not words:
        return []
    shares = 1 / (np.arange(len(words)) + 3.0)  # Zipf's law
    lot = np.random.default_rng(0)
    drawn = lot.choice(len(words), size=(TEXTS, WORDS), p=shares / shares.sum())
    return [" ".join(words[each] for each in row) for row in drawn]
