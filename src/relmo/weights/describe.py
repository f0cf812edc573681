"""What a model is, for people and scripts: read from its files, whole and checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from relmo.config import CharCnnConfig
from relmo.files import sha256
from relmo.weights.find import find_model, read_model
from relmo.weights.layouts import detect
from relmo.weights.native import Native, read_config
from relmo.weights.untrained import UNTRAINED


def describe_model(name: str | Path) -> dict[str, Any]:
    """Sizes, training record, licence and checksums of a model."""
    model = read_model(name)
    config = model.config
    tokens = dataclasses.asdict(config.tokens)
    if isinstance(config.tokens, CharCnnConfig):
        tokens["alphabet"] = len(config.tokens.alphabet)
    return {
        "model": config.name or Path(name).name,
        "layers": config.num_layers,
        "width": config.width,
        "parameters": sum(tensor.numel() for tensor in model.tensors.values()),
        "tokens": tokens,
        "lstm": dataclasses.asdict(config.lstm),
        "tokenizer": config.tokenizer,
        "start": config.start,
        "licence": config.licence or "not stated",
        "training": dict(config.training) or "not recorded",
        **({} if name == UNTRAINED else describe_folder(find_model(name))),
    }


def describe_folder(folder: Path) -> dict[str, Any]:
    """Where a model lies, and size and sha256 of its files.

    `matches` compares with what the model's writer recorded, None where it recorded nothing.
    """
    fmt = detect(folder)
    recorded = read_config(folder)[1] if isinstance(fmt, Native) else {}
    found = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        checksum = sha256(path)
        expected = recorded.get(path.name, {}).get("sha256")
        found[path.name] = {
            "bytes": path.stat().st_size,
            "sha256": checksum,
            "matches": None if expected is None else checksum == expected,
        }
    return {"folder": str(folder), "format": fmt.name, "files": found}
