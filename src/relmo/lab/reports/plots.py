"""Numbers -> SVG: small pictures that follow the page's colours, light or dark.

    dumbbells   before and after, a row each        curves     a line per series, with spread
    dots        one number per row                  heat_map   shares, a row each

A picture is WIDTH wide, so that its letters can be read on a phone; several stand side by side on
wider screens. Colours are classes that picture.css knows: `s0` the baseline, `s1`, `s2` … the
models, `paper` what others measured; each series has a mark of its own, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

WIDTH = 340
GROUND = "svg { background: var(--paper); }\n"
"""Of a picture by itself: the page around it may be light where its reader's system is dark."""
HEAD = 26
"""Room for the heading."""
LETTER = 6.1
"""Width of a letter of a legend, about."""


@dataclass(frozen=True)
class Series:
    """A line of a plot."""

    label: str
    mark: str
    """Its class."""
    points: Sequence[tuple[float, float, float, float]]
    """x, y, lowest, highest."""


@dataclass(frozen=True)
class PlotRow:
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
        """Words, on a baseline."""
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
        """The mark of a series: a ring, a disc, a square, a diamond."""
        place = f'class="mark {mark}" transform="translate({_at(x)} {_at(y)})"'
        shape = {"s1": '<circle r="5"', "s2": '<rect x="-4.5" y="-4.5" width="9" height="9"'}
        others = '<circle r="4.5"' if mark in ("s0", "paper") else '<path d="M0-6L6 0L0 6L-6 0Z"'
        self._parts.append(f"{shape.get(mark, others)} {place}/>")

    def legend(self, entries: Sequence[tuple[str, str]], y: float = 12) -> None:
        """Marks and what they mean, in one row."""
        x = 8.0
        for mark, label in entries:
            self.dot(x, y - 4, mark)
            self.text(x + 9, y, label, "small")
            x += 9 + LETTER * len(label) + 16

    def grid(self, legend: Sequence[tuple[str, str]], scale: _Scale, bottom: float) -> None:
        """A legend, and vertical lines at the ticks of a scale."""
        self.legend(legend)
        for tick in scale.ticks:
            self.line(scale(tick), 26, scale(tick), bottom, "grid")
            self.text(scale(tick), bottom + 16, f"{tick:g}", "small", "middle")

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</svg>"])


def standalone(picture: str) -> str:
    """A picture as a file of its own, with the colours that a page would give it."""
    style = files("relmo.lab.reports").joinpath("picture.css").read_text("utf-8")
    begin, rest = picture.split(">", 1)
    return f'{begin} xmlns="http://www.w3.org/2000/svg">\n<style>\n{style}{GROUND}</style>{rest}\n'


def dumbbells(
    name: str,
    title: str,
    rows: Sequence[PlotRow],
    models: Sequence[tuple[str, str]],
    others: tuple[str, str],
) -> str:
    """Rows of values, joined by a line; the label stands above.

    Args:
        name: its anchor.
        title: its accessible name.
        rows: what it shows.
        models: class and name of each series.
        others: class and name of the published values.
    """
    scale = _Scale([v for row in rows for v in (*_values(row), *row.published)], 46, WIDTH - 46)
    names = dict(models)
    each = (
        f"{row.label}: {', '.join(f'{names[mark]} {v:.1f}' for mark, v in row.values)}"
        for row in rows
    )
    svg = Svg(name, title, f"{'; '.join(each)}.", 34 + 62 * len(rows) + 18)
    svg.grid([*models, others], scale, 28 + 62 * len(rows))
    for number, row in enumerate(rows):
        y = 44 + 62 * number
        svg.text(2, y, row.label, "label")
        _joined(svg, scale, y + 17, row.values, "")
        if row.published:
            _joined(svg, scale, y + 32, [(others[0], v) for v in row.published], others[0])
    return str(svg)


def _values(row: PlotRow) -> list[float]:
    return [value for _, value in row.values]


def _joined(
    svg: Svg, scale: _Scale, y: float, values: Sequence[tuple[str, float]], mark: str
) -> None:
    """Marks on a line from the lowest to the highest value, both labelled."""
    low, *_, high = sorted(value for _, value in values) * 2
    svg.line(scale(low), y, scale(high), y, f"join {mark}")
    for own, value in reversed(values):  # the baseline's ring last, so that nothing hides it
        svg.dot(scale(value), y, own)
    svg.text(scale(low) - 9, y + 4, f"{low:.1f}", f"small {mark}", "end")
    if high > low:
        svg.text(scale(high) + 9, y + 4, f"{high:.1f}", f"small {mark}")


def dots(name: str, title: str, rows: Sequence[PlotRow], legend: Sequence[tuple[str, str]]) -> str:
    """Rows with one value each; the label stands to the left."""
    words = ", ".join(f"{row.label} {_values(row)[0]:.1f}" for row in rows)
    scale = _Scale([_values(row)[0] for row in rows], 140, WIDTH - 46)
    svg = Svg(name, title, f"{words}.", 34 + 24 * len(rows) + 18)
    svg.grid(legend, scale, 28 + 24 * len(rows))
    for number, row in enumerate(rows):
        ((mark, value),) = row.values
        y = 42 + 24 * number
        svg.text(2, y + 4, row.label, "small")
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
    """Lines with a bar from the lowest to the highest at each point."""
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
    """Rows of shares 0 to 1, darker if larger, and a text at the end of each.

    Args:
        name: its anchor.
        title: its accessible name.
        rows: label, shares, text at the end.
        columns: heads of the shares.
        last: head of the texts.
    """
    each = (f"{label} {', '.join(f'{share:.2f}' for share in shares)}" for label, shares, _ in rows)
    left, cell = 138, (WIDTH - 138 - 46) / max(len(columns), 1)
    svg = Svg(name, title, f"{'; '.join(each)}.", 28 + 30 * len(rows))
    for number, column in enumerate(columns):
        svg.text(left + cell * (number + 0.5), 16, column, "small", "middle")
    svg.text(WIDTH - 4, 16, last, "small", "end")
    for number, (label, shares, end) in enumerate(rows):
        y = 24 + 30 * number
        svg.text(2, y + 18, label, "small")
        for place, share in enumerate(shares):
            strength = min(0.7, 1.2 * share)  # no stronger than letters on it can be read
            svg.rect(left + cell * place + 1, y, cell - 2, 26, strength)
            svg.text(left + cell * (place + 0.5), y + 18, f"{share:.2f}", "cell", "middle")
        svg.text(WIDTH - 4, y + 18, end, "small", "end")
    return str(svg)


class _Scale:
    """Values -> places, with round ticks that hold all values between them."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        low, high = min(values), max(values)
        room = (high - low) or abs(high) or 1.0
        raw = room / 5
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
    """A coordinate: one digit after the point, none where it is zero."""
    return f"{value:.1f}".removesuffix(".0")
