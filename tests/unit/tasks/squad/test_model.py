"""The reader's parts beside their plain definitions, and texts beside their neighbours."""

from itertools import product

import pytest
import torch

from relmo.errors import ConfigError
from relmo.tasks.inputs import InputSettings, TokenBatch, TokenInput, make_elmo_layer
from relmo.tasks.squad.model import (
    SelfAttention,
    SpanEnds,
    SquadModel,
    SquadSettings,
    best_spans,
    marginal_loss,
)

WORDS, LETTERS = 20, 9
LENGTHS = [7, 1, 12, 4]
ASKED = [3, 5, 1, 2]


@pytest.fixture
def model(tiny):
    torch.manual_seed(0)
    settings = InputSettings(letters=4, place="both")
    layer = make_elmo_layer(tiny, settings)
    tokens = TokenInput(settings, torch.randn(WORDS, 6), LETTERS, layer)
    return SquadModel(SquadSettings(cell_width=5, hidden_width=7), tokens).eval()


def random_batch(lengths, seed):
    make = torch.Generator().manual_seed(seed)
    B, T = len(lengths), max(lengths)
    mask = torch.arange(T) < torch.tensor(lengths)[:, None]
    static = torch.randint(1, WORDS, (B, T), generator=make) * mask
    letters = torch.randint(1, LETTERS, (B, T, 5), generator=make) * mask[..., None]
    layers = torch.randn(3, B, T, 16, generator=make) * mask[..., None]
    return TokenBatch(static, letters, layers, mask)


def part_of(batch, b, length):
    """Sentence b without its neighbours and their padding."""
    static, letters = batch.static[b : b + 1, :length], batch.letters[b : b + 1, :length]
    return TokenBatch(
        static, letters, batch.layers[:, b : b + 1, :length], batch.mask[b : b + 1, :length]
    )


def random_ends(lengths, seed=0):
    make = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    scores = [torch.randn(mask.shape, generator=make) * 3 for _ in range(2)]
    return SpanEnds(*(s.masked_fill(~mask, float("-inf")).log_softmax(1) for s in scores))


@pytest.mark.parametrize("max_span", [1, 2, 5, 17])
@pytest.mark.parametrize("seed", range(5))
def test_decoding_finds_what_a_search_of_all_spans_finds(max_span, seed):
    ends = random_ends(LENGTHS, seed)
    found = best_spans(ends, max_span).tolist()
    for b, length in enumerate(LENGTHS):
        spans = [(s, e) for s, e in product(range(length), repeat=2) if s <= e < s + max_span]
        best = max(spans, key=lambda span: ends.starts[b, span[0]] + ends.ends[b, span[1]])
        assert tuple(found[b]) == best


def test_the_loss_is_minus_the_log_of_all_spans_probabilities_together():
    ends = random_ends(LENGTHS)
    wanted = [[(0, 2), (3, 3), (5, 6)], [(0, 0)], [(11, 11), (2, 9)], [(1, 3)]]
    spans = torch.zeros(4, 3, 2, dtype=torch.long)
    is_span = torch.zeros(4, 3, dtype=torch.bool)
    for b, each in enumerate(wanted):
        spans[b, : len(each)] = torch.tensor(each)
        is_span[b, : len(each)] = True
    found = marginal_loss(ends, spans, is_span)
    for b, each in enumerate(wanted):
        p = sum(ends.starts[b, s].exp() * ends.ends[b, e].exp() for s, e in each)
        torch.testing.assert_close(found[b], -p.log())


def test_padding_and_neighbours_do_not_change_where_an_answer_stands(model):
    context, question = random_batch(LENGTHS, 1), random_batch(ASKED, 2)
    together = model(question, context)
    for b, (length, asked) in enumerate(zip(LENGTHS, ASKED, strict=True)):
        alone = model(part_of(question, b, asked), part_of(context, b, length))
        for ours, theirs in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[b, :length], theirs[0], atol=2e-6, rtol=0)
            assert ours[b, length:].exp().sum() == 0


def test_the_question_decides_the_answer(model):
    context = random_batch([9], 1)
    first, other = (model(random_batch([4], seed), context) for seed in (2, 3))
    assert (first.starts - other.starts).abs().max() > 1e-4


def test_starts_and_ends_are_probabilities(model):
    ends = model(random_batch(ASKED, 2), random_batch(LENGTHS, 1))
    for found in ends:
        torch.testing.assert_close(found.exp().sum(1), torch.ones(4))


def test_gradients_are_numbers_and_reach_every_part(model):
    model.train()
    spans = torch.tensor([[[0, 1], [2, 2]], [[0, 0], [0, 0]], [[3, 9], [0, 0]], [[3, 3], [0, 0]]])
    is_span = torch.tensor([[True, True], [True, False], [True, False], [True, False]])
    model.loss(random_batch(ASKED, 2), random_batch(LENGTHS, 1), spans, is_span).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
    reached = [name for name, weight in model.named_parameters() if weight.grad.any()]
    silent = {name for name, _ in model.named_parameters()} - set(reached)
    # A softmax does not feel what all its scores have in common.
    assert silent <= {
        "self_attention.similarity.of_first.weight",
        "starts.layer.bias",
        "ends.layer.bias",
    }


def test_a_token_does_not_attend_to_itself():
    torch.manual_seed(0)
    attention = SelfAttention(6, 5, 0.0)
    x, mask = torch.randn(1, 1, 6), torch.ones(1, 1, dtype=torch.bool)
    h = attention.encoder(x, torch.tensor([1]))
    nothing = torch.zeros_like(h)
    wanted = torch.relu(attention.layer(torch.cat([h, nothing, nothing], -1)))
    torch.testing.assert_close(attention(x, mask, torch.tensor([1])), wanted)


def test_an_empty_question_gives_numbers(model):
    ends = model(random_batch([0, 3], 2), random_batch([4, 2], 1))
    assert not any(found.isnan().any() for found in ends)


@pytest.mark.parametrize("change", [{"cell_width": 0}, {"max_span": 0}, {"dropout": 1.0}])
def test_a_shape_that_cannot_be_is_named(change):
    (name,) = change
    with pytest.raises(ConfigError, match=name):
        SquadSettings(**change)
