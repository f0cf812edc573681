"""What a task's model reads: batches of words, their vectors, and where ELMo joins them."""

import numpy as np
import pytest
import torch
from torch import nn

from relmo import Elmo
from relmo.errors import ConfigError
from relmo.tasks import inputs as module
from relmo.tasks.inputs import (
    Inputs,
    InputSettings,
    Letters,
    TokenBatch,
    TokenInput,
    keep_saved_names,
    make_elmo_layer,
)
from relmo.tasks.output_embeddings import OutputEmbeddings
from relmo.tasks.static_vectors import random_vectors
from tests.conftest import tiny_config

CPU = torch.device("cpu")
SENTENCES = [("Ada", "saw", "🐈"), (), ("a" * 400, "x"), ("saw",), ("שלום", "é", "", "zzz")]


def make_inputs(static_words=("ada", "saw", "x"), letters="adswx🐈é", elmo=None):
    static = random_vectors(static_words, 4)
    return Inputs(static, Letters(letters) if letters else None, elmo, CPU)


# ── words -> batch ──────────────────────────────────────────────────────────────────────────


def test_rows_and_letters_are_those_of_each_word_and_0_is_padding():
    inputs = make_inputs()
    for _ in range(2):  # of new words, then of known ones
        batch = inputs(SENTENCES)
        assert batch.static.shape == batch.mask.shape == (5, 4)
        assert batch.letters.shape == (5, 4, 30)
        for b, sentence in enumerate(SENTENCES):
            assert batch.mask[b].tolist() == [t < len(sentence) for t in range(4)]
            assert batch.static[b].tolist() == [*inputs.static.rows(sentence), 0, 0, 0, 0][:4]
            for t, word in enumerate(sentence):
                ids = inputs.letters.ids(word)
                assert batch.letters[b, t].tolist() == ids + [0] * (30 - len(ids))
            assert not batch.letters[b, len(sentence) :].any()


def test_a_model_without_a_character_cnn_has_no_letters():
    assert make_inputs(letters="")(SENTENCES).letters is None


def test_many_words_are_cached_and_dropped_beyond_the_limit(monkeypatch):
    inputs, words = make_inputs(letters="0123456789"), tuple(map(str, range(5000)))
    monkeypatch.setattr(module, "MAX_KNOWN", 5000)
    first = inputs([words])
    assert len(inputs._known) == 5000
    again = inputs([words[:3]])
    assert len(inputs._known) == 3
    assert torch.equal(again.letters[:, :, :3], first.letters[:, :3, :3])


def test_a_longer_word_in_the_batch_does_not_change_a_word():
    torch.manual_seed(0)
    inputs = make_inputs()
    for window in (2, 3, 5):
        tokens = inputs.make_module(InputSettings(letters=6, letter_window=window))
        alone = tokens(inputs([("saw",)]))
        beside = tokens(inputs([("saw",), ("w" * 30, "x")]))
        np.testing.assert_allclose(alone[0].detach(), beside[0, :1].detach(), atol=1e-6)
        assert not beside[0, 1].any()


def test_a_batch_has_the_layers_of_its_words(tiny):
    inputs = make_inputs(elmo=make_elmo_layer(tiny, InputSettings()))
    layers = inputs(SENTENCES[:2]).layers
    assert layers.shape == (3, 2, 3, 16)
    torch.testing.assert_close(layers[:, 0], torch.from_numpy(tiny.embed([SENTENCES[0]])[0]))
    assert not layers[:, 1].any()
    assert inputs([(), ()]).layers.shape == (3, 2, 1, 16), "padded as the mask is"


def test_a_batch_has_the_rows_of_the_softmax(tiny_lm):
    output = OutputEmbeddings(tiny_lm)
    inputs = Inputs(random_vectors(["x"], 4), None, None, CPU, output)
    for _ in range(2):  # of new words, then of known ones
        found = inputs([("Mira", "mira", "THE", "cat"), ("bank",)]).output
        # As written, else in lower case ("Mira" is not looked for), else <UNK>.
        assert found[0].tolist() == [5, 2, 3, 2]
        assert found[1, 0] == 10
    many = tuple(map(str, range(3000)))
    assert (inputs([(*many, "bank")]).output[0, -1]) == 10, "the cache has grown"
    assert make_inputs()(SENTENCES).output is None


# ── batch -> vectors ────────────────────────────────────────────────────────────────────────

LENGTHS = (3, 1, 0)
STATIC, LETTERS, D = 5, 6, 16


def batch(T=3, C=4, dtype=torch.float32, seed=0):
    rng = torch.Generator().manual_seed(seed)
    mask = torch.arange(T) < torch.tensor(LENGTHS).unsqueeze(1)  # (B, T)
    return TokenBatch(
        static=torch.randint(1, 9, mask.shape, generator=rng) * mask,
        letters=torch.randint(1, 7, (*mask.shape, C), generator=rng) * mask[..., None],
        layers=(torch.randn(3, *mask.shape, D, generator=rng) * mask[..., None]).to(dtype),
        mask=mask,
    )


def make(elmo=True, **settings):
    torch.manual_seed(0)
    settings = InputSettings(**{"letters": LETTERS, "elmo_dropout": 0.0, **settings})
    table = torch.randn(9, STATIC)
    table[0] = 0
    layer = make_elmo_layer(Elmo.untrained(tiny_config(), seed=1), settings) if elmo else None
    return TokenInput(settings, table, 7, layer)


def test_output_embeddings_are_rows_of_the_softmax_centered_and_scaled(tiny_lm):
    settings = InputSettings(random_width=0)
    layer, output = make_elmo_layer(tiny_lm, settings), OutputEmbeddings(tiny_lm)
    inputs = Inputs(random_vectors([], 0), None, layer, CPU, output)
    tokens = inputs.make_module(settings).eval()
    assert tokens.width == 8 + D
    found = tokens(inputs([("Mira", "sings"), ("cat",)]))  # (2, 2, 8 + D)
    weight = tiny_lm.lm.head.weight  # (11, 8)
    wanted = (weight - weight.mean(0)) * 0.4 / weight.std(correction=0)
    torch.testing.assert_close(found[0, :, :8], wanted[[5, 7]])
    torch.testing.assert_close(found[1, 0, :8], wanted[2])
    assert not found[1, 1].any()
    assert not any("output" in name for name in tokens.state_dict()), "they are the ELMo model's"
    assert not any(p.shape == weight.shape for p in tokens.parameters())


def test_a_split_batch_has_the_rows_of_its_sentences(tiny_lm):
    inputs = Inputs(random_vectors([], 0), None, None, CPU, OutputEmbeddings(tiny_lm))
    parts = inputs([("Mira",), ("bank",), ("the",)]).split(2)
    assert [part.output.tolist() for part in parts] == [[[5], [10]], [[3]]]


def test_a_model_without_a_softmax_has_no_output_embeddings(tiny):
    with pytest.raises(ConfigError, match="softmax of the ELMo model, which has none"):
        OutputEmbeddings(tiny)


@pytest.mark.parametrize(
    ("place", "own", "extra"), [("input", D, 0), ("output", 0, D), ("both", D, D), (None, 0, 0)]
)
def test_elmo_widens_the_places_where_it_joins(place, own, extra):
    tokens = make(elmo=place is not None, place=place or "both")
    assert (tokens.width, tokens.extra_width) == (STATIC + LETTERS + own, extra)
    assert tokens(batch()).shape == (3, 3, tokens.width)
    h = torch.randn(3, 3, 7)
    beside = tokens.beside(h, batch())
    assert torch.equal(beside[..., :7], h)
    assert beside.shape[-1] == 7 + extra


def test_each_place_has_a_mix_of_its_own():
    tokens = make(place="both")
    mix = tokens.elmo.mixes[1]
    with torch.no_grad():
        mix.s.copy_(torch.tensor([99.0, 0.0, 0.0]))
        mix.gamma.fill_(2.0)
    found, layers = batch(), batch().layers
    torch.testing.assert_close(tokens(found)[..., -D:], layers.mean(0))
    torch.testing.assert_close(tokens.beside(torch.zeros(3, 3, 1), found)[..., 1:], 2 * layers[0])
    mixes = tokens.mixes()
    assert mixes["input"]["weights"] == pytest.approx([1 / 3] * 3)
    assert mixes["output"]["weights"] == pytest.approx([1.0, 0.0, 0.0])
    assert (mixes["input"]["gamma"], mixes["output"]["gamma"]) == (1.0, 2.0)
    assert make(elmo=False).mixes() == {}


def test_the_top_layer_alone_is_scaled_but_not_mixed():
    tokens = make(layers="top")
    torch.testing.assert_close(tokens(batch())[..., -D:], batch().layers[-1])
    assert tokens.elmo.mixes[0].s.shape == (1,)
    with torch.no_grad():
        tokens.elmo.mixes[0].gamma.fill_(3.0)
    torch.testing.assert_close(tokens(batch())[..., -D:], 3 * batch().layers[-1])


def test_layers_in_float16_are_mixed_in_float32():
    tokens = make()
    found = tokens(batch(dtype=torch.float16))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, tokens(batch()), atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("place", ["input", "both"])
def test_padding_is_zero(place):
    found = make(place=place)(batch())
    assert not found[~batch().mask].any()
    assert found[batch().mask].abs().sum(-1).gt(0).all()


def test_the_penalty_is_lambda_times_the_squared_weights_of_all_mixes():
    tokens = make(place="both", l2=0.1)
    assert tokens.penalty() == 0
    with torch.no_grad():
        for mix in tokens.elmo.mixes:
            mix.s.copy_(torch.tensor([1.0, 2.0, 0.0]))
    assert tokens.penalty().item() == pytest.approx(0.1 * 10)
    tokens.penalty().backward()
    torch.testing.assert_close(tokens.elmo.mixes[0].s.grad, 0.2 * tokens.elmo.mixes[0].s)
    assert make(elmo=False, l2=0.1).penalty() == 0


def test_letters_do_not_depend_on_the_batch():
    tokens, short, long = make(letter_window=5), batch(C=4), batch(T=5, C=9)
    alone = tokens(short)
    letters = torch.zeros(3, 5, 9, dtype=torch.long)
    letters[:, :3, :4] = short.letters
    letters[2] = long.letters[0]
    wider = tokens.letters(letters)[:2, :3]
    torch.testing.assert_close(wider, tokens.letters(short.letters)[:2], atol=1e-6, rtol=0)
    torch.testing.assert_close(wider[0], alone[0, :, STATIC : STATIC + LETTERS], atol=1e-6, rtol=0)


def test_a_model_without_a_character_cnn_needs_no_letters():
    tokens = make(letters=0)
    assert tokens(batch()._replace(letters=None)).shape[-1] == STATIC + D
    assert tokens.letters is None


@pytest.mark.parametrize("is_tuned", [True, False])
def test_static_vectors_are_trained_only_if_set(is_tuned):
    tokens = make(tune_static=is_tuned)
    tokens(batch()).sum().backward()
    grad = tokens.static.weight.grad
    assert (grad is not None) == is_tuned
    if is_tuned:
        assert not grad[0].any()  # padding stays zero
    assert all(mix.gamma.grad is not None for mix in tokens.elmo.mixes)


def test_the_given_table_is_not_changed():
    table = torch.randn(9, STATIC)
    tokens = TokenInput(InputSettings(), table)
    with torch.no_grad():
        tokens.static.weight.zero_()
    assert table.any()


def test_dropout_is_for_training_alone():
    tokens = make(elmo_dropout=0.5, dropout=0.5)
    assert not torch.equal(tokens(batch()), tokens(batch()))
    tokens.eval()
    assert torch.equal(tokens(batch()), tokens(batch()))


def test_elmo_s_dropout_can_be_replaced():
    tokens = make(elmo_dropout=0.9)
    tokens.share_elmo_dropout(nn.Identity())
    torch.testing.assert_close(tokens(batch())[..., -D:], batch().layers.mean(0))
    make(elmo=False).share_elmo_dropout(nn.Identity())


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"place": "middle"}, "place must be one of input, output, both, got 'middle'"),
        ({"layers": "all"}, "layers must be one of mix, top, token, got 'all'"),
        ({"dropout": 1.0}, "^dropout must be a number ≥ 0 and < 1, got 1.0"),
        ({"elmo_dropout": -0.1}, "elmo_dropout must be a number ≥ 0 and < 1, got -0.1"),
        ({"l2": -1.0}, "l2 must be a number ≥ 0, got -1.0"),
        ({"finetune": "yes"}, "finetune must be true or false, got 'yes'"),
        ({"tune_static": 1}, "tune_static must be true or false, got 1"),
        ({"letters": 2.5}, "letters must be an integer ≥ 0, got 2.5"),
        ({"letter_window": 0}, "letter_window must be an integer ≥ 1, got 0"),
    ],
)
def test_invalid_settings_are_named(settings, what):
    with pytest.raises(ConfigError, match=what):
        InputSettings(**settings)


# ── names of weights ────────────────────────────────────────────────────────────────────────


def model_with(**settings):
    model = nn.ModuleDict({"tokens": make(**settings), "head": nn.Linear(2, 2)})
    keep_saved_names(model)
    return model


OWN = {"tokens.static.weight", "tokens.letters.conv.bias", "head.weight"}
MIXES = {f"tokens.mixes.{place}.{name}" for place in ("input", "output") for name in ("s", "gamma")}


@pytest.mark.parametrize("finetune", [True, False])
def test_weights_have_the_names_that_runs_have_on_disk(finetune):
    model = model_with(place="both", finetune=finetune)
    names = model.state_dict().keys()
    assert names >= OWN | MIXES
    bilm = {f"bilm.{name}" for name in Elmo.untrained(tiny_config()).bilm.state_dict()}
    assert {name for name in names if "bilm" in name} == (bilm if finetune else set())
    assert not any(".elmo." in name for name in names)


@pytest.mark.parametrize("finetune", [True, False])
def test_weights_under_these_names_are_loaded(finetune):
    one, two = (model_with(place="both", finetune=finetune) for _ in range(2))
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.normal_()
    state = one.state_dict()
    two.load_state_dict(state, strict=True)
    assert all(map(torch.equal, one.parameters(), two.parameters()))
    mix = two["tokens"].elmo.mixes[1]
    assert torch.equal(mix.s, state["tokens.mixes.output.s"])
    if finetune:
        layer = two["tokens"].elmo.bilm.forward_lstm.layers[0]
        assert torch.equal(layer.bias, state["bilm.forward_lstm.layers.0.bias"])


def test_a_model_without_elmo_keeps_all_its_names():
    model = nn.ModuleDict({"tokens": make(elmo=False), "bilm": nn.Linear(2, 2)})
    keep_saved_names(model)
    assert "bilm.weight" in model.state_dict()
    model.load_state_dict(model.state_dict(), strict=True)
