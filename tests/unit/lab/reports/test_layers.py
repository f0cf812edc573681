"""Tables 2 and 3 and Figure 2: which runs are compared, and what tasks learned."""

from tests.support.sections import missing, rows, section_of, sentences, tables
from tests.support.toy_runs import BASE, SMALL


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
    section = section_of(runs, "places")
    assert rows(tables(section)[0])[-1] == [
        "", "the paper, development", "–", "–", "88.9", "89.5", "88.7",
    ]  # fmt: skip
    assert section.claims[0].holds


def test_figure_2_has_the_mixes_that_the_development_part_chose(sections):
    section = sections["mixes"]
    assert rows(tables(section)[0]) == [
        ["Named entities, toy", "input", "0 1", "0.200", "0.500", "0.300", "0.700"],
        ["Named entities, toy", "output", "0", "0.500", "0.300", "0.200", "1.500"],
    ]
    assert sentences(section) == [
        f"{BASE}: at the input most tasks favor the first LSTM layer: yes, 1 of 1: toy"
    ]
    assert f"No record of a learned mix at the input for {SMALL}." in missing(section)
