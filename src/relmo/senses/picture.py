"""A picture of a word's change: its places as two clouds, and the shares of its senses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from relmo.errors import ConfigError, need_extra
from relmo.files import replacing
from relmo.senses.change import WordChange
from relmo.types import Vectors
from relmo.vectors.writer import check_place

COLORS = {"before": "#8a8a8a", "after": "#c2410c"}
SHOWN_WORDS = 3
"""Substitutes that name a sense."""


def check_picture(path: Path) -> None:
    """Raise, before any work, if a picture cannot be written there."""
    if path.suffix.lower() != ".svg":
        raise ConfigError(f"{path}: the picture must end in .svg")
    need_extra("report")
    check_place(path)


def draw_change(change: WordChange, path: Path) -> None:
    """Draw as SVG, the same bytes for the same change."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "relmo", "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        clouds, bars = figure.subplots(1, 2, width_ratios=(1.2, 1))
        points = principal_axes(change.vectors)
        for name, part in zip(COLORS, np.split(points, [change.before]), strict=True):
            label = f"{name} ({len(part)})"
            clouds.scatter(*part.T, s=14, alpha=0.6, linewidths=0, c=COLORS[name], label=label)
        clouds.set(xticks=[], yticks=[], title=f"places of “{change.word}”, two main axes")
        clouds.legend(frameon=False)
        heights = np.arange(len(change.senses))
        for offset, name in zip((-0.2, 0.2), COLORS, strict=True):
            shares = [100 * sense[name] for sense in change.senses]
            bars.barh(heights + offset, shares, 0.38, color=COLORS[name], label=name)
        names = [
            ", ".join(sense["substitutes"][:SHOWN_WORDS]) or f"sense {number}"
            for number, sense in enumerate(change.senses, 1)
        ]
        bars.set_yticks(heights, names)
        bars.invert_yaxis()
        bars.set(xlabel="% of places", title=f"senses, JSD {change.jsd.value:.2f}")
        for axes in (clouds, bars):
            axes.spines[["top", "right"]].set_visible(False)
        with replacing(path, follow=True) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})


def principal_axes(vectors: Vectors) -> Vectors:
    """The two directions in which vectors vary most, (N, P) -> (N, 2)."""
    spread = vectors - vectors.mean(0)
    _, _, axes = np.linalg.svd(spread, full_matrices=False)
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]  # always one way
    found: Vectors = np.pad(spread @ axes[:2].T, ((0, 0), (0, 2 - min(2, len(axes)))))
    return found
