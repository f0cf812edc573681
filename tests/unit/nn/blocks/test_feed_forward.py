"""Maxout and the ReLU layer."""

import pytest
import torch

from relmo.errors import ConfigError
from relmo.nn.blocks.feed_forward import Maxout, rectified


def test_maxout_takes_the_largest_of_its_normalised_maps():
    layer = Maxout(3, 2, pieces=4, dropout=0.0)
    x = torch.randn(5, 3)
    maps = x @ layer.maps.weight.T  # (5, 8)
    normal = (maps - maps.mean(0)) / (maps.var(0, unbiased=False) + 1e-5).sqrt()
    wanted = torch.stack([normal[:, :4].amax(1), normal[:, 4:].amax(1)], 1)  # (5, 2)
    torch.testing.assert_close(layer(x), wanted)


def test_neighbours_count_in_training_alone():
    layer = Maxout(3, 2, pieces=4, dropout=0.0)
    x = torch.randn(5, 3)
    for _ in range(20):
        together = layer(x)
    assert not torch.allclose(layer(x[:2]), together[:2])
    layer.eval()
    torch.testing.assert_close(layer(x[:2]), layer(x)[:2])


def test_normalised_by_vector_neighbours_never_count():
    layer = Maxout(3, 2, pieces=4, dropout=0.0, norm="layer")
    x = torch.randn(5, 3)
    torch.testing.assert_close(layer(x[:1]), layer(x)[:1])
    maps = x @ layer.maps.weight.T  # (5, 8)
    normal = torch.nn.functional.layer_norm(maps, (8,))
    torch.testing.assert_close(layer(x)[:, 0], normal[:, :4].amax(1))


def test_too_few_values_to_be_normalised_by_vector_are_refused():
    with pytest.raises(ConfigError, match="a maxout layer of 2 values is too narrow"):
        Maxout(3, 1, pieces=2, dropout=0.0, norm="layer")
    Maxout(3, 1, pieces=2, dropout=0.0, norm="batch")


def test_one_example_alone_can_be_learned_from():
    layer = Maxout(3, 2, pieces=4, dropout=0.0)
    layer(torch.randn(5, 3))
    before = layer.norm.running_mean.clone()
    found = layer(torch.randn(1, 3))
    found.sum().backward()
    assert layer.maps.weight.grad.any()
    assert torch.equal(layer.norm.running_mean, before)


def test_dropout_thins_out_what_comes_out():
    layer = Maxout(3, 400, pieces=2, dropout=0.5)
    found = layer(torch.randn(6, 3))
    assert 0.4 < (found == 0).float().mean() < 0.6


def test_maxout_is_float32_under_autocast():
    layer = Maxout(3, 2, pieces=4, dropout=0.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.randn(5, 3)).dtype == torch.float32


def test_the_relu_layer_keeps_the_size_of_what_goes_through():
    torch.manual_seed(0)
    x = torch.randn(2000, 200)
    found = rectified(200, 300)(x)
    assert found.min() == 0
    assert found.square().mean().item() == pytest.approx(1.0, rel=0.1)
