"""The report: every run.json below a folder -> report.md, index.html and their pictures.

    write_report(Path("experiments"), Path("docs/report"))

The same records give the same bytes: nothing in it is of the day or the machine it was made on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from relmo.errors import ConfigError
from relmo.files import make_folder, replacing
from relmo.lab.reports.blocks import (
    NOTHING,
    Block,
    Claim,
    Details,
    Figure,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    join,
)
from relmo.lab.reports.efficiency import figure_1
from relmo.lab.reports.markdown import markdown
from relmo.lab.reports.mixes import figure_2
from relmo.lab.reports.others import intrinsic, table_4, table_7
from relmo.lab.reports.page import page
from relmo.lab.reports.plots import standalone
from relmo.lab.reports.probes import table_5, table_6, word_in_context
from relmo.lab.reports.records import Run, groups_of, is_task, read_runs
from relmo.lab.reports.tasks import table_1
from relmo.lab.reports.variants import table_2, table_3

TITLE = "ELMo's analyses, run again"
OTHER_TASKS = (
    "probe-wsd", "probe-pos", "probe-wic", "neighbors", "probe-intrinsic", "tuned-perplexity",
)  # fmt: skip
"""What is shown besides the paper's tasks."""


def write_report(runs: Path, output: Path) -> dict[str, Any]:
    """Make the report of a folder of runs; says what is in it.

    Pictures of an older report that are no longer part of it are deleted.
    """
    records = read_runs(runs)
    sections = sections_of(records)
    made = _render(records, sections, output)
    earlier = _pictures_of(output)
    make_folder(output)
    for name, text in made.items():
        with replacing(output / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    for name in earlier - made.keys():
        (output / name).unlink(missing_ok=True)
    claims = [claim for section in sections for claim in section.claims]
    paper = [claim for claim in claims if claim.is_paper]
    return {
        "records": len(records),
        "findings": len(paper),
        "findings_that_hold": sum(claim.holds for claim in paper),
        "others": len(claims) - len(paper),
        "others_that_hold": sum(claim.holds for claim in claims if not claim.is_paper),
        "output": str(output / "index.html"),
    }


def _pictures_of(output: Path) -> set[str]:
    """Pictures of the report that stands in a folder; files of something else are an error."""
    text = output / "report.md"
    own = text.read_text("utf-8", "replace") if text.is_file() else ""
    is_report = own.startswith(f"# {TITLE}\n")
    if not is_report and any((output / name).exists() for name in ("report.md", "index.html")):
        raise ConfigError(
            f"{output} holds a report.md or index.html that is not of relmo report; choose another "
            f"folder"
        )
    return (
        set(re.findall(r"^!\[.*\]\(([\w.-]+\.svg)\)$", own, re.MULTILINE)) if is_report else set()
    )


def make_report(runs: Path, output: Path) -> dict[str, str]:
    """What `write_report` would write: file name -> text."""
    records = read_runs(runs)
    return _render(records, sections_of(records), output)


def sections_of(runs: Sequence[Run]) -> list[Section]:
    """All of them, in the report's order; one without records says so."""
    groups = groups_of(runs)
    return [
        table_1(groups),
        table_2(groups),
        table_3(groups),
        figure_1(groups),
        figure_2(groups),
        table_4(runs),
        table_5(runs),
        table_6(runs),
        word_in_context(runs),
        intrinsic(runs),
        table_7(runs),
    ]


def _render(runs: Sequence[Run], sections: Sequence[Section], output: Path) -> dict[str, str]:
    here = output.resolve()

    def link(run: Run) -> str:
        return quote(Path(os.path.relpath(run.path.resolve(), here)).as_posix())

    before = _before(runs, sections)
    pictures = {
        f"{name}.svg": standalone(svg)
        for section in sections
        for block in section.blocks
        if isinstance(block, Figure)
        for name, svg in block.pictures.items()
    }
    return {
        "report.md": markdown(TITLE, before, sections, link),
        "index.html": page(TITLE, before, sections, link),
        **pictures,
    }


def _before(runs: Sequence[Run], sections: Sequence[Section]) -> list[Block]:
    """What the report is, what held, and which records are not in it."""
    about = (
        "The tables and figures of Peters et al., Deep contextualized word representations (2018), "
        "with relmo's own models on open data. "
        f"Made by relmo report from {len(runs)} run records whose seals hold and nothing else. "
        "Every number of ours leads to the record of the run that it is from; a mean leads to the "
        "first of its runs, and the seeds of Table 1 to each. "
        "Of several settings those with three seeds go before those with fewer, and among them "
        "the development part chooses. Figures in italics are published ones; "
        "“not rerun” marks those of systems that are not part of relmo, CoVe and context2vec among "
        "them. A verdict is yes or no as the means stand, however small the difference; it says "
        "where the ranges of the seeds overlap, or where there is one seed."
    )
    head = "part", "findings that hold", "others that hold", "what the paper found"
    rows: list[list[Text | None]] = [
        [Span(section.title, anchor=section.name), *_held(section), section.paper]
        for section in sections
    ]
    unused = [run for run in runs if not is_task(run) and run.task not in OTHER_TASKS]
    blocks: list[Block] = [Paragraph(about), Table("What held, and what did not.", head, rows, 4)]
    if unused:
        named = (Span(f"{run.path.parent.name} ({run.task or 'no task'})", run) for run in unused)
        count = "1 record is" if len(unused) == 1 else f"{len(unused)} records are"
        blocks.append(Details(f"{count} not shown", [Paragraph(join(named))]))
    return blocks


def _held(section: Section) -> list[Text]:
    """How many of the paper's claims hold, and of others."""
    has_numbers = any(isinstance(block, Table) for block in section.blocks)
    if not has_numbers:
        return [Span("no records yet", kind="weak"), NOTHING]
    return [_count([c for c in section.claims if c.is_paper is which]) for which in (True, False)]


def _count(claims: Sequence[Claim]) -> Text:
    held = sum(claim.holds for claim in claims)
    return Span(f"{held} of {len(claims)}", kind="strong") if claims else NOTHING
