"""Table 1: from records to scores, settings and what is missing."""

import numpy as np
import pytest

from relmo.lab.reports.groups import Records
from relmo.lab.reports.page import Details, Paragraph
from relmo.lab.reports.tasks import error_reduction, table_1
from tests.support.sections import caveats, missing, rows, sentences, tables, text
from tests.support.toy_runs import BASE, SMALL


def test_table_1_has_means_spread_and_less_error_beside_the_papers(sections):
    baseline, base, small = rows(tables(sections["tasks"])[0])
    assert baseline[:7] == [
        "Named entities, toy", "baseline", "0 1", "81.00", "80.50", "80.00–81.00", "–",
    ]  # fmt: skip
    assert base[:9] == [
        "", f"+ {BASE}", "0 1", "91.00", "90.50", "90.00–91.00", "51.3 %", "92.22", "21 %",
    ]  # fmt: skip
    assert base[9:] == ["1.5 M", "500", "1.5"]
    assert small[6] == "23.1 %"
    assert f"Named entities, toy: {BASE} above the baseline: yes, 90.50 against 80.50" in sentences(
        sections["tasks"]
    )


def test_table_1_folds_trials_away_and_says_what_was_chosen(sections):
    folded = [b for b in sections["tasks"].blocks if isinstance(b, Details)]
    assert folded[0].summary == "Settings that the development part chose"
    assert [row[2] for row in rows(folded[0].blocks[0])] == ["1", "4", "1"]
    assert folded[1].summary == "Named entities, toy: all 6 settings that were tried"
    tried = rows(folded[1].blocks[0])
    assert [row[1] for row in tried] == [
        "one setting", "λ 0.001, layers mix, place input (chosen)", "no λ, layers top", "λ 1",
        "place both", "one setting",
    ]  # fmt: skip
    assert [row[3] for row in tried] == ["81.00", "91.00", "88.00", "87.00", "86.00", "86.00"]


def test_table_1_says_what_was_not_run(sections):
    found = missing(sections["tasks"])
    assert "No run of squad, snli, srl, coref, sst and sst-phrases." in found
    assert f"One seed only, so no range: toy (+ {SMALL})." in caveats(sections["tasks"])
    assert f"4 settings of {BASE} were tried but 1 of the baseline" in caveats(sections["tasks"])


def test_table_1_says_what_the_data_is(sections):
    _, data = tables(sections["tasks"])
    assert rows(data) == [
        ["Named entities, toy", "biLSTM, CRF", "1,000 sentences", "200", "300", "–"]
    ]


def test_a_verdict_says_where_seeds_could_turn_it_round(runs):
    for seed, (none, base, small) in enumerate([(80.0, 80.5, 82.0), (81.0, 82.5, 83.0)]):
        runs.task(f"none-{seed}", none, seed=seed)
        runs.task(f"base-{seed}", base, seed=seed, elmo=BASE)
        runs.task(f"small-{seed}", small, seed=seed, elmo=SMALL)
    section = table_1(Records.read(runs.folder))
    assert [line.split(": ")[-1] for line in sentences(section)] == [
        "yes, 81.50 against 80.50 (seeds overlap)", "yes, 82.50 against 80.50",
    ]  # fmt: skip


def test_a_model_below_the_baseline_is_told_so(runs):
    runs.task("none", 80.0)
    runs.task("base", 79.0, elmo=BASE)
    section = table_1(Records.read(runs.folder))
    assert sentences(section) == [
        f"Named entities, toy: {BASE} above the baseline: no, 79.00 against 80.00 (one seed)"
    ]
    assert rows(tables(section)[0])[1][6] == "-5.0 %"


def test_from_a_baseline_without_error_none_can_be_taken_away(runs):
    runs.task("none", 100.0)
    runs.task("base", 99.0, elmo=BASE)
    section = table_1(Records.read(runs.folder))
    assert rows(tables(section)[0])[1][6] == "–"


def test_data_of_ones_own_is_called_as_its_folder(runs):
    runs.task("sst", 80.0, task="sst", data="letters")
    runs.task("snli", 80.0, task="snli", data="sick")
    section = table_1(Records.read(runs.folder))
    assert [row[0] for row in rows(tables(section)[0])] == [
        "Entailment, sick", "Sentiment, letters, sentences",
    ]  # fmt: skip


def test_a_model_without_a_baseline_has_no_error_taken_away(runs):
    runs.task("base", 79.0, elmo=BASE)
    section = table_1(Records.read(runs.folder))
    assert rows(tables(section)[0])[0][6] == "–"
    assert section.claims == []
    assert "No run of the baseline on Named entities, toy." in missing(section)


def test_coreference_is_compared_document_by_document(runs):
    def counts(right):  # (documents, measures, sums): recall right/4, precision right/4
        return np.tile([right, 4.0, right, 4.0], (5, 4, 1)).tolist()

    runs.task("none", 25.0, task="coref", test_counts=counts(1))
    runs.task("base-0", 50.0, task="coref", elmo=BASE, test_counts=counts(2))
    runs.task("base-1", 50.0, task="coref", elmo=BASE, seed=1, test_counts=counts(2))
    section = table_1(Records.read(runs.folder))
    found = [text(b.text) for b in section.blocks if isinstance(b, Paragraph)][-1]
    assert "paired bootstrap over 5 documents" in found
    assert "+25.00 (+25.00 to +25.00); one-sided p ≤ 0.0001 of 10,000 draws." in found


def test_without_counts_there_is_no_bootstrap(runs):
    runs.task("none", 25.0, task="coref", test_counts=None)
    runs.task("base", 50.0, task="coref", elmo=BASE)
    section = table_1(Records.read(runs.folder))
    assert "bootstrap" not in str([b for b in section.blocks if isinstance(b, Paragraph)][-1].text)


def test_a_task_that_is_not_the_papers_stands_without_its_figures(runs):
    runs.task("none", 90.0, task="pos")
    runs.task("base", 95.0, task="pos", elmo=BASE)
    section = table_1(Records.read(runs.folder))
    baseline, base = rows(tables(section)[0])
    assert baseline[0] == "Parts of speech, toy"
    assert base[6:9] == ["50.0 %", "–", "–"]
    assert "pos" not in missing(section).split("No run of ")[1].split(".")[0]  # nobody asked for it


def test_error_reduction_by_hand():
    assert error_reduction(80.0, 85.0) == pytest.approx(25.0)  # 5 of 20 points of error
    assert error_reduction(90.15, 92.22) == pytest.approx(21.0, abs=0.05)  # the paper's
    assert error_reduction(80.0, 78.0) == pytest.approx(-10.0)
