"""Numbers -> SVG: small pictures that follow the page's colors, light or dark.

    dumbbells   before and after, a row each        curves     a line per series, with ranges
    dots        one number per row                  heat_map   shares, a row each

Each takes the picture's anchor and its accessible name first. A picture is WIDTH wide, so that its
text can be read on a phone; wider screens show several side by side. Colors are classes of
picture.css: `s0` the baseline, `s1`, `s2` … the models, `paper` what others measured; each series
has a mark of its own, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple, TypeAlias

WIDTH = 340
GROUND = "svg { background: var(--paper); }\n"
"""For a picture on its own: the page around it may be light although the system is dark."""
HEAD = 26
"""Height of the heading."""
LETTER = 6.1
"""Approximate width of a letter of a legend."""
MARKS = {
    "s0": '<circle r="4.5"', "paper": '<circle r="4.5"', "s1": '<circle r="5"',
    "s2": '<rect x="-4.5" y="-4.5" width="9" height="9"', "s3": '<path d="M0-6L6 0L0 6L-6 0Z"',
    "s4": '<path d="M0-6L6 5L-6 5Z"',
}  # fmt: skip
"""A ring, a disc, a square, a diamond, a triangle."""
Legend: TypeAlias = Sequence[tuple[str, str]]
"""Marks and what they mean."""


class Series(NamedTuple):
    """A line of a plot."""

    label: str
    mark: str
    """Its class."""
    points: Sequence[tuple[float, float, float, float]]
    """x, y, lowest, highest."""


class PlotRow(NamedTuple):
    """A row of values on a common scale, with published values below them."""

    label: str
    values: Sequence[tuple[str, float]]
    """Class and value."""
    published: Sequence[float] = ()


class Svg:
    """Shapes, one after the other, under a heading that is the picture's name."""

    def __init__(self, name: str, title: str, description: str, height: float) -> None:
        size = f'viewBox="0 -{HEAD} {WIDTH} {_at(height + HEAD)}"'
        self._parts = [
            f'<svg role="img" aria-labelledby="{name}-title {name}-desc" '
            f'{size} width="{WIDTH}" height="{_at(height + HEAD)}">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-desc">{escape(description)}</desc>',
        ]
        self.text(2, -10, title, "heading")

    def text(self, x: float, y: float, text: str, mark: str = "", anchor: str = "start") -> None:
        """Words on a baseline."""
        self._parts.append(
            f'<text x="{_at(x)}" y="{_at(y)}" class="{mark}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, mark: str) -> None:
        """A straight line."""
        ends = f'x1="{_at(x1)}" y1="{_at(y1)}" x2="{_at(x2)}" y2="{_at(y2)}"'
        self._parts.append(f'<line {ends} class="{mark}"/>')

    def path(self, points: Sequence[tuple[float, float]], mark: str) -> None:
        """A line through points."""
        where = " ".join(f"{_at(x)},{_at(y)}" for x, y in points)
        self._parts.append(f'<polyline points="{where}" class="line {mark}"/>')

    def rect(self, x: float, y: float, width: float, height: float, opacity: float) -> None:
        """A cell of a heat map."""
        size = f'x="{_at(x)}" y="{_at(y)}" width="{_at(width)}" height="{_at(height)}" rx="3"'
        self._parts.append(f'<rect {size} class="heat" fill-opacity="{opacity:.2f}"/>')

    def dot(self, x: float, y: float, mark: str) -> None:
        """The mark of a series."""
        place = f'class="mark {mark}" transform="translate({_at(x)} {_at(y)})"'
        self._parts.append(f"{MARKS[mark]} {place}/>")

    def legend(self, entries: Legend) -> None:
        """Marks and what they mean, in one row."""
        x = 8.0
        for mark, label in entries:
            self.dot(x, 8, mark)
            self.text(x + 9, 12, label, "small")
            x += 9 + LETTER * len(label) + 16

    def grid(self, scale: _Scale, bottom: float) -> None:
        """Vertical lines at the ticks of a scale."""
        for tick in scale.ticks:
            self.line(scale(tick), 26, scale(tick), bottom, "grid")
            self.text(scale(tick), bottom + 16, f"{tick:g}", "small", "middle")

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</svg>"])


def standalone(picture: str) -> str:
    """A picture as a file of its own, with the colors that a page would give it."""
    style = files("relmo.lab.reports").joinpath("picture.css").read_text("utf-8")
    begin, rest = picture.split(">", 1)
    return f'{begin} xmlns="http://www.w3.org/2000/svg">\n<style>\n{style}{GROUND}</style>{rest}\n'


def dumbbells(name: str, title: str, rows: Sequence[PlotRow], models: Legend) -> str:
    """Rows of values joined by a line, the paper's below them."""
    values = [value for row in rows for _, value in row.values]
    scale = _Scale([*values, *(v for row in rows for v in row.published)], 46, WIDTH - 46)
    names, bottom = dict(models), 28 + 62 * len(rows)
    each = (
        f"{row.label}: {', '.join(f'{names[mark]} {value:.1f}' for mark, value in row.values)}"
        for row in rows
    )
    svg = Svg(name, title, f"{'; '.join(each)}.", bottom + 24)
    svg.legend([*models, ("paper", "the paper")])
    svg.grid(scale, bottom)
    for number, row in enumerate(rows):
        y = 44 + 62 * number
        svg.text(2, y, row.label, "label")
        _dumbbell(svg, scale, y + 17, row.values, "")
        if row.published:
            _dumbbell(svg, scale, y + 32, [("paper", value) for value in row.published], "paper")
    return str(svg)


def _dumbbell(
    svg: Svg, scale: _Scale, y: float, values: Sequence[tuple[str, float]], mark: str
) -> None:
    low, high = min(value for _, value in values), max(value for _, value in values)
    svg.line(scale(low), y, scale(high), y, f"join {mark}")
    for own, value in reversed(values):  # the baseline's ring last, so that nothing hides it
        svg.dot(scale(value), y, own)
    svg.text(scale(low) - 9, y + 4, f"{low:.1f}", f"small {mark}", "end")
    if high > low:
        svg.text(scale(high) + 9, y + 4, f"{high:.1f}", f"small {mark}")


def dots(name: str, title: str, rows: Sequence[tuple[str, str, float]], legend: Legend) -> str:
    """One value per row, on a scale that need not start at zero; a row is label, mark, value."""
    scale = _Scale([value for _, _, value in rows], 140, WIDTH - 46)
    words = ", ".join(f"{label} {value:.1f}" for label, _, value in rows)
    bottom = 28 + 24 * len(rows)
    svg = Svg(name, title, f"{words}.", bottom + 24)
    svg.legend(legend)
    svg.grid(scale, bottom)
    for number, (label, mark, value) in enumerate(rows):
        y = 42 + 24 * number
        svg.text(2, y + 4, label, "small")
        svg.dot(scale(value), y, mark)
        svg.text(scale(value) + 10, y + 4, f"{value:.1f}", "small")
    return str(svg)


def curves(
    name: str,
    title: str,
    description: str,
    series: Sequence[Series],
    x_label: str,
    ticks: Sequence[tuple[float, str]],
    *,
    is_log: bool = False,
    digits: int = 0,
) -> str:
    """Lines with a bar from the lowest to the highest value at each point."""
    points = [point for one in series for point in one.points]
    y_scale = _Scale([y for _, *ys in points for y in ys], 200, 30)
    place = math.log if is_log else float
    first, last = place(ticks[0][0]), place(ticks[-1][0])

    def at(x: float) -> float:
        return 40 + (WIDTH - 60) * ((place(x) - first) / ((last - first) or 1))

    svg = Svg(name, title, description, 240)
    svg.legend([(one.mark, one.label) for one in series])
    for tick in y_scale.ticks:
        svg.line(34, y_scale(tick), WIDTH - 10, y_scale(tick), "grid")
        svg.text(30, y_scale(tick) + 4, f"{tick:.{max(digits, y_scale.digits)}f}", "small", "end")
    for x, label in ticks:
        svg.text(at(x), 217, label, "small", "middle")
    svg.text(WIDTH / 2, 234, x_label, "small", "middle")
    for one in series:
        svg.path([(at(x), y_scale(y)) for x, y, _, _ in one.points], one.mark)
        for x, y, low, high in one.points:
            if high > low:
                svg.line(at(x), y_scale(low), at(x), y_scale(high), f"spread {one.mark}")
            svg.dot(at(x), y_scale(y), one.mark)
    return str(svg)


def heat_map(
    name: str,
    title: str,
    rows: Sequence[tuple[str, Sequence[float], str]],
    columns: Sequence[str],
    last: str,
) -> str:
    """Rows of shares 0 to 1, in a stronger color if larger, and a text under `last` at the end."""
    left, cell = 138, (WIDTH - 138 - 46) / max(len(columns), 1)
    each = (f"{label} {', '.join(f'{share:.2f}' for share in shares)}" for label, shares, _ in rows)
    svg = Svg(name, title, f"{'; '.join(each)}.", 28 + 30 * len(rows))
    for number, column in enumerate(columns):
        svg.text(left + cell * (number + 0.5), 16, column, "small", "middle")
    svg.text(WIDTH - 4, 16, last, "small", "end")
    for number, (label, shares, end) in enumerate(rows):
        y = 24 + 30 * number
        svg.text(2, y + 18, label, "small")
        for place, share in enumerate(shares):
            strength = min(0.7, 1.2 * share)  # no stronger, so that text on it can be read
            svg.rect(left + cell * place + 1, y, cell - 2, 26, strength)
            svg.text(left + cell * (place + 0.5), y + 18, f"{share:.2f}", "cell", "middle")
        svg.text(WIDTH - 4, y + 18, end, "small", "end")
    return str(svg)


class _Scale:
    """Values -> positions, with round ticks on both sides of all values."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        low, high = min(values), max(values)
        raw = ((high - low) or abs(high) or 1.0) / 5
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
        first, last = math.floor(low / step), math.ceil(high / step)
        self.ticks = [step * count for count in range(first, max(last, first + 1) + 1)]
        self.digits = max(0, -math.floor(math.log10(step))) + (step / size == 2.5)
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        return self._begin + (self._end - self._begin) * (value - low) / (high - low)


def _at(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
