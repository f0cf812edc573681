"""ELMo inside a PyTorch model."""

import pytest
import torch

from relmo import Elmo, ElmoLayer
from relmo.errors import ConfigError
from tests.conftest import tiny_config

SENTENCES = [["The", "bank", "of", "the", "river"], ["Bank"], []]


@pytest.fixture
def elmo() -> Elmo:
    return Elmo.untrained(tiny_config(), seed=1)


def test_sentences_become_mixed_tensors_and_a_mask(elmo):
    layer = ElmoLayer(elmo, mixes=2).eval()
    mixed, mask = layer(SENTENCES)
    assert [tuple(m.shape) for m in mixed] == [(3, 5, 16), (3, 5, 16)]
    assert mask.tolist() == [[True] * 5, [True] + [False] * 4, [False] * 5]
    assert not mixed[0][~mask].any()
    torch.testing.assert_close(mixed[0], mixed[1])


def test_a_fresh_mix_is_the_mean_of_what_embed_gives(elmo):
    mixed, _ = ElmoLayer(elmo).eval()(SENTENCES)
    wanted = torch.from_numpy(elmo.embed(SENTENCES)[0].mean(0))
    torch.testing.assert_close(mixed[0][0], wanted, rtol=0, atol=1e-6)


def test_a_frozen_layer_has_the_mixes_parameters_alone(elmo):
    layer = ElmoLayer(elmo, mixes=2, dropout=0.0)
    assert sum(p.numel() for p in layer.parameters()) == 2 * (3 + 1)
    assert set(layer.state_dict()) == {f"mixes.{i}.{n}" for i in (0, 1) for n in ("s", "gamma")}
    mixed, _ = layer(SENTENCES)
    (mixed[0].sum() + layer.penalty()).backward()
    assert layer.mixes[0].s.grad is not None
    assert all(p.grad is None for p in elmo.bilm.parameters())


def test_finetuning_trains_the_bilm_and_the_memo_follows(elmo):
    layer = ElmoLayer(elmo, finetune=True, dropout=0.0)
    before = elmo.embed(SENTENCES)[0]
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    mixed, _ = layer(SENTENCES)
    mixed[0].square().sum().backward()
    assert all(p.grad is not None for p in elmo.bilm.parameters())
    optimizer.step()
    after = torch.from_numpy(elmo.embed(SENTENCES)[0])
    assert not torch.allclose(torch.from_numpy(before), after)
    mixed, _ = layer.eval()(SENTENCES)
    mix = layer.mixes[0]
    wanted = mix.gamma * torch.einsum("l,ltd->td", mix.weights(), after)
    torch.testing.assert_close(mixed[0][0], wanted, rtol=0, atol=1e-5)


def test_the_penalty_is_lambda_times_the_squared_weights(elmo):
    layer = ElmoLayer(elmo, mixes=2, l2=0.5)
    assert layer.penalty().item() == 0.0
    with torch.no_grad():
        layer.mixes[1].s.copy_(torch.tensor([1.0, 0.0, 2.0]))
    assert layer.penalty().item() == 2.5


def test_dropout_acts_in_training_alone(elmo):
    layer = ElmoLayer(elmo, dropout=0.5)
    assert (layer(SENTENCES)[0][0][0] == 0).any()
    assert not (layer.eval()(SENTENCES)[0][0][0] == 0).any()


def test_changing_the_layers_dtype_leaves_a_frozen_bilm_alone(elmo):
    mixed, _ = ElmoLayer(elmo).eval().to(torch.bfloat16)(SENTENCES)
    assert mixed[0].dtype == torch.bfloat16
    assert next(elmo.bilm.parameters()).dtype == torch.float32


def test_autocast_around_a_task_leaves_later_calls_exact(elmo):
    layer = ElmoLayer(elmo).eval()
    before = elmo.embed(SENTENCES)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer([["new", "words"]])
    after = elmo.embed(SENTENCES)[0]
    assert (before == after).all()
    assert elmo.embed([["new", "words"]])[0].dtype.name == "float32"


def test_at_least_one_mix(elmo):
    with pytest.raises(ConfigError, match="mixes must be an integer ≥ 1, got 0"):
        ElmoLayer(elmo, mixes=0)


def test_strings_are_taken_too(elmo):
    mixed, mask = ElmoLayer(elmo).eval()(["The bank.", "Rates"])
    assert mixed[0].shape == (2, 3, 16)
    assert mask.sum().item() == 4


# ── words without their sentence ────────────────────────────────────────────────────────────


ODD = [["שלום", "👩‍🚀", "x" * 400, "e\u0301", "\ud800", "bank"], [], ["bank"]]


def test_the_token_layer_is_one_of_the_equal_halves_of_layer_0(elmo):
    layers = ElmoLayer(elmo, layers="token").read(SENTENCES + ODD)
    assert layers.values.shape == (1, 6, 6, 8)
    for row, wanted in enumerate(elmo.embed(SENTENCES + ODD)):
        found = layers.values[0, row, : wanted.shape[1]].numpy()
        for half in (wanted[0, :, :8], wanted[0, :, 8:]):
            assert found == pytest.approx(half, abs=1e-6)


def test_the_token_layer_is_scaled_and_masked(elmo):
    layer = ElmoLayer(elmo, layers="token", mixes=2).eval()
    assert layer.width == 8
    with torch.no_grad():
        layer.mixes[1].gamma.fill_(0.5)
    (whole, half), mask = layer(SENTENCES)
    assert mask.tolist() == [[True] * 5, [True] + [False] * 4, [False] * 5]
    assert not whole[~mask].any()
    torch.testing.assert_close(half, whole / 2)
    torch.testing.assert_close(whole[0, 3], layer([["river", "the"]])[0][0][0, 1])


@pytest.mark.parametrize("finetune", [False, True])
@pytest.mark.parametrize(
    ("sentences", "shape"), [([], (0, 0)), ([[]], (1, 0)), ([[], ["Bank"]], (2, 1))]
)
def test_the_token_layer_of_no_words(elmo, finetune, sentences, shape):
    (mixed,), mask = ElmoLayer(elmo, layers="token", finetune=finetune)(sentences)
    assert (mixed.shape, mask.shape) == ((*shape, 8), shape)


def test_finetuning_the_token_layer_trains_the_characters_alone(elmo):
    before = elmo.embed(SENTENCES)[0]
    layer = ElmoLayer(elmo, layers="token", finetune=True, dropout=0.0)
    (mixed,), _ = layer(SENTENCES)
    torch.testing.assert_close(mixed[0], torch.from_numpy(before[0, :, :8]), atol=1e-6, rtol=0)
    mixed.square().sum().backward()
    trained = {name for name, p in elmo.bilm.named_parameters() if p.grad is not None}
    assert trained
    assert trained < {name for name, _ in elmo.bilm.named_parameters()}
    assert not any("lstm" in name for name in trained)
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    (after,), _ = layer.eval().requires_grad_(False)(SENTENCES)
    wanted = layer.mixes[0].gamma * torch.from_numpy(elmo.embed(SENTENCES)[0][0, :, :8])
    torch.testing.assert_close(after[0], wanted, atol=1e-6, rtol=0)
    assert (after[0] - mixed[0]).abs().max() > 1e-4


@pytest.mark.parametrize("options", [{"layers": "none"}, {"layers": "token", "layer_norm": True}])
def test_what_cannot_be_read_of_the_layers_is_refused(elmo, options):
    with pytest.raises(ConfigError, match="layers must be mix, or top or token without layer_norm"):
        ElmoLayer(elmo, **options)


def test_layer_norm_can_be_asked_for(elmo):
    mixed, mask = ElmoLayer(elmo, layer_norm=True, dropout=0.0)(SENTENCES)
    assert mixed[0][mask].std().item() == pytest.approx(1.0, abs=0.5)
