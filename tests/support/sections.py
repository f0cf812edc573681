"""What tests read from the sections of a report."""

from relmo.lab.reports import page
from relmo.lab.reports.groups import Records
from relmo.lab.reports.page import Caveat, Missing, Table
from relmo.lab.reports.report import sections_of


def text(cell) -> str:
    return "" if cell is None else "".join(span.text for span in page.text(cell))


def tables(section) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def rows(table) -> list[list[str]]:
    return [[text(cell) for cell in row] for row in table.rows]


def sentences(section) -> list[str]:
    return [f"{c.what}: {c.verdict}, {text(c.figures)}" for c in section.claims]


def missing(section) -> str:
    return "\n".join(block.text for block in section.blocks if isinstance(block, Missing))


def caveats(section) -> str:
    return "\n".join(block.text for block in section.blocks if isinstance(block, Caveat))


def section_of(runs, name):
    (section,) = (s for s in sections_of(Records.read(runs.folder)) if s.name == name)
    return section
