"""Records: run folders and collections, their checksums, and report.toml."""

import json

import pytest

from relmo.errors import ConfigError, WeightError
from relmo.lab.reports.records import read_runs, read_study
from tests.support.toy_runs import collect


def test_a_record_changed_by_hand_is_named_and_refused(runs):
    runs.task("good", 90.0)
    bad = [runs.task(f"bad-{n}", 90.0, seed=n) for n in (1, 2)]
    for path in bad:
        values = json.loads(path.read_text())
        values["results"]["test_f1"] = 99.0
        path.write_text(json.dumps(values))
    with pytest.raises(WeightError, match="its .* does not (hold|match)") as error:
        read_runs(runs.folder)
    assert all(str(path) in str(error.value) for path in bad)
    assert "good" not in str(error.value)


def test_a_record_that_is_no_json_or_lacks_a_part_is_named(runs):
    runs.write("half", {"task": "ner", "results": {}})
    (runs.folder / "torn").mkdir()
    (runs.folder / "torn" / "run.json").write_text("{")
    with pytest.raises(WeightError, match=r"half.*without data, recipe(.|\n)*torn.*not valid JSON"):
        read_runs(runs.folder)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_without_records_is_a_wrong_call(tmp_path, is_there):
    folder = tmp_path if is_there else tmp_path / "none"
    with pytest.raises(ConfigError, match="give"):
        read_runs(folder)


def test_a_collection_is_read_as_run_folders_are(full, tmp_path):
    collect(full.folder, tmp_path / "some" / "toys.jsonl")
    (tmp_path / "some" / "data.jsonl").write_text('{"text": "not a record"}\n')
    found = read_runs(tmp_path / "some")
    assert [(run.name, run.record) for run in found] == [
        (run.name, run.record) for run in read_runs(full.folder)
    ]
    assert sorted(run.line for run in found) == list(range(1, 20))
    assert {run.path.name for run in found} == {"toys.jsonl"}


def test_a_run_that_is_also_in_a_collection_counts_once(full, tmp_path):
    collect(full.folder, full.folder / "toys.jsonl")
    found = read_runs(full.folder)
    assert len(found) == 19
    assert {run.line for run in found if run.name < "toys"} == {0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line.replace("90.0", "91.0"), "line 2: its .* does not"),
        (lambda line: line[:99], "line 2: not a run and its record"),
        (lambda line: '{"run": "a"}', "line 2: not a run and its record"),
    ],
)
def test_a_broken_line_of_a_collection_is_named(runs, tmp_path, change, message):
    for seed in (0, 1, 2):
        runs.task(f"run-{seed}", 90.0, seed=seed)
    path = tmp_path / "study" / "toys.jsonl"
    collect(runs.folder, path)
    lines = path.read_text().splitlines()
    lines[1] = change(lines[1])
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(WeightError, match=rf"toys\.jsonl, {message}") as error:
        read_runs(tmp_path / "study")
    assert "toys.jsonl, line 1" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = 3", "unknown key 'model'; did you mean 'models'"),
        ("models = 3", "models must be a list"),
        ('[[corpora]]\nname = "x"', "corpora: .*task"),
        ("models = [", "not valid TOML"),
    ],
)
def test_a_wrong_report_toml_is_named(tmp_path, text, message):
    (tmp_path / "report.toml").write_text(text)
    with pytest.raises(ConfigError, match=rf"report\.toml.*{message}"):
        read_study(tmp_path)


def test_weights_that_were_replaced_have_a_name_of_their_own(runs):
    runs.task("baseline", 89.0)
    runs.task("ours", 90.0, elmo="en")
    assert [run.elmo for run in read_runs(runs.folder)] == ["", "en"]
    (runs.folder / "report.toml").write_text('names = { fff = "en, first weights", ab = "other" }')
    assert [run.elmo for run in read_runs(runs.folder)] == ["", "en, first weights"]
