"""The report: all records below a folder -> report.md, index.html and their pictures.

    write_report(Path("experiments"), Path("docs/report"))

The same records always give the same bytes: no date, version or machine is part of the output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from relmo.errors import ConfigError
from relmo.files import make_folder, replacing
from relmo.lab.reports import efficiency, grammar, layers, page, probes, tasks
from relmo.lab.reports.groups import Records
from relmo.lab.reports.plots import standalone
from relmo.lab.reports.records import TEXTS, RunFile
from relmo.lab.reports.render import Html, Markdown
from relmo.progress import progress, working

TITLE = TEXTS["report"]["title"]
SECTIONS: tuple[Callable[[Records], page.Section], ...] = (
    tasks.table_1,
    *(partial(layers.compare_settings, name=name) for name in ("layers", "places")),
    efficiency.figure_1,
    layers.figure_2,
    probes.table_4,
    *(partial(probes.scores_by_layer, name=name) for name in ("senses", "tags", "wic")),
    probes.intrinsic,
    grammar.minimal_pairs,
    probes.table_7,
)
OTHER_TASKS = (
    "probe-wsd", "probe-pos", "probe-wic", "neighbors", "probe-intrinsic", "probe-blimp",
    "tuned-perplexity",
)  # fmt: skip
"""What sections show besides runs of tasks."""


def write_report(runs: Path, output: Path) -> dict[str, Any]:
    """Write the report of a folder of runs, and summarize what it contains.

    Pictures of an older report that are no longer part of it are deleted.
    """
    with working(f"reading the records below {runs}"):
        records = Records.read(runs)
    sections = sections_of(records)
    with working("writing tables and figures"):
        made = make_report(records, sections, output)
    earlier = _pictures_of(output)
    make_folder(output)
    for name, text in made.items():
        with replacing(output / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    for name in earlier - made.keys():
        (output / name).unlink(missing_ok=True)
    claims = [claim for section in sections for claim in section.claims]
    findings = [claim.holds for claim in claims if claim.is_paper]
    others = [claim.holds for claim in claims if not claim.is_paper]
    return {
        "records": len(records.runs),
        "findings": len(findings),
        "findings_that_hold": sum(findings),
        "others": len(others),
        "others_that_hold": sum(others),
        "output": str(output / "index.html"),
    }


def sections_of(records: Records) -> list[page.Section]:
    """All sections in the report's order; one without records says so."""
    sections = progress(SECTIONS, len(SECTIONS), "sections", show=True)
    return [section(records) for section in sections]


def _pictures_of(output: Path) -> set[str]:
    """Pictures of the report that a folder contains; another program's report is an error."""
    text = output / "report.md"
    own = text.read_text("utf-8", "replace") if text.is_file() else ""
    if own.startswith(f"# {TITLE}\n"):
        return set(re.findall(r"^!\[.*\]\(([\w.-]+\.svg)\)$", own, re.MULTILINE))
    if any((output / name).exists() for name in ("report.md", "index.html")):
        raise ConfigError(
            f"{output} contains a report.md or index.html that relmo report did not write; choose "
            f"another folder"
        )
    return set()


def make_report(records: Records, sections: Sequence[page.Section], output: Path) -> dict[str, str]:
    """The files of a report, whose links are relative to a folder: name -> text."""
    here = output.resolve()

    def link(run: RunFile) -> str:
        path = quote(Path(os.path.relpath(run.path.resolve(), here)).as_posix())
        return f"{path}#L{run.line}" if run.line else path

    head = _head(records, sections)
    figures = (b for section in sections for b in section.blocks if isinstance(b, page.Figure))
    return {
        "report.md": Markdown(link).report(head, sections),
        "index.html": Html(link).report(head, sections),
        **{f"{n}.svg": standalone(svg) for figure in figures for n, svg in figure.pictures.items()},
    }


def _head(records: Records, sections: Sequence[page.Section]) -> page.Section:
    """What the report is, which claims hold, and which records it does not show."""
    rows = [[page.Span(s.title, anchor=s.name), *_held(s), s.paper] for s in sections]
    about = records.introduction("report", count=str(len(records.runs)))
    blocks: list[page.Block] = [about, page.table("held", rows)]
    unused = [run for run in records.runs if not run.is_task and run.task not in OTHER_TASKS]
    if unused:
        named = (page.Span(f"{run.name} ({run.task or 'no task'})", run) for run in unused)
        count = "1 record is" if len(unused) == 1 else f"{len(unused)} records are"
        blocks.append(page.Details(f"{count} not shown", [page.Paragraph(page.join(named))]))
    return page.Section("report", TITLE, "", blocks)


def _held(section: page.Section) -> list[page.Text]:
    """How many of the paper's claims hold, and how many others."""
    if not any(isinstance(block, page.Table) for block in section.blocks):
        return [page.Span("no records yet", kind="weak"), page.NOTHING]
    counts: list[page.Text] = []
    for is_paper in (True, False):
        own = [claim.holds for claim in section.claims if claim.is_paper is is_paper]
        shown = page.Span(f"{sum(own)} of {len(own)}", kind="strong")
        counts.append(shown if own else page.NOTHING)
    return counts
