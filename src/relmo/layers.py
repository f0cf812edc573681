"""Which layers: parse, check, apply. One vocabulary for the API, the commands and the server.

"all"       every layer, (L + 1, ...)
"mean"      the mean of all layers
"top"       the last layer
"bottom"    the mean of layers 0 and 1, which know a word's form more than its sentence
0 ... L     one layer; 0 is the token layer
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, SupportsIndex, TypeVar, cast, get_args

from relmo.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    Values = TypeVar("Values", Tensor, NDArray[np.float32])

OneLayer = Literal["mean", "top", "bottom"] | int
"""A choice that leaves one vector per token."""
LayerChoice = Literal["all", "mean", "top", "bottom"] | int
NAMES = ("all", "mean", "top", "bottom")
MEAN_LABEL, BOTTOM_LABEL = -1, -2
"""Labels in vector files for choices that are not a single layer."""


def parse_layers(text: str) -> LayerChoice:
    """A choice as a command line writes it."""
    if text in NAMES:
        return cast("LayerChoice", text)
    if not text.isdecimal():
        raise ConfigError(f"unknown layers {text!r}; choose {', '.join(NAMES)} or a layer number")
    return int(text)


def check_layers(
    layers: str | SupportsIndex, num_layers: int, names: Iterable[str] = NAMES
) -> None:
    """Raise ConfigError if a model with `num_layers` layers, the token layer included, lacks it."""
    if isinstance(layers, str):
        is_known = layers in names
    else:
        is_integer = hasattr(layers, "__index__") and not isinstance(layers, bool)
        is_known = is_integer and 0 <= int(layers) < num_layers
    if not is_known:
        choices = ", ".join(map(repr, names))
        raise ConfigError(
            f"unknown layers {layers!r}; choose {choices} or a number from 0 to {num_layers - 1}"
        )


def check_one_layer(layers: str | SupportsIndex, num_layers: int) -> None:
    """Like `check_layers`, for a choice that leaves one vector per token."""
    check_layers(layers, num_layers, get_args(get_args(OneLayer)[0]))


def choose_layers(values: Values, layers: LayerChoice) -> Values:
    """(L + 1, ...) -> itself for "all", else (...)."""
    if layers == "all":
        return values
    if layers in ("mean", "bottom"):
        mean: Values = (values if layers == "mean" else values[:2]).mean(0)
        return mean
    one: Values = values[-1 if layers == "top" else int(layers)]
    return one


def layer_labels(layers: LayerChoice, num_layers: int) -> list[int]:
    """Numbers of the chosen layers, as vector files label them."""
    if layers == "all":
        return list(range(num_layers))
    labels = {"mean": MEAN_LABEL, "bottom": BOTTOM_LABEL, "top": num_layers - 1}
    return [labels[layers] if isinstance(layers, str) else int(layers)]


def name_layers(layers: LayerChoice) -> str:
    """A choice in words, for people."""
    names = {
        "all": "all layers",
        "mean": "the mean of all layers",
        "top": "the top layer",
        "bottom": "the mean of layers 0 and 1",
    }
    return names[layers] if isinstance(layers, str) else f"layer {int(layers)}"


def sense_vectors(layers: Tensor) -> Tensor:
    """Vectors that tell the senses of a word apart: (L + 1, B, T, D) -> (B, T, P + L D).

    The top layer at a word was trained to predict its neighbors. What was trained to predict the
    word itself stands beside it: the forward model one token before, the backward model one token
    after. Both predict through one softmax, so their sum is what both sides together expect at this
    place, be it a bank of money or of a river; the word itself has no part in it. The LSTM layers
    at the word add what the word is. A vector has unit length, so `@` is a cosine; half of its
    square is what is expected, the other half the L layers, in equal parts. Zero at the boundaries.
    """
    import torch
    from torch.nn.functional import normalize, pad

    P, L = layers.shape[-1] // 2, len(layers) - 1
    states = expected_states(layers)[:, 1:-1]  # (B, T - 2, D)
    expected = states[..., :P] + states[..., P:]  # (B, T - 2, P)
    parts = [normalize(part, dim=-1) for part in (expected, *layers[1:, :, 1:-1])]
    scales = [0.5**0.5, *[(0.5 / L) ** 0.5] * L]
    weighed = [part * scale for part, scale in zip(parts, scales, strict=True)]
    return pad(torch.cat(weighed, -1), (0, 0, 1, 1))


def expected_states(layers: Tensor) -> Tensor:
    """What predicts each word, (L + 1, B, T, D) -> (B, T, D); the word itself has no part in it.

    The top layer forward one token before the word, then backward one token after it. Zero at the
    boundaries.
    """
    import torch
    from torch.nn.functional import pad

    *_, top = layers  # (B, T, D)
    P = top.shape[-1] // 2
    return pad(torch.cat([top[:, :-2, :P], top[:, 2:, P:]], -1), (0, 0, 1, 1))
