"""Optimizers and the learning rate's schedule; Muon among them."""

import copy

import pytest
import torch
from torch import nn

from relmo.config import LstmConfig
from relmo.errors import ConfigError
from relmo.nn.bilm import LstmLayer
from relmo.training.optim import (
    STEP_SIZE,
    Muon,
    OptimSettings,
    blocks_of,
    make_optimizer,
    orthogonal,
    rate_at,
    set_rate,
    trained_parameters,
)

SETTINGS = OptimSettings(learning_rate=2.0, warmup=0.1, final=0.05)


def test_the_rate_rises_in_a_line_and_falls_along_a_cosine():
    assert rate_at(0.05, SETTINGS) == pytest.approx(1.0)
    assert rate_at(0.1, SETTINGS) == pytest.approx(2.0)
    assert rate_at(0.55, SETTINGS) == pytest.approx(2.0 * (0.05 + 0.95 / 2))
    assert rate_at(1.0, SETTINGS) == pytest.approx(0.1)
    rates = [rate_at(i / 100, SETTINGS) for i in range(101)]
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_the_first_rate_is_small_but_not_zero():
    assert 0 < rate_at(0.0, SETTINGS) < 0.01


def test_past_its_end_a_run_keeps_the_last_rate():
    assert rate_at(1.3, SETTINGS) == rate_at(1.0, SETTINGS)


def test_without_warm_up_the_highest_rate_comes_first():
    assert rate_at(0.0, OptimSettings(learning_rate=2.0, warmup=0.0)) == 2.0


def test_matrices_decay_and_biases_do_not():
    model = nn.Linear(3, 2)
    optimizer = make_optimizer(model, OptimSettings(weight_decay=0.1))
    found = [(group["weight_decay"], group["params"]) for group in optimizer.param_groups]
    assert [(decay, len(params)) for decay, params in found] == [(0.1, 1), (0.0, 1)]
    assert found[0][1][0] is model.weight


def test_a_bilm_that_is_trained_too_has_a_rate_of_its_own():
    elmo = nn.ModuleDict({"bilm": nn.Linear(3, 3)})
    model = nn.ModuleDict({"elmo": elmo, "head": nn.Linear(2, 2)})
    settings = OptimSettings(learning_rate=0.5, bilm_rate=0.1, warmup=0.0)
    optimizer = make_optimizer(model, settings)
    set_rate(optimizer, 0.0, settings)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert [rates[id(p)] for p in model["head"].parameters()] == [0.5, 0.5]
    assert [rates[id(p)] for p in elmo.parameters()] == [0.05, 0.05]


def test_the_bilm_of_an_elmo_layer_comes_last_but_not_one_that_is_pretrained():
    bilm, head = nn.Linear(3, 3), nn.Linear(2, 2)
    tuned = nn.ModuleDict({"elmo": nn.ModuleDict({"bilm": bilm}), "head": head})
    pretrained = nn.ModuleDict({"bilm": bilm, "head": head})
    shapes = [[tuple(p.shape) for p in trained_parameters(m)] for m in (tuned, pretrained)]
    assert shapes == [[(2, 2), (2,), (3, 3), (3,)], [(3, 3), (3,), (2, 2), (2,)]]


def test_frozen_parameters_are_left_alone():
    model = nn.Linear(3, 2)
    model.weight.requires_grad_(False)
    [group] = make_optimizer(model, OptimSettings()).param_groups
    assert group["params"] == [model.bias]


def test_adagrad_begins_as_the_originals_did():
    model = nn.Linear(3, 2)
    optimizer = make_optimizer(model, OptimSettings(optimizer="adagrad"))
    assert isinstance(optimizer, torch.optim.Adagrad)
    assert torch.equal(optimizer.state[model.weight]["sum"], torch.ones(2, 3))


def test_a_rate_is_set_for_all_groups():
    optimizer = make_optimizer(nn.Linear(3, 2), OptimSettings())
    set_rate(optimizer, 0.0, OptimSettings(learning_rate=0.5, warmup=0.0))
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bilm_rate": 0.0}, "bilm_rate must be a number > 0, got 0.0"),
        ({"bilm_rate": 0.1, "optimizer": "muon"}, "leave bilm_rate at 1"),
        ({"optimizer": "sgd"}, "optimizer must be one of adamw, muon, adagrad, got 'sgd'"),
        ({"learning_rate": 0}, "learning_rate must be a number > 0, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number > 0, got nan"),
        ({"warmup": 1.0}, "warmup must be a number ≥ 0 and < 1, got 1.0"),
        ({"beta2": 1.5}, "beta2 must be a number ≥ 0 and < 1, got 1.5"),
        ({"final": -0.1}, "final must be a number ≥ 0, got -0.1"),
        ({"weight_decay": -1}, "weight_decay must be a number ≥ 0, got -1"),
        ({"clip_norm": -1}, "clip_norm must be a number ≥ 0, got -1"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        OptimSettings(**settings)


# ── Muon ────────────────────────────────────────────────────────────────────────────────────────


CELL, WIDTH = 24, 6


def make_model(seed=0):
    torch.manual_seed(seed)
    layer = LstmLayer(LstmConfig(num_layers=1, cell_width=CELL, output_width=WIDTH))
    model = torch.nn.ModuleDict({"lstm": layer, "head": torch.nn.Linear(WIDTH, 10)})
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    return model


def set_gradients(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator)


@pytest.mark.parametrize("shape", [(1, 40, 8), (1, 8, 40), (3, 40, 8), (2, 16, 16)])
def test_singular_values_come_close_to_one(shape):
    torch.manual_seed(0)
    found = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
    assert found.min() > 0.5
    assert found.max() < 1.3


def test_singular_vectors_stay():
    torch.manual_seed(0)
    matrix = torch.randn(40, 8)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    middle = u.mT @ orthogonal(matrix[None])[0] @ v.mT  # diagonal where the vectors are the same
    assert (middle - torch.diag(middle.diagonal())).abs().max() < 1e-4


def test_a_gradient_of_any_size_gives_the_same_change():
    matrix = torch.randn(1, 40, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(orthogonal(1000 * matrix), orthogonal(matrix), atol=1e-4, rtol=0)


def test_lstm_matrices_move_in_their_gates_and_others_as_adamw_moves_them():
    model, other = make_model(), make_model()
    settings = OptimSettings(optimizer="muon", learning_rate=0.01)
    muon = make_optimizer(model, settings)
    adamw = torch.optim.AdamW(other.parameters(), 0.01, betas=(0.9, 0.98), weight_decay=0.0)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    set_gradients(model, 1)
    set_gradients(other, 1)
    gradient = model["lstm"].input_weight.grad.clone()
    muon.step()
    adamw.step()
    for name in ("head.weight", "head.bias", "lstm.bias"):
        torch.testing.assert_close(dict(model.named_parameters())[name], other.get_parameter(name))
    moved = before["lstm.input_weight"] - model["lstm"].input_weight.detach()
    gates = gradient.view(4, CELL, WIDTH)
    wanted = torch.cat([orthogonal(gate[None])[0] for gate in gates]) * 0.01 * STEP_SIZE * CELL**0.5
    torch.testing.assert_close(moved, wanted, atol=1e-6, rtol=1e-4)
    rms = moved.square().mean().sqrt() / 0.01
    assert rms == pytest.approx(STEP_SIZE, rel=0.3)


def test_it_knows_the_matrices_of_lstms():
    model = make_model()
    layer = model["lstm"]
    found = blocks_of(model)
    assert found == {layer.input_weight: 4, layer.recurrent_weight: 4, layer.projection: 1}


def test_weights_without_a_gradient_stay():
    model = make_model()
    muon = make_optimizer(model, OptimSettings(optimizer="muon"))
    set_gradients(model, 1)
    model["lstm"].projection.grad = None
    before = model["lstm"].projection.detach().clone()
    muon.step()
    assert torch.equal(before, model["lstm"].projection)


def test_a_saved_and_loaded_optimizer_goes_on_to_the_bit():
    model, other = make_model(), make_model()
    settings = OptimSettings(optimizer="muon", weight_decay=0.1)
    muon = make_optimizer(model, settings)
    assert isinstance(muon, Muon)
    set_gradients(model, 1)
    muon.step()
    other.load_state_dict(model.state_dict())
    loaded = make_optimizer(other, settings)
    loaded.load_state_dict(copy.deepcopy(muon.state_dict()))
    for each, optimizer in ((model, muon), (other, loaded)):
        set_gradients(each, 2)
        optimizer.step()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
