"""Muon: LSTM matrices move by orthogonal matrices, everything else by AdamW."""

import copy

import pytest
import torch

from relmo.config import LstmConfig
from relmo.nn.bilm import LstmLayer
from relmo.train.muon import STEP_SIZE, Muon, blocks_of, orthogonal
from relmo.train.optim import OptimSettings, make_optimizer

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
