"""What a model is, for people and scripts: read from its files, whole and checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from relmo.config import CharCnnConfig
from relmo.weights.find import find_model
from relmo.weights.layouts import detect
from relmo.weights.native import Native, check_sums


def describe_model(name: str | Path) -> dict[str, Any]:
    """Sizes, training record, licence and checksums of a model."""
    folder = find_model(name)
    fmt = detect(folder)
    checksums = check_sums(folder) if isinstance(fmt, Native) else {}
    model = fmt.read(folder)
    config = model.config
    tokens = dataclasses.asdict(config.tokens)
    if isinstance(config.tokens, CharCnnConfig):
        tokens["alphabet"] = len(config.tokens.alphabet)
    return {
        "model": config.name or folder.name,
        "folder": str(folder),
        "format": fmt.name,
        "layers": config.num_layers,
        "width": config.width,
        "parameters": sum(tensor.numel() for tensor in model.tensors.values()),
        "bytes": sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
        "tokens": tokens,
        "lstm": dataclasses.asdict(config.lstm),
        "tokenizer": config.tokenizer,
        "start": config.start,
        "licence": config.licence or "not stated",
        "training": dict(config.training) or "not recorded",
        "checksums": checksums,
    }
