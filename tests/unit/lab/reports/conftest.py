"""Folders of tiny records."""

from pathlib import Path

import pytest

from relmo.lab.reports import page
from relmo.lab.reports.groups import Records
from relmo.lab.reports.report import sections_of
from tests.support.toy_runs import STUDY, Runs, fill


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """A study without records."""
    return Runs(tmp_path / "runs", STUDY)


@pytest.fixture
def full(runs: Runs) -> Runs:
    """Records for every section."""
    fill(runs)
    return runs


@pytest.fixture
def sections(full: Runs) -> dict[str, page.Section]:
    """Every section of these records, by name."""
    return {section.name: section for section in sections_of(Records.read(full.folder))}
