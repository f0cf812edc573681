"""Grammar by minimal pairs: BLiMP by phenomenon and direction, beside published figures."""

from __future__ import annotations

from collections.abc import Sequence

from relmo.lab.probes.minimal_pairs import DIRECTIONS, OVERALL, PARADIGM
from relmo.lab.reports import page
from relmo.lab.reports.groups import Records
from relmo.lab.reports.probes import Probe, find_probes
from relmo.lab.reports.records import TEXTS


def minimal_pairs(records: Records) -> page.Section:
    """Accuracy of each model by phenomenon, and overall beside other models."""
    probes = find_probes(records, "probe-blimp")
    blocks: list[page.Block] = [_phenomena(probe) for probe in probes]
    if probes:
        blocks.insert(0, _overall(probes))
    missing = records.absent("minimal pairs (`relmo probe blimp`)", {p.model for p in probes})
    return records.section("grammar", blocks, missing)


def _overall(probes: Sequence[Probe]) -> page.Table:
    """One row per model, ours first."""
    rows: list[page.Row] = [
        [probe.label, *(probe.cell(direction, OVERALL) for direction in DIRECTIONS)]
        for probe in probes
    ]
    for name, figure in TEXTS["grammar"]["published"].items():
        rows.append([name, page.published(figure), page.NOTHING, page.NOTHING])
    return page.table("grammar", rows)


def _phenomena(probe: Probe) -> page.Table:
    """One row per phenomenon, beside the published LSTM."""
    theirs = TEXTS["grammar"]["phenomena"]
    parts = [p for p in probe.parts if not p.startswith(PARADIGM) and p != OVERALL]
    rows: list[page.Row] = [
        [
            part.replace("_", " "),
            *(probe.cell(direction, part) for direction in DIRECTIONS),
            page.published(theirs[part]) if part in theirs else page.NOTHING,
        ]
        for part in sorted(parts)
    ]
    return page.table("phenomena", rows, model=probe.label)
