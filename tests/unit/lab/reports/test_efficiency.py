"""Figure 1: shares of the training data, and updates until the baseline's best score."""

import pytest

from relmo.lab.reports.efficiency import equal_share, updates_to
from relmo.lab.reports.groups import Records
from tests.support.sections import caveats, missing, rows, section_of, sentences, tables, text
from tests.support.toy_runs import BASE, SMALL


def test_figure_1_has_shares_and_updates(sections):
    section = sections["efficiency"]
    shares, updates = tables(section)
    assert [row[0] for row in rows(shares)] == ["1 %", "10 %", "100 %"]
    assert rows(shares)[1] == [
        "10 %", "2 epochs", "40.00", "1", "82.00", "1", "> 100 %", "–", "–", "–",
    ]  # fmt: skip
    assert rows(updates) == [
        ["Named entities, toy", f"+ {BASE}", "81.00", "400", "200", "50 %"],
    ]
    assert sentences(section) == [
        f"Named entities, toy: {BASE} with 10 % of the data at least as good as the baseline with "
        "all of it: yes, 82.00 against 80.50 (one seed)"
    ]
    assert not section.claims[0].is_paper
    assert f"No curves in the records of Named entities, toy (+ {SMALL})." in missing(section)
    assert "not run with 2 %, 5 %, 20 % and 50 % of the data" in missing(section)


def test_a_share_is_worth_what_the_baseline_needs_for_the_same_score():
    line = {0.01: 50.0, 0.1: 70.0, 1.0: 80.0}
    assert equal_share(line, 50.0) == 0.01
    assert equal_share(line, 60.0) == pytest.approx(0.01 * 10**0.5)  # half way, logarithmic
    assert equal_share(line, 80.0) == pytest.approx(1.0)
    assert equal_share(line, 49.9) == 0.0
    assert equal_share(line, 80.1) == float("inf")
    assert equal_share({0.01: 50.0, 0.1: 50.0}, 50.0) == 0.01  # no more is needed than the least


def test_what_a_share_is_worth_stands_in_figure_1(runs):
    for share, none, base in ((0.01, 50.0, 40.0), (0.1, 70.0, 75.0), (1.0, 80.0, 85.0)):
        runs.task(f"none-{share}", none, task="srl", share=share)
        runs.task(f"base-{share}", base, task="srl", share=share, elmo=BASE)
    section = section_of(runs, "efficiency")
    assert [row[6] for row in rows(tables(section)[0])] == ["< 1 %", "32 %", "> 100 %"]
    assert f"Semantic roles, toy: {BASE} with 1 % of the data at least as good as the baseline " \
        "with 10 %: no, 40.00 against 70.00 (one seed)" in sentences(section)  # fmt: skip
    assert "Semantic roles" not in missing(section)  # all shares are asked of ner and sst alone


def test_points_that_were_best_at_their_last_update_are_named(runs):
    runs.task("none", 50.0, share=0.1, best_step=500)
    runs.task("base", 60.0, share=0.1, elmo=BASE)
    assert caveats(section_of(runs, "efficiency")) == (
        "Named entities, toy: all runs were best at their last update, so more updates might "
        "help: 10 % of the baseline."
    )


def test_fewer_updates_are_the_papers_finding_on_semantic_roles(runs):
    runs.task("none", 80.0, dev=81.0, task="srl")
    runs.task("base", 90.0, dev=91.0, task="srl", elmo=BASE, curve=CURVE)
    runs.task(
        "small", 79.0, dev=80.0, task="srl", elmo=SMALL, curve={"step": [9], "dev_f1": [80.0]}
    )
    first, second = section_of(runs, "efficiency").claims
    assert (first.verdict, text(first.figures), first.is_paper) == ("yes", "200 against 400", True)
    assert (second.verdict, text(second.figures)) == ("no", "never")


def test_updates_until_a_score_that_is_never_reached(runs):
    runs.task("base", 90.0, elmo=BASE, curve={"step": [5, 10], "dev_f1": [70.0, 80.0]})
    (run,) = Records.read(runs.folder).runs
    assert (updates_to(run, 75.0), updates_to(run, 70.0), updates_to(run, 81.0)) == (10, 5, None)


def updates_of(runs):
    return rows(tables(section_of(runs, "efficiency"))[-1])


CURVE = {"step": [100, 200], "dev_f1": [80.0, 85.0]}


def test_updates_are_those_of_the_chosen_runs_that_kept_a_curve(runs):
    runs.task("none", 80.0, dev=81.0)
    for seed in range(3):
        curve = {"curve": CURVE} if seed else {}
        runs.task(f"base-{seed}", 90.0, dev=91.0, seed=seed, elmo=BASE, **curve)
    assert updates_of(runs) == [
        ["Named entities, toy", f"+ {BASE} (2 of 3 runs)", "81.00", "400", "200", "50 %"]
    ]


def test_settings_that_stand_for_others_in_updates_are_named(runs):
    runs.task("none", 80.0, dev=81.0)
    runs.task("base", 90.0, dev=91.0, elmo=BASE)
    runs.task("equal", 89.0, dev=90.0, elmo=BASE, l2=1.0, curve=CURVE)
    assert [row[1] for row in updates_of(runs)] == [f"+ {BASE} (λ 1)"]


def test_a_lone_trial_does_not_stand_for_a_model_whose_runs_kept_no_curve(runs):
    runs.task("none", 80.0, dev=81.0)
    for seed in range(3):
        runs.task(f"base-{seed}", 90.0, dev=91.0, seed=seed, elmo=BASE)
        runs.task(f"other-{seed}", 89.0, dev=88.0, seed=seed, elmo=SMALL, curve=CURVE)
    runs.task("trial", 70.0, dev=70.0, elmo=BASE, l2=9.0, curve={"step": [5], "dev_f1": [70.0]})
    assert [row[1] for row in updates_of(runs)] == [f"+ {SMALL}"]
