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
    from relmo.tasks.predictor import Predictor, load
    from relmo.tasks.results import (
        Answer,
        Argument,
        Cluster,
        Entity,
        Frame,
        Label,
        Mention,
        Predicate,
        TaggedToken,
    )
    from relmo.tasks.run import train
    from relmo.types import Layers, Token

__all__ = [
    "Answer",
    "Argument",
    "CharCnnConfig",
    "Cluster",
    "Elmo",
    "ElmoConfig",
    "ElmoLayer",
    "Entity",
    "Frame",
    "Label",
    "Layers",
    "LstmConfig",
    "Mention",
    "Predicate",
    "Predictor",
    "RelmoError",
    "ScalarMix",
    "SemanticIndex",
    "TaggedToken",
    "Token",
    "WordTableConfig",
    "__version__",
    "errors",
    "load",
    "train",
]

_HOME = {
    **dict.fromkeys(("CharCnnConfig", "ElmoConfig", "LstmConfig", "WordTableConfig"), "config"),
    **dict.fromkeys(("Layers", "Token"), "types"),
    "Elmo": "elmo",
    "ElmoLayer": "elmo_layer",
    "RelmoError": "errors",
    "ScalarMix": "nn.scalar_mix",
    "SemanticIndex": "search.index",
    **dict.fromkeys(("Predictor", "load"), "tasks.predictor"),
    **dict.fromkeys(
        (
            "Answer",
            "Argument",
            "Cluster",
            "Entity",
            "Frame",
            "Label",
            "Mention",
            "Predicate",
            "TaggedToken",
        ),
        "tasks.results",
    ),
    "train": "tasks.run",
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
