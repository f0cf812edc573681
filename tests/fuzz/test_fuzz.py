"""Some hundred mutations of each target, always the same ones, and every input that once failed."""

import pytest

from tests.fuzz.__main__ import fuzz
from tests.fuzz.cases import CASES
from tests.fuzz.targets import explained, file_targets, request_targets, serving, text_targets

NUMBER = 150
"""Mutations of each target."""


@pytest.mark.parametrize("target", text_targets(), ids=lambda target: target.name)
def test_odd_text_keeps_its_offsets(target, capsys):
    assert fuzz(target, NUMBER, seed=1) == (0, 0), capsys.readouterr().out


def test_odd_files_are_read_or_explained(tmp_path, capsys):
    for target in file_targets(tmp_path):
        assert fuzz(target, NUMBER // 3, seed=1) == (0, 0), capsys.readouterr().out
        for data in CASES.get(target.name, []):
            assert explained(target, data) is None, data


def test_odd_requests_are_answered(tmp_path, capsys):
    pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
    with serving(tmp_path / "index.relmo") as client:
        for target in request_targets(client):
            assert fuzz(target, NUMBER, seed=1) == (0, 0), capsys.readouterr().out
            for data in CASES.get(target.name, []):
                assert explained(target, data) is None, data


@pytest.mark.parametrize("target", text_targets(), ids=lambda target: target.name)
def test_what_once_failed_on_text(target):
    for data in CASES.get(target.name, []):
        assert explained(target, data) is None, data
