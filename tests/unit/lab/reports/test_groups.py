"""Which runs belong together, which are chosen, and what they are called."""

import json

import pytest

from relmo.lab.reports.groups import Records, differences
from tests.support.toy_runs import BASE, SMALL


def test_runs_that_differ_in_their_seed_alone_are_a_group(runs):
    for seed in (2, 0, 1):
        runs.task(f"seed-{seed}", 90.0 + seed, seed=seed, elmo=BASE)
    runs.task("other-rate", 80.0, elmo=BASE, elmo_dropout=0.2)
    runs.task("other-share", 80.0, elmo=BASE, share=0.1)
    runs.task("other-data", 80.0, elmo=BASE, data="more")
    runs.task("other-model", 80.0, elmo=SMALL)
    runs.task("other-task", 80.0, elmo=BASE, task="srl")
    records = Records.read(runs.folder)
    groups = records.groups
    assert sorted(len(group.runs) for group in groups) == [1, 1, 1, 1, 1, 3]
    largest = max(groups, key=lambda group: len(group.runs))
    assert [run.seed for run in largest.runs] == [0, 1, 2]
    assert largest.mean("test") == 91.0
    assert records.models == [BASE, SMALL]


def test_settings_of_elmo_do_not_part_baselines_nor_lambda_top_layers(runs):
    runs.task("a", 80.0, place="both")
    runs.task("b", 81.0, seed=1, place="input")
    runs.task("c", 82.0, elmo=BASE, layers="top", l2=1.0)
    runs.task("d", 83.0, elmo=BASE, layers="top", l2=0.001, seed=1)
    assert [len(group.runs) for group in Records.read(runs.folder).groups] == [2, 2]


def test_a_record_from_before_there_were_shares_stands_with_newer_ones(runs):
    runs.task("old", 80.0)
    facts = json.loads(runs.task("new", 81.0, seed=1, share=1.0).read_text())
    facts["recipe"]["batch"] = {"share": 1.0}
    runs.write("newer", {**facts, "seed": 2})
    (group,) = Records.read(runs.folder).groups
    assert [run.seed for run in group.runs] == [0, 1, 2]


@pytest.mark.parametrize(("is_tuned", "groups"), [(False, 1), (True, 2)])
def test_the_rate_of_a_bilm_parts_runs_that_train_it(runs, is_tuned, groups):
    runs.task("old", 80.0, elmo=BASE, finetune=is_tuned)  # from before there was such a rate
    path = runs.task("new", 81.0, elmo=BASE, finetune=is_tuned, seed=1)
    facts = json.loads(path.read_text())
    for seed, rate in ((2, 1.0), (3, 0.1)):
        facts["recipe"]["optimizer"] = {"bilm_rate": rate}
        runs.write(f"newer-{seed}", {**facts, "seed": seed})
    assert len(Records.read(runs.folder).groups) == groups


def test_other_weights_of_the_same_name_are_another_group(runs):
    path = runs.task("old", 80.0, elmo=BASE)
    facts = json.loads(path.read_text())
    facts["elmo"]["fingerprint"] = "0" * 8
    runs.write("new", {**facts, "seed": 1})
    assert len(Records.read(runs.folder).groups) == 2


def test_a_copy_is_no_second_seed(runs):
    runs.task("first", 80.0)
    runs.task("copy", 80.0)
    (group,) = Records.read(runs.folder).groups
    assert [run.name for run in group.runs] == ["copy"]


def test_other_static_vectors_are_another_group(runs):
    runs.task("learned", 80.0)
    runs.task("glove", 90.0, seed=1, vectors={"name": "glove.txt", "sha256": "abc"})
    assert [len(group.runs) for group in Records.read(runs.folder).groups] == [1, 1]


def test_the_development_part_chooses_not_the_test_part(runs):
    runs.task("lucky", 95.0, dev=80.0, elmo=BASE)
    runs.task("best", 90.0, dev=90.0, elmo=BASE, place="both")
    records = Records.read(runs.folder)
    groups = records.groups
    chosen, other = records.select(groups[0].dataset, BASE)
    assert chosen.mean("test") == 90.0
    assert differences([chosen, other]) == ["place both", "place input"]
    assert chosen.describe().startswith("ELMo at input and output, λ 0.001, ELMo dropout 0.5")


def test_a_model_tuned_on_the_tasks_text_is_a_row_and_in_no_picture(runs):
    for name, elmo in (("none", None), ("base", BASE), ("tuned", f"{BASE}-ner")):
        runs.task(name, 90.0, elmo=elmo)
    records = Records.read(runs.folder)
    groups = records.groups
    assert records.models == [BASE, f"{BASE}-ner"]
    assert records.main_models == [BASE]
    assert [records.model_name(group.elmo) for group in groups] == [
        "baseline", f"+ {BASE}", f"+ {BASE}, tuned",
    ]  # fmt: skip


def test_other_models_are_drawn_where_there_is_none_of_ours(runs):
    runs.task("other", 90.0, elmo="mine")
    assert Records.read(runs.folder).main_models == ["mine"]


def test_a_lucky_seed_does_not_beat_the_mean_of_three(runs):
    for seed in range(3):
        runs.task(f"steady-{seed}", 90.0, dev=80.0, seed=seed)
    runs.task("lucky", 95.0, dev=85.0, dropout=0.4)
    records = Records.read(runs.folder)
    groups = records.groups
    chosen = records.select(groups[0].dataset, "")
    assert [len(group.runs) for group in chosen] == [3, 1]
