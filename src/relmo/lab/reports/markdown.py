"""Sections -> report.md, as GitHub shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import unescape
from itertools import groupby

from relmo.lab.reports.blocks import (
    Block,
    Caveat,
    Claim,
    Details,
    Figure,
    Missing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    spans_of,
)
from relmo.lab.reports.records import Run

Link = Callable[[Run], str]
NOT_THEIRS = "not in the paper"
"""Stands behind a claim that is not the paper's."""


def markdown(title: str, before: Sequence[Block], sections: Sequence[Section], link: Link) -> str:
    """The whole report."""
    parts = [f"# {title}", *_blocks(before, link)]
    for section in sections:
        parts += [f'<a id="{section.name}"></a>\n\n## {section.title}']
        parts += [f"*The paper:* {_escaped(section.paper)}", *_blocks(section.blocks, link)]
    return "\n\n".join(parts) + "\n"


def picture_title(svg: str) -> str:
    """The accessible name of a picture."""
    found = re.search(r"<title[^>]*>(.*?)</title>", svg)
    return unescape(found[1]) if found else ""


def _blocks(blocks: Iterable[Block], link: Link) -> list[str]:
    """Claims that follow each other are one list, and so is what is missing."""
    parts = []
    for kind, group in groupby(blocks, type):
        shown = [_block(block, link) for block in group]
        parts.append(("\n" if kind in (Claim, Missing, Caveat) else "\n\n").join(shown))
    return parts


def _block(block: Block, link: Link) -> str:
    match block:
        case Paragraph():
            return _text(block.text, link)
        case Missing():
            return f"- Missing: {_escaped(block.text)}"
        case Caveat():
            return f"- Mind: {_escaped(block.text)}"
        case Claim():
            what, figures = _escaped(block.what), _text(block.figures, link)
            source = "" if block.is_paper else f" ({NOT_THEIRS})"
            return f"- {what}: **{block.verdict}**, {figures}{source}"
        case Table():
            return _table(block, link)
        case Figure():
            named = block.pictures.items()
            pictures = "\n".join(f"![{picture_title(svg)}]({name}.svg)" for name, svg in named)
            return f"{pictures}\n\n*{_escaped(block.caption)}*"
        case Details():
            inner = "\n\n".join(_blocks(block.blocks, link))
            summary = _escaped(block.summary)
            return f"<details><summary>{summary}</summary>\n\n{inner}\n\n</details>"


def _table(table: Table, link: Link) -> str:
    sides = ["---"] * table.num_words + ["---:"] * (len(table.head) - table.num_words)
    lines = [[_escaped(cell) for cell in table.head], sides]
    lines += [["" if cell is None else _text(cell, link) for cell in row] for row in table.rows]
    rows = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"**{_escaped(table.caption)}**\n\n{rows}"


def _text(text: Text, link: Link) -> str:
    return "".join(_span(span, link) for span in spans_of(text))


def _span(span: Span, link: Link) -> str:
    shown = _escaped(span.text)
    if span.run is not None:
        shown = f"[{shown}]({link(span.run)})"
    elif span.anchor:
        shown = f"[{shown}](#{span.anchor})"
    marks = {"strong": "**", "paper": "*"}.get(span.kind, "")
    inner = shown.strip()
    if not marks or not inner:
        return shown
    return shown.replace(inner, f"{marks}{inner}{marks}", 1)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
