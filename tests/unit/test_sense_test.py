"""The sense test: its sentences keep their rules, and its score is what it says."""

import json
import sys
from itertools import chain

import numpy as np
import pytest

from relmo import Elmo
from scripts.sense_test import (
    AmbiguousWord,
    Sense,
    cosines,
    main,
    overall,
    read_layers,
    read_words,
    reading_names,
    run,
    score_triples,
    score_word,
    word_vectors,
)

WORDS = read_words()
BY_WORD = pytest.mark.parametrize("word", WORDS, ids=lambda word: word.word)


def make_word(form: str, first: int, second: int) -> AmbiguousWord:
    """A word with so many made-up sentences per sense."""
    senses = (
        Sense(gloss=gloss, part_of_speech="noun", sentences=(("the", form, "."),) * count)
        for gloss, count in (("one", first), ("other", second))
    )
    return AmbiguousWord(form, tuple(senses))


# ── the sentences ───────────────────────────────────────────────────────────────────────────────


def test_there_are_enough_words_and_none_twice() -> None:
    forms = [word.word for word in WORDS]
    assert len(forms) >= 32
    assert len(set(forms)) == len(forms)


def test_at_least_half_of_the_words_have_two_noun_senses() -> None:
    nouns = [all(s.part_of_speech == "noun" for s in word.senses) for word in WORDS]
    assert sum(nouns) >= len(WORDS) / 2


def test_every_sense_has_the_same_number_of_sentences() -> None:
    assert {len(sense.sentences) for word in WORDS for sense in word.senses} == {4}


def test_no_sentence_occurs_twice() -> None:
    sentences = list(chain.from_iterable(word.sentences for word in WORDS))
    assert len({" ".join(sentence).lower() for sentence in sentences}) == len(sentences)


@BY_WORD
def test_a_word_has_two_senses_with_different_glosses(word: AmbiguousWord) -> None:
    first, second = word.senses
    assert first.gloss != second.gloss


@BY_WORD
def test_the_word_stands_once_in_lower_case_and_not_first(word: AmbiguousWord) -> None:
    assert word.word.isalpha()
    assert word.word.islower()
    for sentence in word.sentences:
        assert [token.lower() for token in sentence].count(word.word) == 1, sentence
        assert sentence.index(word.word) > 0, sentence


@BY_WORD
def test_no_other_form_of_the_word_stands_beside_it(word: AmbiguousWord) -> None:
    others = {word.word + ending for ending in ("s", "es", "ed", "ing", "er", "ly")}
    for sentence in word.sentences:
        assert not others & {token.lower() for token in sentence}, sentence


@BY_WORD
def test_sentences_are_tokenised_and_of_moderate_length(word: AmbiguousWord) -> None:
    for sentence in word.sentences:
        assert 7 <= len(sentence) <= 22, sentence
        assert sentence[-1] in {".", "?"}
        assert all(token.isalnum() or token in {".", "?", ",", "'s"} for token in sentence)


@BY_WORD
def test_neighbours_vary_within_a_sense(word: AmbiguousWord) -> None:
    for sense in word.senses:
        places = [(sentence, sentence.index(word.word)) for sentence in sense.sentences]
        for step in (-1, 1):
            assert len({sentence[place + step].lower() for sentence, place in places}) > 1


def test_the_models_tokenizer_would_split_the_same_way(tiny: Elmo) -> None:
    for sentence in chain.from_iterable(word.sentences for word in WORDS):
        assert tuple(token.text for token in tiny.tokens(" ".join(sentence))) == sentence


# ── the score ───────────────────────────────────────────────────────────────────────────────────


def test_cosines_ignore_length_and_take_zero_vectors() -> None:
    vectors = np.array([[2.0, 0.0], [0.0, 3.0], [5.0, 5.0], [0.0, 0.0]], dtype=np.float32)
    half = np.sqrt(0.5)
    expected = [[1, 0, half, 0], [0, 1, half, 0], [half, half, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(cosines(vectors), expected, atol=1e-12)


@pytest.mark.parametrize("width", [3, 256])
def test_static_vectors_score_exactly_half(width: int) -> None:
    word = make_word("bank", 4, 3)
    vector = np.random.default_rng(0).normal(size=width).astype(np.float32)
    layers = np.broadcast_to(vector, (3, 7, width))
    assert score_word(word, layers, layers[0]).percent.tolist() == [50.0] * 6


def test_separate_senses_score_all() -> None:
    vectors = np.array([[1, 0.1], [1, 0.2], [1, 0.3], [0.1, 1], [0.2, 1], [0.3, 1]])
    points, count = score_triples(cosines(vectors), np.array([0, 0, 0, 1, 1, 1]))
    assert points == count == 2 * 3 * 2 * 3


def test_senses_that_fall_apart_score_nothing() -> None:
    vectors = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])  # cosine -1 within, 0 between
    assert score_triples(cosines(vectors), np.array([0, 0, 1, 1])) == (0.0, 8)


def test_a_case_counted_by_hand() -> None:
    """Sentences 0, 1 of one sense and 2, 3 of the other; the diagonal must not matter."""
    similarity = np.array(
        [
            [9.0, 0.5, 0.4, 0.6],  # 0: partner 0.5 beats 0.4, loses to 0.6    -> 1
            [0.5, 9.0, 0.5, 0.1],  # 1: partner 0.5 ties with 0.5, beats 0.1   -> 1.5
            [0.4, 0.5, 9.0, 0.3],  # 2: partner 0.3 loses twice                -> 0
            [0.6, 0.1, 0.3, 9.0],  # 3: partner 0.3 loses to 0.6, beats 0.1    -> 1
        ]
    )
    assert score_triples(similarity, np.array([0, 0, 1, 1])) == (3.5, 8)


def test_rounding_is_a_tie() -> None:
    similarity = np.array([[1, 0.5, 0.5 + 1e-8], [0.5, 1, 0.5 - 1e-8], [0.5, 0.5, 1]])
    assert score_triples(similarity, np.array([0, 0, 1])) == (1.0, 2)


def test_readings_are_the_layers_and_two_means() -> None:
    layers = np.arange(3.0)[:, None, None] * np.ones((3, 2, 4))  # layer k is k everywhere
    readings = read_layers(layers)
    assert readings[:, 0, 0].tolist() == [0.0, 1.0, 2.0, 1.5, 1.0]
    assert reading_names(3) == [
        "layer 0", "layer 1", "layer 2", "mean 1–2", "mean 0–2", "sense_vectors",
    ]  # fmt: skip


def test_the_overall_score_counts_triples_not_words() -> None:
    rich, poor = make_word("bank", 4, 4), make_word("bat", 2, 2)  # 96 and 8 triples
    static = score_word(poor, np.ones((2, 4, 3)), np.ones((4, 3)))
    apart = np.repeat(np.eye(2), 4, 0)  # (8, 2)
    right = score_word(rich, np.stack([apart, apart]), apart)
    assert (right.num_triples, static.num_triples) == (96, 8)
    np.testing.assert_allclose(overall([right, static]), 100 * (96 + 4) / 104)


def test_vectors_are_those_of_the_word_itself() -> None:
    words = [make_word("bank", 2, 1), make_word("bat", 1, 1)]  # the word is token 1 everywhere
    sentences = [np.full((3, 3, 2), -1.0, dtype=np.float32) for _ in range(5)]
    for number, vectors in enumerate(sentences):
        vectors[:, 1] = number
    first, second = word_vectors(words, sentences)
    assert first[:, :, 0].tolist() == [[0.0, 1.0, 2.0]] * 3
    assert second[:, :, 0].tolist() == [[3.0, 4.0]] * 3


def test_layer_zero_of_a_model_scores_exactly_half(tiny: Elmo) -> None:
    scores = run(tiny, WORDS)
    assert {score.percent[0] for score in scores} == {50.0}
    assert any(score.percent[-1] != 50.0 for score in scores)
    assert {score.num_triples for score in scores} == {96}


# ── the command ─────────────────────────────────────────────────────────────────────────────────


def test_the_command_prints_tables_and_writes_figures(
    tiny: Elmo, tmp_path, monkeypatch, capsys
) -> None:
    tiny.save_pretrained(tmp_path / "model")
    arguments = ["--model", str(tmp_path / "model"), "--json", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", ["sense_test.py", *arguments])
    main()
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["headline"] == found["percent"]["layer 2"]
    assert found["num_triples"] == 96 * len(WORDS)
    assert f"**{found['headline']:.1f}**" in printed
    assert all(f"\n| {word.word} |" in printed for word in WORDS)
    top = [
        float(line.split(" | ")[4])
        for line in printed.splitlines()
        if "layer" not in line and line.count(" | ") == 7
    ]
    assert len(top) == len(WORDS)
    assert top == sorted(top, reverse=True)


def test_a_model_that_is_not_there_ends_in_one_line(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sense_test.py", "--model", "no-such-model"])
    with pytest.raises(SystemExit, match="no-such-model"):
        main()
