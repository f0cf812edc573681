"""Each section: from records to figures, orderings and what is missing."""

import numpy as np
import pytest

from relmo.lab.reports.blocks import Caveat, Details, Figure, Missing, Paragraph, Table, spans_of
from relmo.lab.reports.efficiency import equal_share, updates_to
from relmo.lab.reports.records import groups_of, read_runs
from relmo.lab.reports.report import sections_of
from relmo.lab.reports.tasks import table_1
from tests.support.toy_runs import BASE, SMALL


def text(cell) -> str:
    return "" if cell is None else "".join(span.text for span in spans_of(cell))


def tables(section) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def rows(table) -> list[list[str]]:
    return [[text(cell) for cell in row] for row in table.rows]


def sentences(section) -> list[str]:
    return [f"{c.what}: {c.verdict}, {text(c.figures)}" for c in section.claims]


def missing(section) -> str:
    return "\n".join(block.text for block in section.blocks if isinstance(block, Missing))


def caveats(section) -> str:
    return "\n".join(block.text for block in section.blocks if isinstance(block, Caveat))


def section_of(runs, name):
    (section,) = (s for s in sections_of(read_runs(runs.folder)) if s.name == name)
    return section


@pytest.fixture
def sections(full):
    return {section.name: section for section in sections_of(read_runs(full.folder))}


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
    assert f"One seed only, so without spread: toy (+ {SMALL})." in caveats(sections["tasks"])
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
    section = table_1(groups_of(read_runs(runs.folder)))
    assert [line.split(": ")[-1] for line in sentences(section)] == [
        "yes, 81.50 against 80.50 (seeds overlap)", "yes, 82.50 against 80.50",
    ]  # fmt: skip


def test_a_model_below_the_baseline_is_told_so(runs):
    runs.task("none", 80.0)
    runs.task("base", 79.0, elmo=BASE)
    section = table_1(groups_of(read_runs(runs.folder)))
    assert sentences(section) == [
        f"Named entities, toy: {BASE} above the baseline: no, 79.00 against 80.00 (one seed)"
    ]
    assert rows(tables(section)[0])[1][6] == "-5.0 %"


def test_from_a_baseline_without_error_none_can_be_taken_away(runs):
    runs.task("none", 100.0)
    runs.task("base", 99.0, elmo=BASE)
    section = table_1(groups_of(read_runs(runs.folder)))
    assert rows(tables(section)[0])[1][6] == "–"


def test_data_of_ones_own_is_called_as_its_folder(runs):
    runs.task("sst", 80.0, task="sst", data="letters")
    runs.task("snli", 80.0, task="snli", data="sick")
    section = table_1(groups_of(read_runs(runs.folder)))
    assert [row[0] for row in rows(tables(section)[0])] == [
        "Entailment, sick", "Sentiment, letters, sentences",
    ]  # fmt: skip


def test_a_model_without_a_baseline_has_no_error_taken_away(runs):
    runs.task("base", 79.0, elmo=BASE)
    section = table_1(groups_of(read_runs(runs.folder)))
    assert rows(tables(section)[0])[0][6] == "–"
    assert section.claims == []
    assert "No run of the baseline on Named entities, toy." in missing(section)


def test_coreference_is_compared_document_by_document(runs):
    def counts(right):  # (documents, measures, sums): recall right/4, precision right/4
        return np.tile([right, 4.0, right, 4.0], (5, 4, 1)).tolist()

    runs.task("none", 25.0, task="coref", test_counts=counts(1))
    runs.task("base-0", 50.0, task="coref", elmo=BASE, test_counts=counts(2))
    runs.task("base-1", 50.0, task="coref", elmo=BASE, seed=1, test_counts=counts(2))
    section = table_1(groups_of(read_runs(runs.folder)))
    found = [text(b.text) for b in section.blocks if isinstance(b, Paragraph)][-1]
    assert "paired bootstrap over 5 documents" in found
    assert "+25.00 (+25.00 to +25.00); one-sided p ≤ 0.0001 of 10,000 draws." in found


def test_without_counts_there_is_no_bootstrap(runs):
    runs.task("none", 25.0, task="coref", test_counts=None)
    runs.task("base", 50.0, task="coref", elmo=BASE)
    section = table_1(groups_of(read_runs(runs.folder)))
    assert "bootstrap" not in str([b for b in section.blocks if isinstance(b, Paragraph)][-1].text)


def test_table_2_compares_recipes_that_differ_in_their_layers_alone(sections):
    section = sections["layers"]
    found = rows(tables(section)[0])
    assert tables(section)[0].head[4:6] == ["top layer only", "λ = 1"]
    assert found[0][1:] == [
        f"+ {BASE}, development", "1–2", "81.00 81.0–81.0", "88.00", "87.00", "–", "–",
        "91.00 91.0–91.0",
    ]  # fmt: skip
    assert found[1][4] == "88.00"
    assert sentences(section) == [
        f"Named entities, toy, {BASE}, development: the mix (λ = 0.001) at least as good as the "
        "top layer alone: yes, 91.00 against 88.00 (one seed)"
    ]
    assert "on sst and snli" in missing(section)
    assert "not run with λ = 0.1 and λ = 0.01" in missing(section)


def test_the_baseline_of_a_comparison_has_the_same_recipe_if_it_was_run(runs):
    runs.task("none-best", 80.0, dev=80.0, model_dropout=0.2)
    runs.task("none-alike", 79.0, dev=79.0)
    runs.task("mix", 90.0, dev=90.0, elmo=BASE, place="output")
    runs.task("top", 88.0, dev=88.0, elmo=BASE, place="output", layers="top")
    first = rows(tables(section_of(runs, "layers"))[0])[0]
    assert first[:2] == ["Named entities, toy, ELMo at output", f"+ {BASE}, development"]
    assert first[2:4] == ["1", "79.00"]


def test_table_3_compares_places(sections):
    section = sections["places"]
    assert rows(tables(section)[0])[0][4:] == ["91.00 91.0–91.0", "86.00", "–"]
    assert sentences(section) == [
        f"Named entities, toy, {BASE}, development: both places at least as good as one: "
        "no, 86.00 against 91.00 (one seed)"
    ]
    assert not section.claims[0].is_paper  # its Table 3 has other tasks
    assert "not run with output" in missing(section)


def test_published_figures_stand_under_ours(runs):
    for place, score in (("input", 70.0), ("both", 72.0), ("output", 71.0)):
        runs.task(place, score, dev=score, task="snli", elmo=BASE, place=place)
    section = sections_of(read_runs(runs.folder))[2]
    assert rows(tables(section)[0])[-1] == [
        "", "the paper, development", "–", "–", "88.9", "89.5", "88.7",
    ]  # fmt: skip
    assert section.claims[0].holds


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
        "Named entities, toy: all runs were best at their last update, so that more might be "
        "better: 10 % of the baseline."
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


def test_a_task_that_is_not_the_papers_stands_without_its_figures(runs):
    runs.task("none", 90.0, task="pos")
    runs.task("base", 95.0, task="pos", elmo=BASE)
    section = table_1(groups_of(read_runs(runs.folder)))
    baseline, base = rows(tables(section)[0])
    assert baseline[0] == "Parts of speech, toy"
    assert base[6:9] == ["50.0 %", "–", "–"]
    assert "pos" not in missing(section).split("No run of ")[1].split(".")[0]  # nobody asked for it


def test_updates_until_a_score_that_is_never_reached(runs):
    runs.task("base", 90.0, elmo=BASE, curve={"step": [5, 10], "dev_f1": [70.0, 80.0]})
    (run,) = read_runs(runs.folder)
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


def test_a_lone_trial_does_not_stand_for_a_model_whose_runs_kept_no_curve(runs):
    runs.task("none", 80.0, dev=81.0)
    for seed in range(3):
        runs.task(f"base-{seed}", 90.0, dev=91.0, seed=seed, elmo=BASE)
        runs.task(f"other-{seed}", 89.0, dev=88.0, seed=seed, elmo=SMALL, curve=CURVE)
    runs.task("trial", 70.0, dev=70.0, elmo=BASE, l2=9.0, curve={"step": [5], "dev_f1": [70.0]})
    assert [row[1] for row in updates_of(runs)] == [f"+ {SMALL}"]


def test_settings_that_stand_for_others_in_updates_are_named(runs):
    runs.task("none", 80.0, dev=81.0)
    runs.task("base", 90.0, dev=91.0, elmo=BASE)
    runs.task("equal", 89.0, dev=90.0, elmo=BASE, l2=1.0, curve=CURVE)
    assert [row[1] for row in updates_of(runs)] == [f"+ {BASE} (λ 1)"]


def test_figure_2_has_the_mixes_that_the_development_part_chose(sections):
    section = sections["mixes"]
    assert rows(tables(section)[0]) == [
        ["Named entities, toy", "input", "0 1", "0.200", "0.500", "0.300", "0.700"],
        ["Named entities, toy", "output", "0", "0.500", "0.300", "0.200", "1.500"],
    ]
    assert sentences(section) == [
        f"{BASE}: at the input most tasks favour the first LSTM layer: yes, 1 of 1: toy"
    ]
    assert f"No learned mix of {SMALL} at the input." in missing(section)


def test_table_4_has_words_and_sentences(sections):
    (table,) = tables(sections["neighbours"])
    assert table.caption == "Table 4. Neighbours of “play” in “a good play”"
    assert rows(table)[:2] == [
        [f"{BASE}, by sense vectors", "<i> play here 0.80"],
        [f"{BASE}, without context", "plays 0.71, game|s 0.60"],
    ]
    assert rows(table)[2][1].startswith("playing, game")


def test_neighbours_in_one_sentence_stand_together(runs):
    for model, layer in ((BASE, 2), (BASE, None), (SMALL, 2)):
        near = {"static": [["plays", 0.7]], "context": [["a play", 0.8, 1], ["one play", 0.7, 1]]}
        asked = {"word": "play", "sentence": "the play", "layer": layer}
        runs.other(f"{model}-{layer}", "neighbors", near, model, **asked)
    (table,) = tables(section_of(runs, "neighbours"))
    assert [row[0] for row in rows(table)] == [
        f"{BASE}, by layer 2", "", f"{BASE}, by sense vectors", "", f"{SMALL}, by layer 2", "",
        f"{BASE}, without context", f"{SMALL}, without context", "GloVe, in the paper",
    ]  # fmt: skip


def test_table_5_has_every_set_and_what_was_not_rerun(sections):
    (table,) = tables(sections["senses"])
    assert table.head == ["method", "test", "Senseval-2"]
    found = {row[0]: row[1:] for row in rows(table)}
    assert found["layer 2"] == ["67.10", "67.10"]
    assert found["layer 2, plain"] == ["63.00", "63.00"]
    assert found["CoVe, layer 1"] == ["59.4 not rerun", "–"]
    assert found["context2vec"] == ["–", "71.8 not rerun"]
    assert sentences(sections["senses"]) == [
        f"WSD, {BASE}: layer 2 above layer 1: yes, 67.10 against 65.90",
        f"WSD, {BASE}: layer 2 above layer 1 by the nearest centroid: no, 63.00 against 64.00",
        f"WSD, {BASE}: best layer (2) at least 1.5 points above the most frequent sense: yes, "
        "67.10 against 65.50",
    ]


def test_table_6_has_layers_beside_the_papers(sections):
    found = {row[0]: row[1] for row in rows(tables(sections["tags"])[0])}
    assert found["layer 1"] == "95.00"
    assert found["the paper's biLM, layer 1"] == "97.3 PTB"
    assert found["CoVe, layer 2"] == "92.8 not rerun"
    assert (
        sentences(sections["tags"])[0]
        == f"POS, {BASE}: layer 1 above layer 2: yes, 95.00 against 94.00"
    )
    assert SMALL in missing(sections["tags"])


def test_probes_of_other_weights_stand_apart(runs):
    for name, mark in (("a", "aaaaaaaa"), ("b", "bbbbbbbb")):
        elmo = {"name": BASE, "fingerprint": mark}
        facts = {"task": "probe-pos", "precision": "float32", "elmo": elmo}
        runs.write(name, {**facts, "results": {"test_accuracy_layer_1": 90.0}})
    section = sections_of(read_runs(runs.folder))[7]
    assert [t.caption for t in tables(section)] == [
        f"Table 6. Parts of speech, {BASE} (float32 aaaaaaaa, a).",
        f"Table 6. Parts of speech, {BASE} (float32 bbbbbbbb, b).",
    ]


def test_probes_of_other_data_stand_apart(runs):
    for name, value in (("whole", 95.0), ("part", 60.0)):
        data = {"name": "ewt", "files": {"train.conllu": {"sha256": name}}}
        runs.other(name, "probe-pos", {"test_accuracy_layer_1": value}, data=data)
    section = section_of(runs, "tags")
    assert [t.caption for t in tables(section)] == [
        f"Table 6. Parts of speech, {BASE} (ffffffff ewt, part).",
        f"Table 6. Parts of speech, {BASE} (ffffffff ewt, whole).",
    ]
    assert [rows(t)[0][1] for t in tables(section)] == ["60.00", "95.00"]


def test_seeds_of_a_probe_stand_together_with_their_spread(runs):
    for seed in (0, 1):
        runs.other(f"pos-{seed}", "probe-pos", {"test_accuracy_layer_1": 94.0 + seed}, seed=seed)
    section = sections_of(read_runs(runs.folder))[7]
    assert rows(tables(section)[0])[0] == ["layer 1", "94.50 94.0–95.0"]


def test_word_in_context_intrinsic_and_perplexity(sections):
    assert rows(tables(sections["wic"])[0]) == [["layer 2", "58.00", "59.00"]]
    assert rows(tables(sections["intrinsic"])[0])[0] == [
        "self-similarity", "0.900", "0.800", "0.700",
    ]  # fmt: skip
    assert sentences(sections["intrinsic"])[0].endswith("no, 0.600 against 0.000")
    assert rows(tables(sections["perplexity"])[0]) == [
        ["SNLI", BASE, "60.00", "20.00", "1.5 %", "72.1", "16.8"]
    ]
    assert sections["perplexity"].claims[0].holds


def test_a_section_without_records_says_so(runs):
    runs.other("lm", "lm", {"mean": 30.0})
    for section in sections_of(read_runs(runs.folder)):
        assert section.claims == []
        assert missing(section)
        assert not any(isinstance(block, Table | Figure) for block in section.blocks)
