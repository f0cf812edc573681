"""Tables 4 to 7: neighbors, senses, tags, how contextual layers are, perplexity."""

from tests.support.sections import missing, rows, section_of, sentences, tables
from tests.support.toy_runs import BASE, SMALL


def test_table_4_has_words_and_sentences(sections):
    (table,) = tables(sections["neighbours"])
    assert table.caption == "Table 4. Neighbors of “play” in “a good play”"
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
    section = section_of(runs, "tags")
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
    section = section_of(runs, "tags")
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
