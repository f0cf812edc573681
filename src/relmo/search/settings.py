"""How an index turns text into vectors and terms: chosen once, stored with the index.

The defaults scored best in scripts/choose_pooling.py; docs/search.md has the table.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from relmo.config import Count, CountOrZero, NonNegative, Settings
from relmo.errors import ConfigError
from relmo.layers import OneLayer

PassageUnit = Literal["auto", "paragraph", "sentence", "line", "window"]
"""What a passage is. `paragraph`, `sentence`, `line`: one of them. `window`: as many sentences as
fit. `auto`: paragraphs of a text file, windows of a table row, which has a single topic; chosen
with scripts/choose_passages.py."""
IsotropyMethod = Literal["none", "mean", "directions", "whiten"]
"""How the part that all text vectors share is removed: see `IsotropyTransform`."""
Weighting = Literal["none", "vocabulary", "corpus"]
"""Where word frequencies come from: not used, the rank in the model's vocabulary, or counted in
the indexed passages."""
VERSION = 3
"""Format of new indexes. Version 2 has no latent dimensions."""
CHECKSUMMED = 2
"""What version 1, which has no checksum of the file, becomes when it is changed."""
READABLE = (1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class IndexSettings(Settings):
    """Everything that decides which vectors and terms an index stores for a text."""

    model: str = "relmo-en-search"
    """A trained encoder, or an ELMo."""
    fingerprint: str = ""
    """Checksum of the model; set when the index is created."""
    width: CountOrZero = 0
    """Width of the index's vectors; set when it is created."""
    latent: CountOrZero = 256
    """Dimensions fitted to the words of the index's own passages, beside a trained encoder's; an
    index of an ELMo has none."""
    layer: OneLayer = "bottom"
    weighting: Weighting = "vocabulary"
    weight_at: NonNegative = 3e-5
    """Relative frequency of a word that gets weight 1/2: the a of a / (a + p)."""
    isotropy: IsotropyMethod = "whiten"
    remove: CountOrZero = 12
    """Number of principal directions to remove, for isotropy "directions"."""
    passages: PassageUnit = "auto"
    max_words: Count = 512
    """Longer passages are split."""
    language: str = "english"
    """Snowball stemmer for lexical search; "none" for languages without one."""
    version: int = VERSION

    @property
    def is_old(self) -> bool:
        """Whether indexes are made in another way now."""
        return self.version < VERSION

    def to_json(self) -> str:
        """The settings as a store keeps them."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> IndexSettings:
        """Read what `to_json` wrote; an index of a newer relmo is an error."""
        values: dict[str, Any] = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("its settings are not a JSON object")
        unknown = values.keys() - {field.name for field in fields(cls)}
        if values.get("version") not in READABLE or unknown:
            raise ConfigError(
                f"the index has format version {values.get('version')}, this relmo reads versions "
                f"{READABLE[0]} to {READABLE[-1]}; build the index again"
            )
        values.setdefault("latent", 0)  # before there were any
        return cls(**values)
