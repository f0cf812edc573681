"""relmo: ELMo for today. Text in, contextual word vectors out.

Names are loaded on first use, so that `import relmo` stays instant: read `relmo/elmo.py` first.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from relmo import errors
    from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, WordTableConfig
    from relmo.elmo import Elmo
    from relmo.elmo_layer import ElmoLayer
    from relmo.errors import RelmoError
    from relmo.nn.scalar_mix import ScalarMix
    from relmo.search.index import SemanticIndex
    from relmo.types import Layers, Token

__all__ = [
    "CharCnnConfig",
    "Elmo",
    "ElmoConfig",
    "ElmoLayer",
    "Layers",
    "LstmConfig",
    "RelmoError",
    "ScalarMix",
    "SemanticIndex",
    "Token",
    "WordTableConfig",
    "__version__",
    "errors",
]

_HOME = {
    **dict.fromkeys(("CharCnnConfig", "ElmoConfig", "LstmConfig", "WordTableConfig"), "config"),
    **dict.fromkeys(("Layers", "Token"), "types"),
    "Elmo": "elmo",
    "ElmoLayer": "elmo_layer",
    "RelmoError": "errors",
    "ScalarMix": "nn.scalar_mix",
    "SemanticIndex": "search.index",
}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("relmo.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'relmo' has no attribute {name!r}")
    value = getattr(import_module(f"relmo.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
