"""Sections -> index.html: one page, no scripts, nothing from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
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
from relmo.lab.reports.markdown import NOT_THEIRS, Link

MARKS = {"strong": "strong", "paper": "i", "weak": "small"}
SHORT, LONG = 16, 32
"""Letters of a cell that stays on one line, and of one that needs a wide column."""


def page(title: str, before: Sequence[Block], sections: Sequence[Section], link: Link) -> str:
    """The whole page."""
    own = files("relmo.lab.reports")
    style = "".join(own.joinpath(f"{name}.css").read_text("utf-8") for name in ("picture", "page"))
    return "\n".join([
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>",
        f"<header>\n<h1>{escape(title)}</h1>", *_blocks(before, link), "</header>\n<main>",
        *(_section(section, link) for section in sections),
        "</main>\n</body>\n</html>\n",
    ])  # fmt: skip


def _section(section: Section, link: Link) -> str:
    return "\n".join([
        f'<section id="{section.name}" aria-labelledby="{section.name}-head">',
        f'<h2 id="{section.name}-head">{escape(section.title)}</h2>',
        f'<p class="paper"><b>The paper:</b> {escape(section.paper)}</p>',
        *_blocks(section.blocks, link),
        "</section>",
    ])  # fmt: skip


def _blocks(blocks: Iterable[Block], link: Link) -> list[str]:
    """Claims that follow each other are one list, and so is what is missing."""
    parts = []
    for kind, group in groupby(blocks, type):
        shown = "\n".join(_block(block, link) for block in group)
        if kind is Claim:
            shown = f'<ul class="claims">\n{shown}\n</ul>'
        elif kind is Missing:
            shown = f'<div class="missing">\n<p>Missing:</p>\n<ul>\n{shown}\n</ul>\n</div>'
        elif kind is Caveat:
            shown = f'<div class="missing">\n<p>To keep in mind:</p>\n<ul>\n{shown}\n</ul>\n</div>'
        parts.append(shown)
    return parts


def _block(block: Block, link: Link) -> str:
    match block:
        case Paragraph():
            return f"<p>{_text(block.text, link)}</p>"
        case Missing() | Caveat():
            return f"<li>{escape(block.text)}</li>"
        case Claim():
            verdict = f'<b class="{block.verdict}">{block.verdict}</b>'
            source = "" if block.is_paper else f" <small>({NOT_THEIRS})</small>"
            figures = _text(block.figures, link)
            return f"<li>{escape(block.what)}: {verdict}, {figures}{source}</li>"
        case Table():
            return _table(block, link)
        case Figure():
            pictures = "\n".join(block.pictures.values())
            caption = escape(block.caption)
            return (
                f'<figure>\n<div class="pictures">\n{pictures}\n</div>\n'
                f"<figcaption>{caption}</figcaption>\n</figure>"
            )
        case Details():
            inner = "\n".join(_blocks(block.blocks, link))
            return f"<details>\n<summary>{escape(block.summary)}</summary>\n{inner}\n</details>"


def _table(table: Table, link: Link) -> str:
    """A table in a box that scrolls; rows under one first cell are a body of their own."""
    head = "".join(
        f'<th scope="col"{_side(n, table)}>{escape(cell)}</th>' for n, cell in enumerate(table.head)
    )
    bodies: list[list[Sequence[Text | None]]] = []
    for row in table.rows:
        if row[0] is None and bodies:
            bodies[-1].append(row)
        else:
            bodies.append([row])
    caption = escape(table.caption)
    return "\n".join([
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">',
        f"<table>\n<caption><span>{caption}</span></caption>\n<thead>\n<tr>{head}</tr>\n</thead>",
        *(_body(body, table, link) for body in bodies),
        "</table>\n</div>",
    ])  # fmt: skip


def _body(rows: Sequence[Sequence[Text | None]], table: Table, link: Link) -> str:
    lines = []
    for row in rows:
        cells = []
        for column, cell in enumerate(row):
            if cell is None:
                continue
            tag, more = "td", _side(column, table) or _width(cell)
            if column == 0:
                tag = "th"
                more = f' scope="rowgroup" rowspan="{len(rows)}"' if rows[1:] else ' scope="row"'
            elif column == 1 and rows[1:] and 1 < table.num_words < len(row):
                tag, more = "th", f' scope="row"{more}'
            cells.append(f"<{tag}{more}>{_text(cell, link)}</{tag}>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "<tbody>\n" + "\n".join(lines) + "\n</tbody>"


def _side(column: int, table: Table) -> str:
    return "" if column < table.num_words else ' class="n"'


def _width(cell: Text) -> str:
    """Of words: short ones stay on one line, long ones get room."""
    letters = sum(len(span.text) for span in spans_of(cell))
    return f' class="{"s" if letters <= SHORT else "w" if letters > LONG else "m"}"'


def _text(text: Text, link: Link) -> str:
    return "".join(_span(span, link) for span in spans_of(text))


def _span(span: Span, link: Link) -> str:
    shown = escape(span.text)
    where = link(span.run) if span.run is not None else f"#{span.anchor}" if span.anchor else ""
    title = f' title="{escape(span.title)}"' if span.title else ""
    if where:
        label = f' aria-label="{escape(span.title)}"' if span.title and span.text.isdigit() else ""
        shown = f'<a href="{escape(where)}"{title}{label}>{shown}</a>'
    elif title:
        shown = f"<span{title}>{shown}</span>"
    mark = MARKS.get(span.kind)
    return f"<{mark}>{shown}</{mark}>" if mark else shown
