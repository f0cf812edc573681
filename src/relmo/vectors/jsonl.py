"""JSON lines: {"line": 0, "tokens": [...], "layers": [[[...]]]}, one object per input line.

`layers` is always a list of layers, even of one. Numbers are printed with the fewest digits that
read back as the same float32 (float16); for magnitudes below 1e-13 or above 1e27 as many as are
always enough. Not-a-number and infinity, which JSON lacks, are printed as Python's json does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from relmo.vectors.formats import About
    from relmo.vectors.record import Record

_DIGITS = {2: (3, 4, 5), 4: (6, 7, 8, 9)}
"""Bytes of a number -> how many digits to try: all decimals of the first survive being stored in
it, and the last tell any two numbers apart."""

_POWERS = 10.0 ** np.arange(23)
"""The powers of ten that float64 holds exactly."""


def write(records: Iterable[Record], about: About, path: Path) -> None:
    """Write one object per line. The format has no place for what `about` says."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        for record in records:
            tokens = json.dumps(record.tokens)  # ASCII: lone surrogates and odd line ends survive
            file.write(f'{{"line": {record.line}, "tokens": {tokens}, "layers": ')
            file.write(_print_array(record.layers))
            file.write("}\n")


def _print_array(layers: NDArray[np.floating[Any]]) -> str:
    """(layers, T, D) as JSON."""
    short = shortest(layers)
    if not np.isfinite(short).all() or np.any(np.signbit(short) & (short == 0)):
        return json.dumps(short.tolist())  # slower; %g would lose the sign of -0.0
    row = f"[{','.join(['%.9g'] * layers.shape[-1])}]"
    printed = (",".join([row % tuple(vector) for vector in layer]) for layer in short.tolist())
    return f"[{','.join([f'[{layer}]' for layer in printed])}]"


def shortest(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Each value as the float64 with the fewest decimal digits that rounds to that value.

    Decimal digits are tried on all values at once: scaled to an integer of so many digits, rounded,
    scaled back. Within the exact powers of ten both scalings are exact enough that the result is
    the float64 nearest to the decimal, whose printed form is then that decimal.
    """
    wide = values.astype(np.float64)
    size = np.abs(wide)
    exponent = np.zeros(values.shape, np.int64)
    left = (size >= 1e-13) & (size < 1e27)
    exponent[left] = np.floor(np.log10(size[left]))
    short = wide.copy()
    for digits in _DIGITS[values.dtype.itemsize]:
        places = digits - 1 - exponent
        up, down = _POWERS[np.maximum(places, 0)], _POWERS[np.maximum(-places, 0)]
        rounded = np.rint(wide * up / down) / up * down
        fits = left & (rounded.astype(values.dtype) == values)
        short[fits] = rounded[fits]
        left &= ~fits
    return short
