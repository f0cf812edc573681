"""Folders of tiny records."""

from pathlib import Path

import pytest

from tests.support.toy_runs import Runs, fill


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """An empty folder of records."""
    return Runs(tmp_path / "runs")


@pytest.fixture
def full(runs: Runs) -> Runs:
    """Records for every section."""
    fill(runs)
    return runs
