"""A model that needs no files: the official small shapes with random weights."""

from __future__ import annotations

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig
from relmo.nn.bilm import BiLM, initialize
from relmo.weights.tensors import ModelFiles, tensors_of

UNTRAINED = "relmo-untrained"
"""The name it is loaded by."""


def small_config() -> ElmoConfig:
    """The official small shapes: 2 x 1024 cells, width 128 per direction, one highway."""
    return ElmoConfig(
        name=UNTRAINED,
        tokens=CharCnnConfig(width=128, num_highways=1),
        lstm=LstmConfig(cell_width=1024, output_width=128),
    )


def untrained_model(seed: int = 0) -> ModelFiles:
    """The model as formats hand one out."""
    config = small_config()
    return ModelFiles(config, dict(tensors_of(initialize(BiLM(config), seed))))
