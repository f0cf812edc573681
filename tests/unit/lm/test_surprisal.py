"""Surprisal, entropy and frequencies of words, against the same by hand from the layers."""

import warnings

import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.errors import ConfigError, TextError
from relmo.lm.scorer import Scorer
from relmo.lm.surprisal import split_regions
from relmo.nn.bilm import BiLM, initialize
from relmo.text.lexicon import Lexicon
from tests.conftest import tiny_config

WORDS = ("<S>", "</S>", "<UNK>", "the", ".", "bank", "raised", "rates", "river", "we", "well", "-")
COUNTS = np.arange(len(WORDS), 0, -1) * 10
SENTENCES = [
    ["the", "bank", "raised", "Zinsen", "."],
    ["we"],
    ["the", "river", "rates", "the", "."],
]
P = 8


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    generator = torch.Generator().manual_seed(3)
    bilm = initialize(BiLM(tiny_config()), seed=1)
    head = {
        "weight": torch.randn(len(WORDS), P, generator=generator) * 4,
        "bias": torch.randn(len(WORDS), generator=generator),
    }
    return Elmo(bilm, Lexicon(WORDS, COUNTS), lambda: head)


def said(elmo, tokens):
    """Log-probabilities (T, V) of each token's place, from both sides, tokens with boundaries."""
    layers, _ = elmo.runtime.layers([tokens[1:-1]])  # adds the first and last boundary
    top, head = layers.values[-1, 0], elmo.lm.head  # (T, D)
    scores = (top.double().view(-1, 2, P) @ head.weight.double().T) + head.bias.double()
    logs = torch.log_softmax(scores, -1).numpy()
    return logs[:-2, 0], logs[2:, 1]


def rows_by_hand(elmo, tokens):
    ahead, behind = said(elmo, tokens)
    both = ahead + behind
    both -= np.log(np.exp(both).sum(1, keepdims=True))
    rows = elmo.lexicon.rows(tokens[1:-1])
    unknown = elmo.lexicon.rows(["<UNK>"])[0]
    for place, word in enumerate(tokens[1:-1]):
        if word not in ("<S>", "</S>"):
            letters = elmo.lexicon.letters.bits([word])[0] if rows[place] == unknown else 0
            bits = [
                -logs[place, rows[place]] / np.log(2) + letters for logs in (ahead, behind, both)
            ]
            entropy = -(np.exp(ahead[place]) * ahead[place]).sum() / np.log(2)
            share = COUNTS[rows[place]] / COUNTS[2:].sum()
            yield *bits, entropy, np.log2(share) - letters


def values(sentences):
    return np.array([row[3:8] for sentence in sentences for row in sentence])


def test_surprisal_is_this_by_hand(elmo):
    found = elmo.lm.surprisal(SENTENCES)
    assert [[row.token for row in sentence] for sentence in found] == SENTENCES
    for sentence, words in zip(found, SENTENCES, strict=True):
        expected = list(rows_by_hand(elmo, ["<S>", *words, "</S>"]))
        np.testing.assert_allclose(values([sentence]), expected, atol=1e-4)
    ids = [(row.sentence_id, row.token_id, row.length) for sentence in found for row in sentence]
    assert ids[4:7] == [(0, 4, 1), (1, 0, 2), (2, 0, 3)]
    assert [row.known for row in found[0]] == [True, True, True, False, True]


def test_surprisal_is_the_score_in_bits(elmo):
    known = [sentence for sentence in SENTENCES if "Zinsen" not in sentence]
    for rows, score in zip(elmo.lm.surprisal(known), elmo.lm.score(known), strict=True):
        np.testing.assert_allclose(values([rows])[:, 0], -score.forward[:-1] / np.log(2), atol=1e-5)
        np.testing.assert_allclose(values([rows])[:, 1], -score.backward[1:] / np.log(2), atol=1e-5)


def test_probabilities_of_the_vocabulary_and_the_unknown_class_sum_to_1(elmo):
    filled = [["the", word, "."] for word in WORDS]
    filled[:2] = []  # a boundary among the words is an unknown word
    rows = np.array([sentence[1][3:6] for sentence in elmo.lm.surprisal(filled)])  # (V - 2, 3)
    rows[0] -= elmo.lexicon.letters.bits(["<UNK>"])  # the class, without the spelling
    ahead, behind = said(elmo, ["<S>", "the", "x", ".", "</S>"])
    both = np.exp(ahead + behind)[1] / np.exp(ahead + behind)[1].sum()
    rest = np.exp(ahead[1, :2]).sum(), np.exp(behind[1, :2]).sum(), both[:2].sum()
    np.testing.assert_allclose((2**-rows).sum(0) + rest, 1, atol=1e-5)


def test_a_document_is_read_on_and_a_long_enough_window_is_the_document(elmo):
    tokens = [token for words in SENTENCES for token in ("<S>", *words, "</S>")]
    document = elmo.lm.surprisal(SENTENCES, context="document")
    expected = list(rows_by_hand(elmo, tokens))
    np.testing.assert_allclose(values(document), expected, atol=1e-4)
    np.testing.assert_allclose(
        values(elmo.lm.surprisal(SENTENCES, context=11)), values(document), atol=1e-4
    )


def test_a_window_sees_so_many_words_on_each_side(elmo):
    words = SENTENCES[2]
    found = values(elmo.lm.surprisal([words], context=2))
    whole = values(elmo.lm.surprisal([words]))
    np.testing.assert_allclose(found[:2, 0], whole[:2, 0], atol=1e-5)  # from the beginning
    np.testing.assert_allclose(found[-2:, 1], whole[-2:, 1], atol=1e-5)  # from the end
    others = [["the", "bank", *words[1:]], ["we", "well", *words[1:]]]  # far from the last word
    far = [values(elmo.lm.surprisal([each], context=2))[-1, 0] for each in others]
    near = [values(elmo.lm.surprisal([each]))[-1, 0] for each in others]
    assert far[0] == pytest.approx(far[1], abs=1e-6)
    assert abs(near[0] - near[1]) > 1e-4


def test_a_region_has_the_bits_of_its_tokens(elmo):
    split = elmo.lm.surprisal([["we", "-", "well", "raised", "rates", "."]])[0]
    joined = elmo.lm.surprisal(["we-well raised rates."], regions=True)[0]
    assert [row.token for row in joined] == ["we-well", "raised", "rates."]
    assert joined == elmo.lm.surprisal([["we-well", "raised", "rates."]], regions=True)[0]
    bits = values([split])
    np.testing.assert_allclose(values([joined])[0, :3], bits[:3, :3].sum(0), atol=1e-6)
    assert joined[0].entropy == pytest.approx(split[0].entropy)
    assert joined[2].log_frequency == split[4].log_frequency  # of the rarer one
    assert [row.length for row in joined] == [7, 6, 6]
    unknown = elmo.lm.surprisal([["\u200b", "we,"]], regions=True)[0]
    assert [(row.token, row.known) for row in unknown] == [("\u200b", False), ("we,", False)]


def test_without_counts_a_frequency_is_not_a_number(elmo):
    plain = Elmo(elmo.bilm, Lexicon(WORDS), elmo._lm_head)
    assert np.isnan(plain.lm.surprisal([["the"]])[0][0].log_frequency)


def test_batches_and_streams_do_not_change_a_number(elmo, monkeypatch):
    many = [[SENTENCES[i % 3] for i in range(n)] for n in (4, 1, 7)]
    texts = [list(split_regions(document, elmo.tokenizer)) for document in many]
    found = list(elmo.lm.surprisal_stream(texts))
    monkeypatch.setattr("relmo.lm.language_model.WINDOW_TOKENS", 5)
    monkeypatch.setattr("relmo.lm.surprisal.READ_TOKENS", {"cpu": 8})
    again = list(elmo.lm.surprisal_stream(texts))
    assert [row.sentence_id for d in again for s in d for row in s] == [
        row.sentence_id for d in found for s in d for row in s
    ]
    for one, other in zip(found, again, strict=True):
        np.testing.assert_allclose(values(one), values(other), atol=1e-5)


def test_no_more_sentences_are_read_side_by_side_than_a_kernel_takes(elmo, monkeypatch):
    sizes, readings = [], Scorer.readings
    monkeypatch.setattr("relmo.lm.scorer.MAX_ROWS", {"cpu": 2})
    monkeypatch.setattr(
        Scorer, "readings", lambda *given: sizes.append(len(given[1])) or readings(*given)
    )
    elmo.lm.surprisal([["we"]] * 5)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("context", ["paragraph", 0, -1, True, 2.5])
def test_a_context_that_is_none_is_refused(elmo, context):
    with pytest.raises(ConfigError, match="context must be"):
        elmo.lm.surprisal(SENTENCES, context=context)


def test_what_is_no_text_is_refused(elmo):
    with pytest.raises(TextError, match="a list of sentences"):
        elmo.lm.surprisal("the bank")
    with pytest.raises(TextError, match="sentence 1"):
        elmo.lm.surprisal(["the bank", None])
    assert elmo.lm.surprisal([[], ["the"]])[0] == []
    assert elmo.lm.surprisal([]) == []


def test_regions_are_split_at_spaces_and_tabs_alone(elmo):
    typed = ["we\u00a0well", "the\u2009bank", "rates\u2028", "raised\x0b.", "the\x85river", "."]
    [rows] = elmo.lm.surprisal([f"  {typed[0]}\t{'  '.join(typed[1:])} "], regions=True)
    assert [row.token for row in rows] == typed
    [tokens] = elmo.lm.surprisal([["we", "well", *typed[1].split(), "rates"]])
    assert rows[0].surprisal == pytest.approx(tokens[0].surprisal + tokens[1].surprisal, abs=1e-5)


@pytest.mark.parametrize("context", ["sentence", "document", 2])
def test_an_empty_region_is_a_row_of_its_own_that_is_not_read(elmo, context):
    given = [["the", "", "bank,"], ["", "\u00a0"], ["", "river", ""]]
    found = elmo.lm.surprisal(given, context=context, regions=True)
    full = elmo.lm.surprisal([["the", "bank,"], ["river"]], context=context, regions=True)
    assert [[row.token for row in sentence] for sentence in found] == given
    rows = [row for sentence in found for row in sentence]
    is_empty = np.isnan(values(found)).all(1)
    assert is_empty.tolist() == [False, True, False, True, True, True, False, True]
    assert not any(row.known for row, empty in zip(rows, is_empty, strict=True) if empty)
    np.testing.assert_allclose(values(found)[~is_empty], values(full), atol=1e-5)
    assert np.isnan(values(elmo.lm.surprisal([[""]], context=context, regions=True))).all()
    assert elmo.lm.surprisal([], context=context) == []


def test_a_region_with_a_space_is_split_without_a_warning(elmo):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [[row]] = elmo.lm.surprisal([["the bank"]], regions=True)
    assert row.token == "the bank"
