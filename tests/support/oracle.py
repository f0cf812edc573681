"""ELMo once more, in float64 numpy, a word and a step at a time, straight from the file's names.

Nothing is shared with relmo: what both get wrong would have to be got wrong twice.
"""

import json
from pathlib import Path

import h5py
import numpy as np

Weights = dict[str, np.ndarray]


def all_layers(folder: Path, sentence: list[str]) -> np.ndarray:
    """(L + 1, T, 2P) from a zero state, boundaries dropped."""
    options = json.loads((folder / "options.json").read_text())
    weights: Weights = {}
    with h5py.File(folder / "weights.hdf5") as file:
        file.visititems(
            lambda n, d: (
                weights.update({n: d[...].astype("f8")}) if isinstance(d, h5py.Dataset) else None
            )
        )
    words = ["<S>", *sentence, "</S>"]
    x = np.stack([word_vector(word, weights, options["char_cnn"]) for word in words])
    forward = stack(x, weights, 0, options["lstm"])
    backward = [y[::-1] for y in stack(x[::-1], weights, 1, options["lstm"])]
    layers = [np.concatenate([x, x], 1)]
    layers += [np.concatenate(pair, 1) for pair in zip(forward, backward, strict=True)]
    return np.stack(layers)[:, 1:-1]


def raw_ids(word: str, size: int) -> list[int]:
    if word in ("<S>", "</S>"):
        inner = [256 if word == "<S>" else 257]
    else:
        inner = list(word.encode("utf-8", "ignore")[: size - 2])
    ids = [258, *inner, 259]
    return ids + [260] * (size - len(ids))


def word_vector(word: str, w: Weights, cnn: dict) -> np.ndarray:
    letters = w["char_embed"][raw_ids(word, cnn["max_characters_per_token"])]  # (C, E)
    found = []
    for i, (size, _) in enumerate(cnn["filters"]):
        kernel = w[f"CNN/W_cnn_{i}"][0]  # (size, E, n)
        windows = [letters[s : s + size] for s in range(len(letters) - size + 1)]
        sums = [np.einsum("se,sen->n", window, kernel) for window in windows]
        found.append(np.max(sums, 0) + w[f"CNN/b_cnn_{i}"])
    x = np.concatenate(found)
    x = np.maximum(x, 0) if cnn["activation"] == "relu" else np.tanh(x)
    for k in range(cnn["n_highway"]):
        high = f"CNN_high_{k}"
        gate = sigmoid(x @ w[f"{high}/W_carry"] + w[f"{high}/b_carry"])
        moved = np.maximum(x @ w[f"{high}/W_transform"] + w[f"{high}/b_transform"], 0)
        x = gate * moved + (1 - gate) * x
    if "CNN_proj/W_proj" in w:
        x = x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]
    return x


def stack(x: np.ndarray, w: Weights, r: int, lstm: dict) -> list[np.ndarray]:
    outputs = []
    for layer in range(lstm["n_layers"]):
        y = run(x, w, f"RNN_{r}/RNN/MultiRNNCell/Cell{layer}/LSTMCell", lstm)
        x = y + x if layer > 0 and lstm["use_skip_connections"] else y
        outputs.append(x)
    return outputs


def run(x: np.ndarray, w: Weights, cell: str, lstm: dict) -> np.ndarray:
    h, c, outputs = np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]), []
    for vector in x:
        i, j, f, o = np.split(np.concatenate([vector, h]) @ w[f"{cell}/W_0"] + w[f"{cell}/B"], 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        if lstm["cell_clip"]:
            c = np.clip(c, -lstm["cell_clip"], lstm["cell_clip"])
        h = sigmoid(o) * np.tanh(c)
        if f"{cell}/W_P_0" in w:
            h = h @ w[f"{cell}/W_P_0"]
            if lstm["proj_clip"]:
                h = np.clip(h, -lstm["proj_clip"], lstm["proj_clip"])
        outputs.append(h)
    return np.stack(outputs)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
