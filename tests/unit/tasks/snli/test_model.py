"""What is dropped from a pair of sentences, and how sharply their words are matched."""

import pytest
import torch

from relmo.errors import ConfigError
from relmo.tasks.inputs import InputSettings, TokenBatch, TokenInput, make_elmo_layer
from relmo.tasks.snli.model import PairDropout, SnliModel, SnliSettings


def test_a_pair_loses_the_same_features_at_every_token():
    torch.manual_seed(0)
    dropout = PairDropout(0.5).train()
    kept = dropout(torch.ones(6, 4, 32)) != 0  # three premises, then their hypotheses
    assert torch.equal(kept[:3], kept[3:])
    assert torch.equal(kept, kept[:, :1].expand_as(kept))
    assert not torch.equal(kept[0], kept[1])


def test_what_is_kept_makes_up_for_what_is_dropped():
    torch.manual_seed(0)
    assert set(PairDropout(0.75).train()(torch.ones(4, 2, 64)).unique().tolist()) == {0.0, 4.0}


def test_nothing_is_dropped_outside_training():
    x = torch.randn(4, 3, 5)
    assert torch.equal(PairDropout(0.5).eval()(x), x)
    assert torch.equal(PairDropout(0.0).train()(x), x)


def test_a_model_shares_dropout_where_it_is_asked_to(tiny):
    reads = InputSettings(elmo_dropout=0.4)
    for is_shared in (True, False):
        tokens = TokenInput(reads, torch.zeros(3, 2), elmo=make_elmo_layer(tiny, reads))
        settings = SnliSettings(
            cell_width=2, composition_width=2, hidden_width=2, is_dropout_shared=is_shared
        )
        model = SnliModel(settings, tokens, 3)
        found = [isinstance(each, PairDropout) for each in (model.dropout, tokens.elmo.dropout)]
        assert found == [is_shared, is_shared]


def scores_at(temperature: float) -> torch.Tensor:
    """Of a premise in two orders, each with the same hypothesis."""
    torch.manual_seed(0)
    tokens = TokenInput(InputSettings(), 10 * torch.eye(6))
    settings = SnliSettings(
        cell_width=3, composition_width=3, hidden_width=6, temperature=temperature
    )
    model = SnliModel(settings, tokens, 3).eval()
    rows = torch.tensor([[2, 3, 4], [5, 3, 2]])
    with torch.no_grad():
        found: torch.Tensor = model(
            TokenBatch(rows, letters=None, layers=None, mask=torch.ones(2, 3, dtype=torch.bool))
        )
    return found


def test_the_temperature_softens_what_is_matched():
    sharp, soft, softer, even = (scores_at(t) for t in (1.0, 10.0, 1e6, 1e9))
    assert not torch.allclose(sharp, soft, atol=1e-5)
    torch.testing.assert_close(softer, even)  # each word sees all others alike


def test_a_temperature_of_zero_is_named():
    with pytest.raises(ConfigError, match=r"temperature must be a number > 0, got 0.0"):
        SnliSettings(temperature=0.0)
