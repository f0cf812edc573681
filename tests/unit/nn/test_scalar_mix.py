"""The learned weighted sum of layers."""

import pytest
import torch

from relmo import Layers, ScalarMix


def layers(B=2, T=4, lengths=(4, 2)) -> Layers:
    mask = torch.arange(T) < torch.tensor(lengths).unsqueeze(1)
    values = torch.randn(3, B, T, 6, generator=torch.Generator().manual_seed(0))
    return Layers(values * mask.unsqueeze(-1), mask)


def test_an_untrained_mix_is_the_mean_of_the_layers():
    found = layers()
    torch.testing.assert_close(ScalarMix(3)(found), found.values.mean(0))


def test_shares_are_a_softmax_and_gamma_scales():
    mix = ScalarMix(3, initial=[0.0, 100.0, 0.0])
    found = layers()
    with torch.no_grad():
        mix.gamma.fill_(2.0)
    torch.testing.assert_close(mix(found), 2 * found.values[1])
    assert mix.weights().sum().item() == pytest.approx(1.0)


def test_layer_norm_takes_all_tokens_of_the_batch_together():
    found = layers()
    mixed = ScalarMix(3, layer_norm=True, initial=[0.0, -1e9, -1e9])(found)
    there = mixed[found.mask]
    assert there.mean().item() == pytest.approx(0, abs=1e-6)
    assert there.var(correction=0).item() == pytest.approx(1, abs=1e-5)


def test_the_penalty_is_the_squared_norm_of_s():
    assert ScalarMix(3, initial=[1.0, 2.0, 0.0]).penalty() == 5.0


def test_a_mix_says_whether_it_was_trained():
    assert "untrained" in repr(ScalarMix(3))
    assert "untrained" not in repr(ScalarMix(3, initial=[1.0, 0.0, 0.0]))


def test_fixed_weights_are_not_learned():
    assert not any(p.requires_grad for p in ScalarMix(2, trainable=False).parameters())


def test_starting_values_must_fit():
    with pytest.raises(ValueError, match="2 starting values for 3 layers"):
        ScalarMix(3, initial=[0.0, 1.0])
