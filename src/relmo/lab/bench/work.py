"""How much arithmetic a sentence needs, and the least time a machine can take for it.

The floor of a batch is a sum over its steps of whichever takes longer: the products of the
sentences that are alive, or one look at the recurrent weights. Nothing but products is counted,
each distinct new word goes through the character CNN once and over its own letters only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, TokenConfig
from relmo.kernels.cpu_products import Precision

BYTES: dict[Precision, int] = {"float32": 4, "bfloat16": 2, "int8": 1}
"""Of one weight."""
BOUNDARIES = 2
"""Tokens that a sentence has beyond its words."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What this machine does at one precision."""

    flops: float
    """Multiplications and additions per second, in large matrix products."""
    bytes: float
    """Read per second, from a block as large as the recurrent weights of both directions."""


def step_weights(lstm: LstmConfig) -> int:
    """Weights that one step of one layer and direction reads: recurrent ones and projection."""
    P, H = lstm.output_width, lstm.cell_width
    return 4 * H * P + (H * P if lstm.has_projection else 0)


def input_weights(lstm: LstmConfig) -> int:
    """Weights of one layer and direction that tokens meet before the steps."""
    return 4 * lstm.cell_width * lstm.output_width


def lstm_flops(lstm: LstmConfig) -> int:
    """Per token: all layers, both directions."""
    return 2 * (step_weights(lstm) + input_weights(lstm)) * 2 * lstm.num_layers


def word_flops(tokens: TokenConfig, word: str) -> int:
    """Of one new word through the character CNN; 0 where words are looked up."""
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
    rates: Rates,
) -> float:
    """The least time for sentences of these lengths, boundaries not counted, in one batch."""
    lstm, size = config.lstm, BYTES[precision]
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


def _dense_weights(tokens: CharCnnConfig) -> int:
    """Weights of the highways and the projection."""
    F = tokens.num_filters
    return 2 * F * F * tokens.num_highways + (F * tokens.width if tokens.has_projection else 0)
