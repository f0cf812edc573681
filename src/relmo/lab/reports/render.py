"""Sections -> report.md, as GitHub shows it, and index.html, a single page without scripts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from html import escape, unescape
from importlib.resources import files
from itertools import groupby
from string import Template

from relmo.lab.reports import page
from relmo.lab.reports.records import RunFile

NOT_THEIRS = "not in the paper"
"""Follows a claim that the paper does not make."""
SHORT, LONG = 16, 32
"""Characters of a cell that stays on one line, and of one that needs a wide column."""
LISTS = {
    page.Claim: '<ul class="claims">\n{}\n</ul>',
    page.Missing: '<div class="missing">\n<p>Missing:</p>\n<ul>\n{}\n</ul>\n</div>',
    page.Caveat: '<div class="missing">\n<p>Keep in mind:</p>\n<ul>\n{}\n</ul>\n</div>',
}
"""How HTML shows adjacent blocks of a kind."""
EMPHASIS = {"strong": "strong", "paper": "i", "weak": "small"}
CODE = re.compile("`([^`]+)`")
"""What a remark shows as code, such as the command that makes a missing record."""


class Renderer(ABC):
    """Blocks as text of one format."""

    def __init__(self, link: Callable[[RunFile], str]) -> None:
        self.link = link

    def text(self, text: page.Text) -> str:
        """Spans, one after the other."""
        return "".join(self._span(span) for span in page.text(text))

    def blocks(self, blocks: Iterable[page.Block]) -> list[str]:
        """Blocks in order; adjacent claims form a list, and so do adjacent remarks."""
        grouped = groupby(blocks, type)
        return [self._group(kind, [self._block(block) for block in own]) for kind, own in grouped]

    @abstractmethod
    def _span(self, span: page.Span) -> str: ...

    @abstractmethod
    def _block(self, block: page.Block) -> str: ...

    @abstractmethod
    def _group(self, kind: type[page.Block], shown: Sequence[str]) -> str:
        """Adjacent blocks of one kind, each already rendered."""


class Markdown(Renderer):
    """GitHub's Markdown."""

    def report(self, head: page.Section, sections: Sequence[page.Section]) -> str:
        """The whole report, from its title and introduction on."""
        parts = [f"# {head.title}", *self.blocks(head.blocks)]
        for section in sections:
            parts += [f'<a id="{section.name}"></a>\n\n## {section.title}']
            parts += [f"*The paper:* {_escaped(section.paper)}", *self.blocks(section.blocks)]
        return "\n\n".join(parts) + "\n"

    def _group(self, kind: type[page.Block], shown: Sequence[str]) -> str:
        return ("\n" if kind in (page.Claim, page.Missing, page.Caveat) else "\n\n").join(shown)

    def _block(self, block: page.Block) -> str:
        match block:
            case page.Paragraph():
                return self.text(block.text)
            case page.Missing():
                return f"- Missing: {_remark(block.text)}"
            case page.Caveat():
                return f"- Note: {_remark(block.text)}"
            case page.Claim():
                source = "" if block.is_paper else f" ({NOT_THEIRS})"
                figures = self.text(block.figures)
                return f"- {_escaped(block.what)}: **{block.verdict}**, {figures}{source}"
            case page.Table():
                return self._table(block)
            case page.Figure():
                titles = {n: re.search(r"<title[^>]*>(.*?)<", p) for n, p in block.pictures.items()}
                pictures = (f"![{unescape(t[1])}]({n}.svg)" for n, t in titles.items() if t)
                return "\n".join(pictures) + f"\n\n*{_escaped(block.caption)}*"
            case page.Details():
                inner = "\n\n".join(self.blocks(block.blocks))
                summary = _escaped(block.summary)
                return f"<details><summary>{summary}</summary>\n\n{inner}\n\n</details>"

    def _table(self, table: page.Table) -> str:
        sides = ["---"] * table.num_words + ["---:"] * (len(table.head) - table.num_words)
        lines = [[_escaped(cell) for cell in table.head], sides]
        lines += [["" if cell is None else self.text(cell) for cell in row] for row in table.rows]
        rows = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"**{_escaped(table.caption)}**\n\n{rows}"

    def _span(self, span: page.Span) -> str:
        """Text, linked to its record or a section, bold or in italics."""
        shown = _escaped(span.text)
        if span.run is not None:
            shown = f"[{shown}]({self.link(span.run)})"
        elif span.anchor:
            shown = f"[{shown}](#{span.anchor})"
        marks, inner = {"strong": "**", "paper": "*"}.get(span.kind, ""), shown.strip()
        return shown.replace(inner, f"{marks}{inner}{marks}", 1) if marks and inner else shown


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)


def _remark(text: str) -> str:
    """Escaped text in which `code` is code."""
    parts = CODE.split(text)  # every second one is code
    return "".join(f"`{part}`" if n % 2 else _escaped(part) for n, part in enumerate(parts))


class Html(Renderer):
    """One page that loads nothing from elsewhere."""

    def report(self, head: page.Section, sections: Sequence[page.Section]) -> str:
        """The whole page, from its title and introduction on."""
        own = files("relmo.lab.reports")
        style = "".join(own.joinpath(f"{n}.css").read_text("utf-8") for n in ("picture", "page"))
        return Template(own.joinpath("page.html").read_text("utf-8")).substitute(
            title=escape(head.title),
            style=style,
            before="\n".join(self.blocks(head.blocks)),
            sections="\n".join(self._section(section) for section in sections),
        )

    def _section(self, section: page.Section) -> str:
        return "\n".join([
            f'<section id="{section.name}" aria-labelledby="{section.name}-head">',
            f'<h2 id="{section.name}-head">{escape(section.title)}</h2>',
            f'<p class="paper"><b>The paper:</b> {escape(section.paper)}</p>',
            *self.blocks(section.blocks),
            "</section>",
        ])  # fmt: skip

    def _group(self, kind: type[page.Block], shown: Sequence[str]) -> str:
        return LISTS.get(kind, "{}").replace("{}", "\n".join(shown))

    def _block(self, block: page.Block) -> str:
        match block:
            case page.Paragraph():
                return f"<p>{self.text(block.text)}</p>"
            case page.Missing() | page.Caveat():
                text = CODE.sub(r"<code>\1</code>", escape(block.text))
                return f"<li>{text}</li>"
            case page.Claim():
                verdict = f'<b class="{block.verdict}">{block.verdict}</b>'
                source = "" if block.is_paper else f" <small>({NOT_THEIRS})</small>"
                figures = self.text(block.figures)
                return f"<li>{escape(block.what)}: {verdict}, {figures}{source}</li>"
            case page.Table():
                return self._table(block)
            case page.Figure():
                pictures = "\n".join(block.pictures.values())
                return (
                    f'<figure>\n<div class="pictures">\n{pictures}\n</div>\n'
                    f"<figcaption>{escape(block.caption)}</figcaption>\n</figure>"
                )
            case page.Details():
                inner = "\n".join(self.blocks(block.blocks))
                return f"<details>\n<summary>{escape(block.summary)}</summary>\n{inner}\n</details>"

    def _table(self, table: page.Table) -> str:
        """A table in a box that scrolls; rows under one first cell form a body."""
        head = "".join(
            f'<th scope="col"{_side(n, table)}>{escape(cell)}</th>'
            for n, cell in enumerate(table.head)
        )
        bodies: list[list[page.Row]] = []
        for row in table.rows:
            if row[0] is None and bodies:
                bodies[-1].append(row)
            else:
                bodies.append([row])
        caption = escape(table.caption)
        return "\n".join([
            f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">',
            f"<table>\n<caption><span>{caption}</span></caption>",
            f"<thead>\n<tr>{head}</tr>\n</thead>",
            *(self._body(body, table) for body in bodies),
            "</table>\n</div>",
        ])  # fmt: skip

    def _body(self, rows: Sequence[page.Row], table: page.Table) -> str:
        lines = []
        for row in rows:
            cells = []
            for column, cell in enumerate(row):
                if cell is None:
                    continue
                tag, more = "td", _side(column, table) or _width(cell)
                if column == 0:
                    span = f' scope="rowgroup" rowspan="{len(rows)}"'
                    tag, more = "th", span if rows[1:] else ' scope="row"'
                elif column == 1 and rows[1:] and 1 < table.num_words < len(row):
                    tag, more = "th", f' scope="row"{more}'
                cells.append(f"<{tag}{more}>{self.text(cell)}</{tag}>")
            lines.append(f"<tr>{''.join(cells)}</tr>")
        return "<tbody>\n" + "\n".join(lines) + "\n</tbody>"

    def _span(self, span: page.Span) -> str:
        """Text, linked to its record or a section, with its tooltip."""
        shown, title = escape(span.text), f' title="{escape(span.title)}"' if span.title else ""
        where = f"#{span.anchor}" if span.anchor else ""
        if span.run is not None:
            where = self.link(span.run)
        if where:
            is_seed = span.title and span.text.isdigit()
            label = f' aria-label="{escape(span.title)}"' if is_seed else ""
            shown = f'<a href="{escape(where)}"{title}{label}>{shown}</a>'
        elif title:
            shown = f"<span{title}>{shown}</span>"
        mark = EMPHASIS.get(span.kind)
        return f"<{mark}>{shown}</{mark}>" if mark else shown


def _side(column: int, table: page.Table) -> str:
    """Class of a column of numbers."""
    return "" if column < table.num_words else ' class="n"'


def _width(cell: page.Text) -> str:
    """Class of a cell of words: short ones stay on one line, long ones get a wide column."""
    letters = sum(len(span.text) for span in page.text(cell))
    return f' class="{"s" if letters <= SHORT else "w" if letters > LONG else "m"}"'
