"""relmo report, as a script sees it."""

import json
import sys

from tests.support.toy_runs import Runs, fill


def test_report_writes_a_page_and_says_what_held(run, tmp_path):
    runs = Runs(tmp_path / "runs")
    fill(runs)
    found = run("report", "--runs", runs.folder, "--output", tmp_path / "out", "--json")
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert told["records"] == 19
    assert told["output"] == str(tmp_path / "out" / "index.html")
    assert (tmp_path / "out" / "report.md").is_file()


def test_report_draws_its_figures_without_an_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # importing it fails
    fill(Runs(tmp_path / "runs"))
    found = run("report", "--runs", tmp_path / "runs", "--output", tmp_path / "out")
    assert found.returncode == 0, found.stderr
    assert list((tmp_path / "out").glob("*.svg"))


def test_report_refuses_a_folder_without_runs_and_a_broken_record(run, tmp_path):
    found = run("report", "--runs", tmp_path, "--output", tmp_path / "out")
    assert found.returncode == 2
    assert b"contains no run.json" in found.stderr
    path = Runs(tmp_path).task("bad", 90.0)
    path.write_text(path.read_text().replace("90.0", "91.0"))
    found = run("report", "--runs", tmp_path, "--output", tmp_path / "out")
    assert found.returncode == 1
    assert b"was changed after the run" in found.stderr
