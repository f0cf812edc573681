"""Random models in the official format, written here name by name, without relmo's writer."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

DEFAULTS: dict[str, Any] = {
    "cell": 24,
    "projection": 8,
    "layers": 2,
    "filters": [[1, 4], [2, 6], [3, 8]],
    "highways": 1,
    "activation": "relu",
    "cell_clip": 3,
    "proj_clip": 3,
    "skips": True,
    "characters": 262,
    "max_characters": 50,
    "character_width": 4,
    "scale": 1.0,
    "seed": 0,
}

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "three layers": {"layers": 3},
    "one layer": {"layers": 1},
    "tanh": {"activation": "tanh"},
    "no highway": {"highways": 0},
    "three highways": {"highways": 3},
    "no skips": {"skips": False},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "clips firing": {"cell_clip": 0.5, "proj_clip": 0.2, "scale": 3.0},
    "cell clip alone": {"proj_clip": None, "cell_clip": 0.3},
    "zero means no clip": {"cell_clip": 0, "proj_clip": 0},
    "no projection": {"cell": 8, "projection": 8},
    "no CNN projection": {"filters": [[1, 3], [3, 5]]},
    "training file": {"characters": 261},
    "wide filters": {"filters": [[1, 2], [7, 16], [11, 3]]},
    "short words": {"max_characters": 12},
}


def options_of(**changes: Any) -> dict[str, Any]:
    o = {**DEFAULTS, **changes}
    return {
        "lstm": {
            "dim": o["cell"],
            "projection_dim": o["projection"],
            "n_layers": o["layers"],
            "cell_clip": o["cell_clip"],
            "proj_clip": o["proj_clip"],
            "use_skip_connections": o["skips"],
        },
        "char_cnn": {
            "activation": o["activation"],
            "filters": o["filters"],
            "n_highway": o["highways"],
            "embedding": {"dim": o["character_width"]},
            "n_characters": o["characters"],
            "max_characters_per_token": o["max_characters"],
        },
    }


def weights_of(**changes: Any) -> dict[str, np.ndarray]:
    o = {**DEFAULTS, **changes}
    rng = np.random.default_rng(o["seed"])
    E, P, H = o["character_width"], o["projection"], o["cell"]
    N = sum(count for _, count in o["filters"])

    def normal(*shape: int, fan: int) -> np.ndarray:
        return (rng.standard_normal(shape) * o["scale"] * fan**-0.5).astype("f4")

    found = {"char_embed": rng.uniform(-1, 1, (261, E)).astype("f4")}
    for i, (size, count) in enumerate(o["filters"]):
        found[f"CNN/W_cnn_{i}"] = normal(1, size, E, count, fan=size * E)
        found[f"CNN/b_cnn_{i}"] = normal(count, fan=25)
    for k in range(o["highways"]):
        for part in ("transform", "carry"):
            found[f"CNN_high_{k}/W_{part}"] = normal(N, N, fan=N)
            found[f"CNN_high_{k}/b_{part}"] = normal(N, fan=25)
    if N != P:
        found["CNN_proj/W_proj"] = normal(N, P, fan=N)
        found["CNN_proj/b_proj"] = normal(P, fan=25)
    for r in range(2):
        for layer in range(o["layers"]):
            cell = f"RNN_{r}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            found[f"{cell}/W_0"] = normal(2 * P, 4 * H, fan=P)
            found[f"{cell}/B"] = normal(4 * H, fan=10)
            if P != H:
                found[f"{cell}/W_P_0"] = normal(H, P, fan=H)
    return found


def write_official(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options_of(**changes)))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, values in weights_of(**changes).items():
            file[name] = values
    return folder
