"""The least time a machine can take: the arithmetic a sentence needs, over the rates measured here.

The floor of a batch is a sum over its steps of the larger of two times: the products for the
sentences that are not over yet, or reading the recurrent weights once. Only matrix products count;
each distinct new word goes through the character CNN once, over its own characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, TokenConfig
from relmo.kernels.cpu_products import Precision, has_bfloat16, make_product
from relmo.kernels.threads import run_both
from relmo.lab.bench.timing import SpeedSeries, timed

Work = Callable[[], object]
WEIGHT_BYTES: dict[Precision, int] = {"float32": 4, "bfloat16": 2, "int8": 1}
BOUNDARIES = 2
"""Tokens of a sentence beside its words."""
MATRIX_WIDTH = 1024
"""Rows and columns of the matrices that are multiplied."""
TRIES = 5
"""Calls per round, of which the best counts."""
MEMORY_MB = 256
"""A block too large for any cache."""


class MachineRates(NamedTuple):
    """What this machine reaches at one precision."""

    flops: float
    """Multiplications and additions per second, in large matrix products."""
    bytes: float
    """Read per second, from a block as large as the recurrent weights of both directions."""


def step_weights(lstm: LstmConfig) -> int:
    """Weights that one step of one layer and direction reads: recurrent ones and projection."""
    return lstm.cell_width * lstm.output_width * (5 if lstm.has_projection else 4)


def input_weights(lstm: LstmConfig) -> int:
    """Weights of one layer and direction that are applied to all tokens at once."""
    return 4 * lstm.cell_width * lstm.output_width


def lstm_flops(lstm: LstmConfig) -> int:
    """Per token: all layers, both directions."""
    return 2 * (step_weights(lstm) + input_weights(lstm)) * 2 * lstm.num_layers


def word_flops(tokens: TokenConfig, word: str) -> int:
    """Of one new word through the character CNN; 0 for a word table."""
    if not isinstance(tokens, CharCnnConfig):
        return 0
    spelled = word.encode(errors="replace") if tokens.scheme == "bytes" else word
    places = min(len(spelled) + 2, tokens.max_characters)  # begin and end of the word
    filters = sum(
        size * count * min(places, tokens.max_characters - size + 1)
        for size, count in tokens.filters
    )
    return 2 * (filters * tokens.character_width + _dense_weights(tokens))


def floor_seconds(
    config: ElmoConfig,
    lengths: Sequence[int],
    new_words: Sequence[str],
    precision: Precision,
    rates: MachineRates,
) -> float:
    """The least time for sentences with this many words each, in one batch."""
    lstm, size = config.lstm, WEIGHT_BYTES[precision]
    counts = [length + BOUNDARIES for length in lengths]
    alive = [sum(count > step for count in counts) for step in range(max(counts, default=0))]
    weights = step_weights(lstm)
    steps = sum(max(2 * weights * n / rates.flops, weights * size / rates.bytes) for n in alive)
    inputs = 2 * input_weights(lstm) * sum(counts) / rates.flops
    seconds = 2 * lstm.num_layers * (steps + inputs)
    if new_words and isinstance(config.tokens, CharCnnConfig):
        arithmetic = sum(word_flops(config.tokens, word) for word in new_words) / rates.flops
        seconds += max(arithmetic, _dense_weights(config.tokens) * size / rates.bytes)
    return seconds


def fraction_of_floor(series: SpeedSeries, config: ElmoConfig, rates: MachineRates) -> float:
    """The least time this machine could take / the time taken, each call a batch of its own."""

    def floor(call: Sequence[Sequence[str]]) -> float:
        new = {word for words in call for word in words} if series.memo == "cold" else set()
        lengths = [len(words) for words in call]
        return floor_seconds(config, lengths, sorted(new), series.precision, rates)

    return median(sum(map(floor, case.calls)) / seconds for case, seconds in series.rounds)


def _dense_weights(tokens: CharCnnConfig) -> int:
    """Weights of the highways and the projection."""
    F = tokens.num_filters
    return 2 * F * F * tokens.num_highways + (F * tokens.width if tokens.has_projection else 0)


class RateMeter:
    """Measures the machine's rates, a little in every round; the best value seen counts.

    A floor is what could be done: moments in which other programs used the cores must not count.

    Args:
        lstm: the model's; the blocks read are as large as its recurrent weights.
    """

    def __init__(self, lstm: LstmConfig) -> None:
        count = 2 * step_weights(lstm)  # both directions run at once
        sizes: dict[str, int] = {p: max(2, count * b // 4) for p, b in WEIGHT_BYTES.items()}
        sizes["memory"] = MEMORY_MB * 2**18  # of float32, as the others
        self._works: dict[tuple[str, str], tuple[int, list[Work]]] = {
            ("multiply", p): (2 * MATRIX_WIDTH**3, _products(p)) for p in WEIGHT_BYTES
        }
        for name, size in sizes.items():
            halves = torch.ones(size).chunk(2)  # each by its own threads, as the engine reads
            self._works["read", name] = 4 * size, [partial(run_both, *(h.sum for h in halves))]
        self._best = dict.fromkeys(self._works, 0.0)

    def measure(self) -> None:
        """Measure one round."""
        for key, (amount, ways) in self._works.items():
            seconds = min(timed(way)[0] for way in ways for _ in range(TRIES))
            self._best[key] = max(self._best[key], amount / seconds)

    def rates(self, precision: Precision) -> MachineRates:
        """For the floor; bfloat16 may be computed in float32."""
        flops = self._best["multiply", precision]
        if precision == "bfloat16":
            flops = max(flops, self._best["multiply", "float32"])
        return MachineRates(flops, self._best["read", precision])

    def to_dict(self) -> dict[str, Any]:
        """As JSON: GFLOP/s and GB/s."""
        giga = {key: round(rate / 1e9, 1) for key, rate in self._best.items()}
        return {
            "gflop_per_second": {p: giga["multiply", p] for p in WEIGHT_BYTES},
            "weights_gb_per_second": {p: giga["read", p] for p in WEIGHT_BYTES},
            "memory_gb_per_second": giga["read", "memory"],
        }


def _products(precision: Precision) -> list[Work]:
    """Ways to multiply at a precision, each with all threads at once and as two halves."""
    x, weight = torch.randn(MATRIX_WIDTH, MATRIX_WIDTH), torch.randn(MATRIX_WIDTH, MATRIX_WIDTH)
    found: list[Work] = []

    def add(multiply: Callable[[Tensor], Tensor], x: Tensor) -> None:
        halves = (partial(multiply, half) for half in x.chunk(2))
        found.extend([partial(multiply, x), partial(run_both, *halves)])

    if precision != "bfloat16" or has_bfloat16():  # else the engine multiplies in float32
        add(make_product(weight, precision), x)
    if precision == "int8":
        ones = torch.ones(MATRIX_WIDTH, MATRIX_WIDTH, dtype=torch.int8)
        add(lambda x: torch._int_mm(x, ones), ones)
    else:
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        right = weight.to(dtype)
        add(lambda x: x @ right, x.to(dtype))
    return found
