"""How an index turns text into vectors and terms: chosen once, kept with the index.

The defaults are those that scripts/choose_pooling.py found best; its table is in docs/search.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from relmo.errors import ConfigError
from relmo.search.isotropy import Fix, check_fix
from relmo.search.passages import Unit, check_unit

Weighting = Literal["none", "vocabulary", "corpus"]
"""Where the rarity of a word comes from: nowhere, its rank in the model's word list, or how many
of the indexed passages hold it."""
Layer = Literal["mean", "bottom", "top"] | int
"""`bottom`: the mean of layers 0 and 1."""
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides what an index holds for a text."""

    model: str = "relmo-en-small"
    fingerprint: str = ""
    """Checksum of the model; set when the index is made."""
    width: int = 0
    """Of the model; set when the index is made."""
    layer: Layer = "bottom"
    weighting: Weighting = "vocabulary"
    weight_at: float = 3e-5
    """A word that makes up this share of text counts half (a of a / (a + p))."""
    isotropy: Fix = "whiten"
    remove: int = 12
    """Main directions that are taken out of all vectors, for isotropy "directions"."""
    passages: Unit = "auto"
    max_words: int = 512
    language: str = "english"
    """Stemmer of the lexical search; "none" for a language without one."""
    version: int = VERSION

    def __post_init__(self) -> None:
        check_unit(self.passages, self.max_words)
        if self.weighting not in get_args(Weighting):
            known = ", ".join(get_args(Weighting))
            raise ConfigError(f"weighting is {self.weighting!r}; choose one of {known}")
        if not isinstance(self.layer, int) and self.layer not in ("mean", "bottom", "top"):
            raise ConfigError(f"layer is {self.layer!r}; choose mean, bottom, top or a number")
        check_fix(self.isotropy)
        if self.remove < 0:
            raise ConfigError(f"remove is {self.remove}; 0 takes out the mean alone")

    def to_json(self) -> str:
        """As it is kept in the store."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """As it was kept; an index of a later relmo is an error."""
        values: dict[str, Any] = json.loads(text)
        unknown = values.keys() - {field.name for field in fields(cls)}
        if values.get("version") != VERSION or unknown:
            raise ConfigError(
                f"the index is of version {values.get('version')}, this relmo reads {VERSION}; "
                f"index again"
            )
        return cls(**values)
