"""Records: their seals, and which of them belong together."""

import json

import pytest

from relmo.errors import ConfigError, WeightError
from relmo.lab.reports.names import model_name
from relmo.lab.reports.records import (
    describe,
    differences,
    error_reduction,
    groups_of,
    main_models,
    models,
    read_runs,
    select,
)
from tests.support.toy_runs import BASE, SMALL


def test_a_record_changed_by_hand_is_named_and_refused(runs):
    runs.task("good", 90.0)
    bad = [runs.task(f"bad-{n}", 90.0, seed=n) for n in (1, 2)]
    for path in bad:
        values = json.loads(path.read_text())
        values["results"]["test_f1"] = 99.0
        path.write_text(json.dumps(values))
    with pytest.raises(WeightError, match="checksum does not match") as error:
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


def test_runs_that_differ_in_their_seed_alone_are_a_group(runs):
    for seed in (2, 0, 1):
        runs.task(f"seed-{seed}", 90.0 + seed, seed=seed, elmo=BASE)
    runs.task("other-rate", 80.0, elmo=BASE, elmo_dropout=0.2)
    runs.task("other-share", 80.0, elmo=BASE, share=0.1)
    runs.task("other-data", 80.0, elmo=BASE, data="more")
    runs.task("other-model", 80.0, elmo=SMALL)
    runs.task("other-task", 80.0, elmo=BASE, task="srl")
    groups = groups_of(read_runs(runs.folder))
    assert sorted(len(group.runs) for group in groups) == [1, 1, 1, 1, 1, 3]
    largest = max(groups, key=lambda group: len(group.runs))
    assert [run.seed for run in largest.runs] == [0, 1, 2]
    assert largest.mean("test") == 91.0
    assert models(groups) == [BASE, SMALL]


def test_settings_of_elmo_do_not_part_baselines_nor_lambda_top_layers(runs):
    runs.task("a", 80.0, place="both")
    runs.task("b", 81.0, seed=1, place="input")
    runs.task("c", 82.0, elmo=BASE, layers="top", l2=1.0)
    runs.task("d", 83.0, elmo=BASE, layers="top", l2=0.001, seed=1)
    assert [len(group.runs) for group in groups_of(read_runs(runs.folder))] == [2, 2]


def test_a_record_from_before_there_were_shares_stands_with_newer_ones(runs):
    runs.task("old", 80.0)
    facts = json.loads(runs.task("new", 81.0, seed=1, share=1.0).read_text())
    facts["recipe"]["batch"] = {"share": 1.0}
    runs.write("newer", {**facts, "seed": 2})
    (group,) = groups_of(read_runs(runs.folder))
    assert [run.seed for run in group.runs] == [0, 1, 2]


@pytest.mark.parametrize(("is_tuned", "groups"), [(False, 1), (True, 2)])
def test_the_rate_of_a_bilm_parts_runs_that_train_it(runs, is_tuned, groups):
    runs.task("old", 80.0, elmo=BASE, finetune=is_tuned)  # from before there was such a rate
    path = runs.task("new", 81.0, elmo=BASE, finetune=is_tuned, seed=1)
    facts = json.loads(path.read_text())
    for seed, rate in ((2, 1.0), (3, 0.1)):
        facts["recipe"]["optimizer"] = {"bilm_rate": rate}
        runs.write(f"newer-{seed}", {**facts, "seed": seed})
    assert len(groups_of(read_runs(runs.folder))) == groups


def test_other_weights_of_the_same_name_are_another_group(runs):
    path = runs.task("old", 80.0, elmo=BASE)
    facts = json.loads(path.read_text())
    facts["elmo"]["fingerprint"] = "0" * 8
    runs.write("new", {**facts, "seed": 1})
    assert len(groups_of(read_runs(runs.folder))) == 2


def test_a_copy_is_no_second_seed(runs):
    runs.task("first", 80.0)
    runs.task("copy", 80.0)
    (group,) = groups_of(read_runs(runs.folder))
    assert [run.path.parent.name for run in group.runs] == ["copy"]


def test_other_static_vectors_are_another_group(runs):
    runs.task("learned", 80.0)
    runs.task("glove", 90.0, seed=1, vectors={"name": "glove.txt", "sha256": "abc"})
    assert [len(group.runs) for group in groups_of(read_runs(runs.folder))] == [1, 1]


def test_the_development_part_chooses_not_the_test_part(runs):
    runs.task("lucky", 95.0, dev=80.0, elmo=BASE)
    runs.task("best", 90.0, dev=90.0, elmo=BASE, place="both")
    groups = groups_of(read_runs(runs.folder))
    chosen, other = select(groups, groups[0].dataset, BASE)
    assert chosen.mean("test") == 90.0
    assert differences([chosen, other]) == ["place both", "place input"]
    assert describe(chosen).startswith("ELMo at input and output, λ 0.001, ELMo dropout 0.5")


def test_error_reduction_by_hand():
    assert error_reduction(80.0, 85.0) == pytest.approx(25.0)  # 5 of 20 points of error
    assert error_reduction(90.15, 92.22) == pytest.approx(21.0, abs=0.05)  # the paper's
    assert error_reduction(80.0, 78.0) == pytest.approx(-10.0)


def test_a_model_tuned_on_the_tasks_text_is_a_row_and_in_no_picture(runs):
    for name, elmo in (("none", None), ("base", BASE), ("tuned", f"{BASE}-ner")):
        runs.task(name, 90.0, elmo=elmo)
    groups = groups_of(read_runs(runs.folder))
    assert models(groups) == [BASE, f"{BASE}-ner"]
    assert main_models(groups) == [BASE]
    assert [model_name(group.elmo) for group in groups] == [
        "baseline", f"+ {BASE}", f"+ {BASE}, tuned",
    ]  # fmt: skip


def test_other_models_are_drawn_where_there_is_none_of_ours(runs):
    runs.task("other", 90.0, elmo="mine")
    assert main_models(groups_of(read_runs(runs.folder))) == ["mine"]


def test_a_lucky_seed_does_not_beat_the_mean_of_three(runs):
    for seed in range(3):
        runs.task(f"steady-{seed}", 90.0, dev=80.0, seed=seed)
    runs.task("lucky", 95.0, dev=85.0, dropout=0.4)
    groups = groups_of(read_runs(runs.folder))
    chosen = select(groups, groups[0].dataset, "")
    assert [len(group.runs) for group in chosen] == [3, 1]
