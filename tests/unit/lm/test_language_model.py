"""Score, perplexity and substitutes, against the same by hand from Elmo's own layers."""

from dataclasses import asdict

import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.errors import ConfigError, TextError, TextWarning
from relmo.lm import scorer
from relmo.nn.bilm import BiLM, initialize
from relmo.text.lexicon import Lexicon
from tests.conftest import tiny_config

WORDS = ("the", "bank", "<UNK>", "raised", "</S>", "rates", "river", "<S>", ".", "we", "sat")
SENTENCE = ["the", "bank", "raised", "Zinsen", "."]
DOCUMENTS = [
    [["the", "bank", "raised", "rates", "."], ["we", "Sat"]],
    [["river"], ["the", "unheard-of", "river", "sat", "."], ["😀"]],
]
KOREAN = ["저는", "오늘", "은행", "에", "갔다", "."]
P = 8


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    """A tiny model with a start state and a random softmax whose words are in no special order."""
    generator = torch.Generator().manual_seed(3)
    bilm = initialize(BiLM(tiny_config(start="stored")), seed=1)
    for name, buffer in bilm.named_buffers():
        assert name.startswith("start_")
        buffer.copy_(torch.randn(buffer.shape, generator=generator))
    head = {
        "weight": torch.randn(len(WORDS), P, generator=generator),
        "bias": torch.randn(len(WORDS), generator=generator),
    }
    return Elmo(bilm, Lexicon(WORDS), lambda: head)


@pytest.fixture(autouse=True)
def stored_start(elmo):
    yield
    elmo.bilm.start = "stored"


def log_softmax(elmo, hidden) -> torch.Tensor:
    head = elmo.lm.head
    return torch.log_softmax(hidden.double() @ head.weight.double().T + head.bias.double(), -1)


def by_hand(elmo, sentence, state=None):
    """Log-probabilities (T + 1,) of both directions in the order of the text, and the state."""
    layers, state = elmo.runtime.layers([sentence], state)
    top = layers.values[-1, 0]  # (T + 2, D)
    rows = elmo.lexicon.rows(["<S>", *sentence, "</S>"])
    ahead = log_softmax(elmo, top[:-1, :P])  # token t says what comes at t + 1
    behind = log_softmax(elmo, top[1:, P:])  # token t says what stood at t - 1
    place = range(len(sentence) + 1)
    return ahead[place, rows[1:]].numpy(), behind[place, rows[:-1]].numpy(), state


# ── score ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", ["stored", "zero"])
def test_a_score_is_this_by_hand(elmo, start):
    elmo.bilm.start = start
    sentences = [SENTENCE, [], ["river"], ["x" * 60, "<UNK>"]]
    for score, sentence in zip(elmo.lm.score(sentences), sentences, strict=True):
        forward, backward, _ = by_hand(elmo, sentence)
        assert score.forward.shape == score.backward.shape == (len(sentence) + 1,)
        np.testing.assert_allclose(score.forward, forward, atol=1e-5)
        np.testing.assert_allclose(score.backward, backward, atol=1e-5)
        assert score.total == pytest.approx((forward.sum() + backward.sum()) / 2, abs=1e-4)


def test_the_start_matters(elmo):
    stored = elmo.lm.score([SENTENCE])[0].total
    elmo.bilm.start = "zero"
    assert abs(stored - elmo.lm.score([SENTENCE])[0].total) > 1e-3


def test_a_score_depends_on_its_sentence_alone(elmo):
    alone = elmo.lm.score([SENTENCE])[0]
    beside = elmo.lm.score([["we"] * 30, SENTENCE, []])[1]
    assert np.array_equal(alone.forward, beside.forward)
    assert np.array_equal(alone.backward, beside.backward)


def test_long_sentences_are_read_in_windows_with_the_same_result(elmo):
    sentence = SENTENCE * (scorer.WINDOW // 2)
    [score] = elmo.lm.score([sentence])
    forward, backward, _ = by_hand(elmo, sentence)
    np.testing.assert_allclose(score.forward, forward, atol=1e-5)
    np.testing.assert_allclose(score.backward, backward, atol=1e-5)


def test_a_string_in_the_place_of_words_is_refused(elmo):
    for call in (
        lambda: elmo.lm.score("the bank"),
        lambda: elmo.lm.score(["the bank"]),
        lambda: elmo.lm.perplexity([["the bank"]]),
        lambda: elmo.lm.substitutes("the bank", 0),
    ):
        with pytest.raises(TextError, match="expected a list of .*, got"):
            call()


@pytest.mark.parametrize("wrong", [None, float("nan"), 7, {"the": 1}, b"the", {"the"}])
def test_what_is_no_text_is_refused_at_every_depth(elmo, wrong):
    for call in (
        lambda: elmo.lm.score(wrong),
        lambda: elmo.lm.score([["the"], wrong]),
        lambda: elmo.lm.score([["the", wrong]]),
        lambda: elmo.lm.perplexity(wrong),
        lambda: elmo.lm.perplexity([wrong]),
        lambda: elmo.lm.perplexity([[["the"], wrong]]),
        lambda: elmo.lm.perplexity([[["the", wrong]]]),
        lambda: elmo.lm.substitutes(wrong, 0),
        lambda: elmo.lm.substitutes(["the", wrong], 0),
    ):
        with pytest.raises(TextError, match="expected a|a sentence is a string or a list"):
            call()


@pytest.mark.parametrize("marker", ["<S>", "</S>"])
def test_a_boundary_among_the_words_is_scored_as_an_unknown_word(elmo, marker):
    layers, _ = elmo.runtime.layers([["the", marker, "sat"]])
    top, row = layers.values[-1, 0], int(elmo.lexicon.rows(["<UNK>"])[0])
    [score] = elmo.lm.score([["the", marker, "sat"]])
    ahead, behind = log_softmax(elmo, top[1, :P]), log_softmax(elmo, top[3, P:])
    assert score.forward[1] == pytest.approx(ahead[row].item(), abs=1e-5)
    assert score.backward[2] == pytest.approx(behind[row].item(), abs=1e-5)


# ── substitutes ─────────────────────────────────────────────────────────────────────────────


def test_words_that_fit_several_places_have_the_best_mean_of_scores(elmo):
    sentences = [SENTENCE, ["we", "sat", "."], ["the", "river", "rates", "."]]
    scores = [dict(elmo.lm.substitutes(each, 1, k=99)) for each in sentences]
    assert all(len(each) == len(WORDS) - 3 for each in scores)
    means = {word: np.mean([each[word] for each in scores]) for word in scores[0]}
    tops = [elmo.runtime.layers([each])[0].values[-1, 0] for each in sentences]
    forward = torch.stack([top[1, :P] for top in tops]).mean(0, keepdim=True)
    backward = torch.stack([top[3, P:] for top in tops]).mean(0, keepdim=True)
    [best] = elmo.lm.best_words(forward, backward, 99)
    assert [word for word, _ in best] == sorted(means, key=lambda word: -means[word])


# ── perplexity ──────────────────────────────────────────────────────────────────────────────


def totals_by_hand(elmo, document, start) -> np.ndarray:
    """-log p of a document's targets, forward and backward, (2,)."""
    totals = np.zeros(2)
    state = None
    for sentence in document:
        forward, _, after = by_hand(elmo, sentence, state)
        totals[0] -= forward.sum()
        state = after if start == "carried" else None
    state = None
    for sentence in reversed(document):
        _, backward, after = by_hand(elmo, sentence, state)
        totals[1] -= backward.sum()
        state = after if start == "carried" else None
    return totals


@pytest.mark.parametrize("start", ["zero", "stored", "carried"])
def test_perplexity_is_this_by_hand(elmo, start):
    found = elmo.lm.perplexity(DOCUMENTS, start)
    if start == "zero":
        elmo.bilm.start = "zero"
    totals = sum(totals_by_hand(elmo, document, start) for document in DOCUMENTS)
    count = (5 + 1) + (2 + 1) + (1 + 1) + (5 + 1) + (1 + 1)  # each sentence: words and one end
    assert found.tokens == count
    forward, backward = np.exp(totals / count)
    assert found.forward == pytest.approx(forward, rel=1e-5)
    assert found.backward == pytest.approx(backward, rel=1e-5)
    assert found.mean == pytest.approx((forward + backward) / 2, rel=1e-5)
    assert found.unknown_rate == pytest.approx(3 / 14)  # Sat, unheard-of, 😀


def test_bits_per_character_are_these_by_hand(elmo):
    found = elmo.lm.perplexity(DOCUMENTS)
    totals = sum(totals_by_hand(elmo, document, "carried") for document in DOCUMENTS)
    letters = elmo.lexicon.letters.bits(["Sat", "unheard-of", "😀"]).sum()
    bits = totals.mean() / np.log(2) + letters
    characters = sum(len(w) + 1 for d in DOCUMENTS for sentence in d for w in sentence)
    assert found.bits_per_character == pytest.approx(bits / characters, rel=1e-5)
    text = "\n".join(" ".join(sentence) for d in DOCUMENTS for sentence in d) + "\n"
    given = elmo.lm.perplexity(DOCUMENTS, characters=2 * len(text))
    assert given.bits_per_character == pytest.approx(found.bits_per_character / 2)


def test_unknown_words_lower_perplexity_but_not_bits_per_character(elmo):
    """A model that knows fewer words scores more of them as <UNK>, and spells them."""
    head = elmo.lm.head
    rows = elmo.lexicon.rows(["<UNK>"])
    few = [i for i, word in enumerate(WORDS) if word not in ("raised", "rates")]
    with torch.no_grad():
        weight, bias = head.weight[few].clone(), head.bias[few].clone()
        bias[few.index(int(rows[0]))] += 5.0  # it is often right with <UNK>
    lexicon = Lexicon([WORDS[i] for i in few])
    smaller = Elmo(elmo.bilm, lexicon, lambda: {"weight": weight, "bias": bias})
    text = [[["raised", "rates", "raised", "."]]]
    whole, part = elmo.lm.perplexity(text), smaller.lm.perplexity(text)
    assert part.mean < whole.mean
    assert part.bits_per_character > whole.bits_per_character


@pytest.mark.parametrize(("unknown", "warns"), [(1, False), (2, True)])
@pytest.mark.filterwarnings("error")
def test_above_5_percent_unknown_words_a_warning_says_what_to_compare(elmo, unknown, warns):
    text = [[["bank"] * (20 - unknown) + ["x"] * unknown]]
    if not warns:
        assert elmo.lm.perplexity(text).unknown_rate == 0.05
        return
    with pytest.warns(TextWarning, match=r"10.0% of .* not comparable .* bits_per_character"):
        elmo.lm.perplexity(text)


@pytest.mark.parametrize(
    "call",
    [
        lambda elmo: elmo.lm.score([KOREAN]),
        lambda elmo: elmo.lm.substitutes(KOREAN, 1),
        lambda elmo: elmo.lm.perplexity([[KOREAN]]),
        lambda elmo: elmo.embed([KOREAN]),
        lambda elmo: elmo.sense_vectors([KOREAN]),
        lambda elmo: elmo.encode(" ".join(KOREAN)),
    ],
)
def test_text_in_a_script_that_the_model_does_not_know_is_told_once(elmo, call):
    fresh = Elmo(elmo.bilm, Lexicon(WORDS), elmo._lm_head)
    with pytest.warns(TextWarning, match="in Hangul script"):
        call(fresh)
    fresh.embed([KOREAN])  # another warning would be an error


def test_starts_differ_and_each_direction_carries_its_own_state(elmo):
    found = {s: elmo.lm.perplexity(DOCUMENTS, s) for s in ("zero", "stored", "carried")}
    assert len({round(p.forward, 4) for p in found.values()}) == 3
    assert len({round(p.backward, 4) for p in found.values()}) == 3
    one_sentence = [[SENTENCE]]
    assert elmo.lm.perplexity(one_sentence, "stored") == elmo.lm.perplexity(one_sentence, "carried")


def test_state_is_not_carried_from_document_to_document(elmo):
    apart = elmo.lm.perplexity([[sentence] for d in DOCUMENTS for sentence in d], "carried")
    stored = elmo.lm.perplexity(DOCUMENTS, "stored")
    assert apart.mean == pytest.approx(stored.mean, rel=1e-6)


def test_batch_composition_does_not_change_the_number(elmo, monkeypatch):
    rng = np.random.default_rng(0)
    documents = [
        [list(rng.choice(WORDS[:2], size=rng.integers(1, 40))) for _ in range(rng.integers(1, 5))]
        for _ in range(12)
    ]
    together = elmo.lm.perplexity(documents)
    alone = [elmo.lm.perplexity([document]) for document in documents]
    count = sum(p.tokens for p in alone)
    total = sum(p.tokens * np.log(p.forward) for p in alone)
    assert together.tokens == count
    assert together.forward == pytest.approx(np.exp(total / count), rel=1e-6)
    monkeypatch.setattr(scorer, "BATCH_TOKENS", 16 * 16)  # batches of a document or two
    small = elmo.lm.perplexity(documents[::-1])
    assert small.mean == pytest.approx(together.mean, rel=1e-6)


def test_empty_sentences_and_boundaries_in_the_text_are_not_scored(elmo):
    wanted = elmo.lm.perplexity([[["the", "bank"], ["we"]]])
    odd = [[[], ["the", "<S>", "bank"], ["</S>"], ["we", "</S>"]], [], [[]]]
    assert elmo.lm.perplexity(odd) == wanted


def test_documents_may_be_generators(elmo):
    lazy = ((sentence for sentence in document) for document in DOCUMENTS)
    assert elmo.lm.perplexity(lazy) == elmo.lm.perplexity(DOCUMENTS)


@pytest.mark.parametrize("characters", [0, -5])
def test_text_of_no_characters_is_refused(elmo, characters):
    with pytest.raises(ConfigError, match=f"characters must be an integer ≥ 1, got {characters}"):
        elmo.lm.perplexity(DOCUMENTS, characters=characters)


@pytest.mark.parametrize("documents", [[], [[]], [[[]]], [[["<S>"]]]])
def test_text_without_words_has_no_perplexity(elmo, documents):
    with pytest.raises(TextError, match="no words to score"):
        elmo.lm.perplexity(documents)


def test_a_start_that_the_model_does_not_have_is_refused(elmo):
    with pytest.raises(ConfigError, match="unknown start 'warm'; choose carried, stored, zero"):
        elmo.lm.perplexity(DOCUMENTS, "warm")


def test_a_start_that_is_not_stored_is_refused(elmo):
    plain = Elmo(
        initialize(BiLM(tiny_config()), seed=1), elmo.lexicon, lambda: elmo.lm.head.state_dict()
    )
    with pytest.raises(ConfigError, match="no stored start state; choose 'zero' or 'carried'"):
        plain.lm.perplexity(DOCUMENTS, "stored")


def test_a_named_start_does_not_depend_on_the_models_own(elmo):
    before = {start: elmo.lm.perplexity(DOCUMENTS, start) for start in ("zero", "stored")}
    elmo.bilm.start = "zero"
    assert {start: elmo.lm.perplexity(DOCUMENTS, start) for start in before} == before
    assert before["zero"] != before["stored"]


# ── substitutes ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("position", [0, 2, 4])
def test_substitutes_rank_as_by_hand(elmo, position):
    layers, _ = elmo.runtime.layers([SENTENCE])
    top = layers.values[-1, 0]  # (T + 2, D); the word itself stands at position + 1
    scores = log_softmax(elmo, top[position, :P]) + log_softmax(elmo, top[position + 2, P:])
    law = [np.log((row + 2) / (row + 1)) / np.log(len(WORDS) + 1) for row in range(len(WORDS))]
    wanted = {word: scores[row].item() - np.log(law[row]) for row, word in enumerate(WORDS)}
    for special in ("<S>", "</S>", "<UNK>"):
        del wanted[special]
    found = elmo.lm.substitutes(SENTENCE, position, k=4)
    assert [word for word, _ in found] == sorted(wanted, key=wanted.get, reverse=True)[:4]
    for word, score in found:
        assert score == pytest.approx(wanted[word], abs=1e-4)


def test_substitutes_are_relative_to_counts_where_they_are_known(elmo, monkeypatch):
    by_rank = dict(elmo.lm.substitutes(SENTENCE, 2, k=99))
    V = len(WORDS)
    counts = np.arange(1, V + 1) ** 2
    monkeypatch.setattr(elmo.lm, "lexicon", Lexicon(WORDS, counts))
    boundaries = sum(counts[WORDS.index(word)] for word in ("<S>", "</S>"))
    for word, score in elmo.lm.substitutes(SENTENCE, 2, k=99):
        row = WORDS.index(word)
        rank = np.log(np.log((row + 2) / (row + 1)) / np.log(V + 1))
        share = np.log(counts[row] / (counts.sum() - boundaries))
        assert score == pytest.approx(by_rank[word] + rank - share, abs=1e-4)


def test_substitutes_are_never_special_and_never_too_many(elmo):
    found = [word for word, _ in elmo.lm.substitutes(["bank"], 0, k=100)]
    assert sorted(found) == sorted(set(WORDS) - {"<S>", "</S>", "<UNK>"})


def test_the_word_that_stands_there_is_not_looked_at(elmo):
    one, two = (elmo.lm.substitutes(["the", word, "."], 1) for word in ("bank", "é" * 50))
    assert one == two


@pytest.mark.parametrize("position", [-1, 5, 100])
def test_a_position_outside_the_sentence_is_refused(elmo, position):
    with pytest.raises(TextError, match=f"position must be from 0 to 4 .*, got {position}"):
        elmo.lm.substitutes(SENTENCE, position)
    with pytest.raises(TextError, match="in a sentence of 0 words, got 0"):
        elmo.lm.substitutes([], 0)


def test_no_words_are_not_asked_for(elmo):
    with pytest.raises(ConfigError, match="k must be an integer ≥ 1, got 0"):
        elmo.lm.substitutes(SENTENCE, 0, k=0)


# ── the model around it ─────────────────────────────────────────────────────────────────────


def test_a_model_without_softmax_says_so(tiny):
    with pytest.raises(ConfigError, match="has no softmax .*: it can embed, but not score"):
        _ = tiny.lm


def test_a_saved_model_scores_as_before(elmo, tmp_path):
    elmo.save_pretrained(tmp_path)
    found = Elmo.from_pretrained(tmp_path, device="cpu")
    wanted = asdict(elmo.lm.perplexity(DOCUMENTS))
    assert asdict(found.lm.perplexity(DOCUMENTS)) == pytest.approx(wanted, rel=1e-6)


def test_scoring_changes_no_state_of_the_model(elmo):
    before = elmo.embed([SENTENCE])[0]
    elmo.lm.perplexity(DOCUMENTS)
    elmo.lm.substitutes(SENTENCE, 1)
    assert np.array_equal(before, elmo.embed([SENTENCE])[0])


@pytest.mark.parametrize("wrong", ["He read.", ["He read."], [["He", "read"]]])
def test_text_in_the_place_of_documents_is_told_how_to_be_split(elmo, wrong):
    with pytest.raises(TextError, match=r"documents, each a list of sentences.* string 'He.*elmo"):
        elmo.lm.perplexity(wrong)


def test_a_perplexity_consists_of_plain_numbers(elmo):
    found = elmo.lm.perplexity([[["the", "zzyzx"]]])
    assert "np." not in repr(found)
