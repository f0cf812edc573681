"""The projected, clipped LSTM."""

import pytest
import torch

from relmo import LstmConfig
from relmo.kernels import reference
from relmo.nn.bilm import FORGET_BIAS, LstmLayer, LstmStack, initialize_stack
from relmo.types import LstmState


def stack(seed=0, **changes) -> LstmStack:
    module = LstmStack(LstmConfig(**{"cell_width": 6, "output_width": 3, **changes}))
    initialize_stack(module, torch.Generator().manual_seed(seed))
    return module


def state(module: LstmStack, B: int) -> LstmState:
    c = module.config
    generator = torch.Generator().manual_seed(5)
    h = torch.randn(c.num_layers, B, c.output_width, generator=generator)
    return LstmState(h, torch.randn(c.num_layers, B, c.cell_width, generator=generator))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_without_clips_it_is_torchs_own_projected_lstm():
    config = LstmConfig(cell_width=6, output_width=3, cell_clip=None, output_clip=None)
    layer = LstmLayer(config)
    theirs = torch.nn.LSTM(3, 6, proj_size=3, batch_first=True)
    with torch.no_grad():
        layer.input_weight.copy_(theirs.weight_ih_l0)
        layer.recurrent_weight.copy_(theirs.weight_hh_l0)
        bias = theirs.bias_ih_l0 + theirs.bias_hh_l0
        bias[6:12] -= FORGET_BIAS
        layer.bias.copy_(bias)
        layer.projection.copy_(theirs.weight_hr_l0)
    x, h, c = torch.randn(2, 5, 3), torch.randn(2, 3), torch.randn(2, 6)
    wanted, (wanted_h, wanted_c) = theirs(x, (h[None], c[None]))
    found, found_h, found_c = layer(x, torch.tensor([5, 5]), h, c)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(found_h, wanted_h[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(found_c, wanted_c[0], rtol=0, atol=1e-6)


def test_clips_bound_the_cell_and_the_output():
    module = stack(num_layers=1, cell_clip=0.1, output_clip=0.02)
    outputs, after = module(10 * torch.randn(2, 7, 3), torch.tensor([7, 4]), state(module, 2))
    assert after.c.abs().max().item() == pytest.approx(0.1)
    assert outputs[0].abs().max() <= 0.02


def test_an_output_without_projection_is_not_clipped():
    gates = torch.full((1, 8), 50.0)
    h, _ = reference.lstm_cell(gates, torch.zeros(1, 2), None, reference.Clips(output=0.01))
    assert h.min() > 0.5


def test_outputs_past_the_end_are_zero_and_the_state_is_that_of_the_last_token():
    module = stack()
    x = torch.randn(1, 4, 3)
    start = state(module, 1)
    whole, wanted = module(x, torch.tensor([4]), start)
    padded = torch.cat([x, torch.randn(1, 3, 3)], 1)
    found, after = module.layers[0](padded, torch.tensor([4]), start.h[0], start.c[0])[:2]
    assert not found[:, 4:].any()
    torch.testing.assert_close(found[:, :4], whole[0])
    torch.testing.assert_close(after, wanted.h[0])


def test_reading_in_two_halves_with_state_is_reading_once():
    module = stack(num_layers=3)
    x, start = torch.randn(2, 8, 3), state(module, 2)
    whole, end = module(x, torch.tensor([8, 8]), start)
    first, middle = module(x[:, :5], torch.tensor([5, 5]), start)
    second, last = module(x[:, 5:], torch.tensor([3, 3]), middle)
    for depth in range(3):
        halves = torch.cat([first[depth], second[depth]], 1)
        torch.testing.assert_close(halves, whole[depth], rtol=0, atol=1e-6)
    torch.testing.assert_close(last.h, end.h, rtol=0, atol=1e-6)
    torch.testing.assert_close(last.c, end.c, rtol=0, atol=1e-6)


def test_skips_add_the_input_from_the_second_layer_on_and_stay_out_of_the_state():
    with_skips, without = stack(), stack(has_skips=False)
    x, lengths = torch.randn(1, 1, 3), torch.tensor([1])
    start = state(with_skips, 1)
    added, state_with = with_skips(x, lengths, start)
    plain, state_without = without(x, lengths, start)
    torch.testing.assert_close(added[0], plain[0])
    torch.testing.assert_close(added[1], plain[1] + plain[0])
    torch.testing.assert_close(state_with.h, state_without.h)


def test_gradients_reach_every_parameter():
    module = stack(has_skips=False)
    outputs, _ = module(torch.randn(2, 4, 3), torch.tensor([4, 2]), state(module, 2))
    outputs[-1].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in module.parameters())
