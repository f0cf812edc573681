"""The weighted mean of tokens, the loss and the search by which a part is scored."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from relmo.tasks.encoder.data import read_text
from relmo.tasks.encoder.model import (
    EULER,
    EncoderSettings,
    contrastive_loss,
    log_weights,
    mean_reciprocal_rank,
    search,
)
from tests.support.toy_encoder import make_encoder

TEXTS = ["Mira sings.", "the river bank. Mira runs! 😀", "unheard-of", "x" * 400 + " e\u0301"]


def unit(rows, width, seed=0):
    return normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)), dim=1)


# ── pooling ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layers", ["mix", "top", "token"])
def test_pooling_is_a_weighted_sum_over_the_tokens_of_all_sentences(tiny_lm, layers):
    task = make_encoder(tiny_lm, layers)
    net, found = task.net, task.vectors([read_text(text) for text in TEXTS])
    for row, text in zip(found, TEXTS, strict=True):
        total = torch.zeros(net.pooled_width)
        for words in read_text(text):
            batch = task.inputs([words])
            for t, x in enumerate(net.tokens(batch)[0]):
                row_of_softmax = batch.output[0, t]
                score = net.attention.weight[0] @ x + net.prior[row_of_softmax]
                total += math.exp(score.item()) * x
        wanted = net.projection.weight @ total
        torch.testing.assert_close(row, wanted / wanted.norm(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("layers", ["mix", "token"])
def test_neighbours_and_padding_do_not_change_a_vector(tiny, layers):
    task = make_encoder(tiny, layers)
    texts = [read_text(text) for text in (*TEXTS, "the river " * 300, "")]
    together = task.vectors(texts)
    alone = torch.cat([task.vectors([text]) for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    torch.testing.assert_close(task.vectors(texts[::-1]).flip(0), together, atol=1e-6, rtol=0)
    assert not together[-1].any()
    torch.testing.assert_close(together[:-1].norm(dim=1), torch.ones(len(texts) - 1))


def test_words_in_another_order_differ_by_their_sentence_alone(tiny):
    one, other = (read_text(text) for text in ("the river bank", "bank the river"))
    token, mix = (make_encoder(tiny, layers).vectors([one, other]) for layers in ("token", "mix"))
    torch.testing.assert_close(token[0], token[1], atol=1e-6, rtol=0)
    assert (mix[0] - mix[1]).abs().max() > 1e-3


# ── weights of words ────────────────────────────────────────────────────────────────────────


def test_a_word_weighs_more_the_rarer_it_is():
    found = log_weights(10_000, 3e-5).exp()
    p = 1 / ((1 + torch.arange(10_000)) * (math.log(10_000) + EULER))
    torch.testing.assert_close(found, 3e-5 / (3e-5 + p))
    assert (found.diff() > 0).all()
    assert p.sum().item() == pytest.approx(1, abs=0.01)


def test_words_may_weigh_the_same(tiny, tiny_lm):
    assert not log_weights(5, 0.0).any()
    assert len(log_weights(0, 3e-5)) == 0
    assert not make_encoder(tiny_lm, weight_at=0.0).net.prior.any()
    assert len(make_encoder(tiny).net.prior) == 0  # there are no ranks


def test_before_anything_is_learned_weights_are_those_of_the_ranks(tiny_lm):
    task = make_encoder(tiny_lm)
    with torch.no_grad():
        task.net.attention.weight.zero_()
    batch = task.inputs([("the", "bank", "Mira", "Zanzibar")])
    found = task.net.weights(task.net.tokens(batch), batch)[0]
    rows = [tiny_lm.lexicon.rows([word])[0] for word in ("the", "bank", "Mira")]
    wanted = log_weights(11, 3e-5)[[*rows, -1]]  # an unknown word is rarer than all known ones
    torch.testing.assert_close(found, wanted.exp())


@pytest.mark.parametrize(
    "values", [{"width": 0}, {"weight_at": -1.0}, {"temperature": 0.0}, {"chunk_tokens": 0}]
)
def test_settings_that_make_no_sense_are_named(values):
    (name,) = values
    with pytest.raises(ValueError, match=f"{name} must be .*, got"):
        EncoderSettings(**values)


# ── the loss ────────────────────────────────────────────────────────────────────────────────


def plain_loss(queries, passages, right, temperature):
    """The loss, term by term."""
    size, width = queries.shape
    total = 0.0
    for part, weight in ((1, 0.6), (2, 0.2), (4, 0.2)):
        cut = max(1, width // part)
        q, p = normalize(queries[:, :cut], dim=1), normalize(passages[:, :cut], dim=1)
        scores = ((q @ p.T) / temperature).exp().tolist()
        for i in range(size):
            row = sum(scores[i][j] for j in range(len(p)) if j == i or not right[i, j])
            column = sum(scores[k][i] for k in range(size) if k == i or not right[k, i])
            both = math.log(scores[i][i] / row) + math.log(scores[i][i] / column)
            total -= weight * both / 2 / size
    return total


def own(size, more=0):
    return torch.eye(size, size + more, dtype=torch.bool)


@pytest.mark.parametrize(("size", "more", "width"), [(5, 0, 8), (4, 3, 8), (3, 2, 10), (2, 0, 1)])
def test_the_loss_is_that_of_queries_and_passages_at_three_widths(size, more, width):
    queries, passages = unit(size, width), unit(size + more, width, seed=1)
    found = contrastive_loss(queries, passages, own(size, more), 0.3)
    assert found.item() == pytest.approx(plain_loss(queries, passages, own(size, more), 0.3), 1e-5)


def test_passages_that_answer_a_query_too_are_left_out():
    queries, passages, right = unit(4, 8), unit(6, 8, seed=1), own(4, 2)
    right[0, 1] = right[1, 0] = right[2, 4] = True
    found = contrastive_loss(queries, passages, right, 0.1)
    assert found.item() == pytest.approx(plain_loss(queries, passages, right, 0.1), 1e-5)
    assert found < contrastive_loss(queries, passages, own(4, 2), 0.1)
    assert right[0, 0]  # the caller's own is not changed


def test_what_answers_none_counts_for_queries_alone():
    query, passages = unit(1, 2), unit(3, 2, seed=1)
    q, p = query[:, :1].sign(), passages[:, :1].sign()  # a half and a quarter of two are one
    whole, half = (-(x @ y.T / 0.5).log_softmax(1)[0, 0] for x, y in ((query, passages), (q, p)))
    found = contrastive_loss(query, passages, own(1, 2), 0.5)
    torch.testing.assert_close(found, (0.6 * whole + 0.4 * half) / 2)  # none for the passage


def test_a_single_pair_and_equal_passages_teach_nothing():
    queries = unit(3, 8).requires_grad_()
    for rows, right in ((1, own(1)), (3, torch.ones(3, 3, dtype=torch.bool))):
        loss = contrastive_loss(queries[:rows], unit(1, 8, seed=1).expand(rows, 8), right, 0.05)
        assert loss.item() == pytest.approx(0, abs=1e-6)
        loss.backward()
        assert queries.grad.isfinite().all()


# ── search ──────────────────────────────────────────────────────────────────────────────────


def test_ranks_by_hand():
    passages = torch.eye(4)
    queries = torch.tensor([[9.0, 2, 1, 0], [9, 2, 1, 0], [9, 2, 1, 0], [5, 5, 1, 0]])
    ranks, others = search(queries, passages, [{0}, {2}, {2, 1}, {1}])
    assert ranks.tolist() == [1, 3, 2, 1.5]  # the best of two; a tie is shared
    assert others.tolist() == [1, 0, 0, 0]
    assert mean_reciprocal_rank(ranks) == pytest.approx((1 + 1 / 3 + 1 / 2 + 2 / 3) / 4)
    assert mean_reciprocal_rank(ranks, 2) == pytest.approx((1 + 1 / 2 + 2 / 3) / 4)
    assert mean_reciprocal_rank(ranks, 1) == pytest.approx(1 / 4)
    assert mean_reciprocal_rank(torch.zeros(0)) == 0


def test_equal_vectors_for_all_find_nothing():
    same = unit(1, 8).expand(50, 8)
    ranks, _ = search(same, same, [{i} for i in range(50)])
    assert set(ranks.tolist()) == {25.5}
    assert mean_reciprocal_rank(ranks) == 0


def test_the_only_passage_is_found():
    ranks, others = search(unit(2, 8), unit(1, 8, seed=1), [{0}, {0}])
    assert ranks.tolist() == [1, 1]
    assert others.tolist() == [0, 0]


def test_many_queries_are_searched_in_parts():
    passages = unit(1200, 16)
    ranks, others = search(passages, passages, [{i} for i in range(1200)])
    assert ranks.tolist() == [1] * 1200
    assert all(other != number for number, other in enumerate(others.tolist()))
