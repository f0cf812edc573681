"""All spans of a text at once, and the best of them without crossings."""

import pytest
import torch

from relmo.nn.blocks.spans import (
    SpanLayer,
    best_spans,
    heads_of,
    heads_of_all,
    spans_within,
    windows,
)

N, W = 9, 4
SENTENCE_OF = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 2])


def chosen(fits):
    """First and last tokens of all spans that fit."""
    first, width = fits.nonzero(as_tuple=True)
    return first, first + width


def crossing(a, b):
    (a1, a2), (b1, b2) = sorted([a, b])
    return a1 < b1 <= a2 < b2


def greedy(scores, spans, num_kept):
    """The plain way: from the best down."""
    taken = []
    for i in sorted(range(len(spans)), key=lambda i: -scores[i]):
        if len(taken) < num_kept and not any(crossing(spans[i], spans[j]) for j in taken):
            taken.append(i)
    return sorted(taken, key=lambda i: spans[i])


def test_windows_hold_the_tokens_from_each_on():
    assert windows(torch.tensor([1, 2, 3]), 2).tolist() == [[1, 2], [2, 3], [3, 0]]
    assert windows(torch.randn(5, 7), 3).shape == (5, 3, 7)
    assert windows(torch.zeros(0, 7), 3).shape == (0, 3, 7)


def test_spans_stay_in_their_sentence():
    fits = spans_within(SENTENCE_OF, W)
    for i in range(N):
        for w in range(W):
            is_in = i + w < N and SENTENCE_OF[i] == SENTENCE_OF[i + w]
            assert fits[i, w] == is_in


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_heads_of_all_spans_are_those_of_each(scale):
    torch.manual_seed(0)
    values, attention = torch.randn(N, 5), scale * torch.randn(N)
    fits = spans_within(SENTENCE_OF, W)
    first, last = chosen(fits)
    everywhere = heads_of_all(values, attention, fits)[fits]  # (S, F)
    assert everywhere.isfinite().all()
    each = heads_of(values, attention, first, last, W)
    for s, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        wanted = torch.softmax(attention[a : b + 1], 0) @ values[a : b + 1]
        torch.testing.assert_close(each[s], wanted)
    if scale == 1:  # with scores this far apart, tokens of no weight at all become equal
        torch.testing.assert_close(everywhere, each)


def test_a_layer_over_all_spans_is_a_linear_layer_on_each():
    torch.manual_seed(0)
    layer = SpanLayer(6, 3, 2, 5)
    ends, heads, attention = torch.randn(N, 6), torch.randn(N, 3), torch.randn(N)
    widths = torch.randn(W, 2)
    fits = spans_within(SENTENCE_OF, W)
    found = layer(ends, heads, attention, widths, fits)[fits]
    first, last = chosen(fits)
    head = heads_of(heads, attention, first, last, W)
    whole = torch.cat([ends[first], ends[last], head, widths[last - first]], 1)  # (S, G)
    parts = [layer.first, layer.last, layer.head, layer.width]
    weight = torch.cat([part.weight for part in parts], 1)
    torch.testing.assert_close(found, whole @ weight.T + layer.first.bias)


def test_gradients_reach_attention_and_are_numbers():
    values = torch.randn(N, 5, requires_grad=True)
    attention = (100 * torch.randn(N)).requires_grad_()
    fits = spans_within(SENTENCE_OF, W)
    heads_of_all(values, attention, fits)[fits].square().sum().backward()
    assert values.grad.isfinite().all()
    assert attention.grad.isfinite().all()
    assert attention.grad.any()


@pytest.mark.parametrize("seed", range(20))
def test_the_best_spans_are_those_of_the_plain_greedy_way(seed):
    torch.manual_seed(seed)
    length = 30
    fits = spans_within(torch.arange(length) // 11, 6)
    first, last = chosen(fits)
    scores = torch.randn(len(first))
    spans = list(zip(first.tolist(), last.tolist(), strict=True))
    found = best_spans(scores, first, last, 40).tolist()  # all of them are looked at
    assert found == greedy(scores.tolist(), spans, 40)


@pytest.mark.parametrize("num_kept", [1, 3, 10])
def test_kept_spans_never_cross_are_few_enough_and_stand_in_order(num_kept):
    torch.manual_seed(num_kept)
    fits = spans_within(torch.zeros(200, dtype=torch.long), 12)
    first, last = chosen(fits)
    found = best_spans(torch.randn(len(first)), first, last, num_kept)
    spans = list(zip(first[found].tolist(), last[found].tolist(), strict=True))
    assert 1 <= len(spans) <= num_kept
    assert spans == sorted(set(spans))
    assert not any(crossing(a, b) for a in spans for b in spans)


def test_spans_inside_each_other_and_with_a_common_end_are_kept():
    first, last = torch.tensor([0, 0, 2, 1]), torch.tensor([4, 2, 4, 2])
    kept = best_spans(torch.tensor([1.0, 2.0, -1.0, 0.5]), first, last, 4)
    assert kept.tolist() == [1, 0, 3]  # [2, 4] crosses [0, 2], which is better


def test_no_spans_give_none():
    empty = torch.zeros(0, dtype=torch.long)
    assert best_spans(torch.zeros(0), empty, empty, 3).tolist() == []
