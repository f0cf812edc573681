"""Optimisers and the learning rate's way."""

import pytest
import torch
from torch import nn

from relmo.errors import ConfigError
from relmo.train.optim import OptimSettings, make_optimizer, rate_at, set_rate

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
    model = nn.ModuleDict({"head": nn.Linear(2, 2), "bilm": nn.Linear(3, 3)})
    model.bilm = model["bilm"]
    optimizer = make_optimizer(model, OptimSettings(learning_rate=0.5, bilm_rate=0.1))
    set_rate(optimizer, 0.5)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert [rates[id(p)] for p in model["head"].parameters()] == [0.5, 0.5]
    assert [rates[id(p)] for p in model["bilm"].parameters()] == [0.05, 0.05]


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
    set_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bilm_rate": 0.0}, "bilm_rate is 0.0; it must be positive"),
        ({"bilm_rate": 0.1, "optimizer": "muon"}, "leave bilm_rate at 1"),
        ({"optimizer": "sgd"}, "'sgd'; choose adamw, muon or adagrad"),
        ({"learning_rate": 0}, "learning_rate is 0; it must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"warmup": 1.0}, "warmup is 1.0"),
        ({"beta2": 1.5}, "beta2 is 1.5"),
        ({"final": -0.1}, "final is -0.1; it cannot be negative"),
        ({"weight_decay": -1}, "weight_decay is -1"),
        ({"clip_norm": -1}, "clip_norm is -1"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        OptimSettings(**settings)
