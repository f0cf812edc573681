"""The softmax of the language models: full, and against a sample that is corrected exactly."""

from itertools import product

import numpy as np
import pytest
import torch

from relmo.errors import ConfigError
from relmo.nn.lm_head import Lesson, LmHead, Sample, Sampler, inclusion_chances, initialize


def random_head(V=7, P=3, seed=0) -> LmHead:
    generator = torch.Generator().manual_seed(seed)
    head = LmHead(V, P)
    initialize(head, generator)
    torch.nn.init.normal_(head.bias, generator=generator)
    return head


def random_tokens(N=5, V=7, P=3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    hidden = torch.randn(N, P, generator=generator)
    return hidden, torch.randint(V, (N,), generator=generator)


def sample_of(words: list[int], chances) -> Sample:
    return Sample(torch.tensor(words, dtype=torch.int64), torch.tensor(chances).log())


def law_of(V: int) -> np.ndarray:
    """Chances of one log-uniform draw over V ranks."""
    return np.array([np.log((k + 2) / (k + 1)) for k in range(V)]) / np.log(V + 1)


def test_a_loss_is_minus_the_log_of_the_targets_probability():
    head, (hidden, targets) = random_head(), random_tokens()
    logs = torch.log_softmax(hidden @ head.weight.T + head.bias, -1)
    torch.testing.assert_close(head.log_probabilities(hidden), logs)
    torch.testing.assert_close(head.losses(hidden, targets), -logs[range(5), targets])


def test_probabilities_sum_to_one():
    hidden, _ = random_tokens()
    torch.testing.assert_close(random_head().log_probabilities(hidden).exp().sum(-1), torch.ones(5))


def test_a_sampled_loss_is_this_by_hand():
    head = LmHead(3, 1)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0], [0.0], [-1.0]]))
        head.bias.copy_(torch.tensor([0.0, 0.5, 1.0]))
    sample = sample_of([0, 2], [0.5, 0.25, 1.0])
    found = head.sampled_losses(torch.tensor([[2.0]]), torch.tensor([1]), sample)
    own, others = 4 * np.exp(0.5), 2 * np.exp(2.0) + np.exp(-1.0)  # e^score / chance
    assert found.item() == pytest.approx(np.log(own + others) - np.log(own), abs=1e-6)


def test_a_target_among_the_negatives_is_not_counted_against_itself():
    head, (hidden, _) = random_head(), random_tokens()
    targets = torch.tensor([2, 2, 4, 0, 5])
    chances = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
    found = head.sampled_losses(hidden, targets, sample_of([1, 2, 4], chances))
    for i, rest in enumerate(([1, 4], [1, 4], [1, 2], [1, 2, 4], [1, 2, 4])):
        wanted = head.sampled_losses(
            hidden[i : i + 1], targets[i : i + 1], sample_of(rest, chances)
        )
        torch.testing.assert_close(found[i : i + 1], wanted)


def test_a_target_that_is_the_only_negative_costs_nothing():
    head, (hidden, _) = random_head(), random_tokens()
    targets = torch.full((5,), 3)
    for words in ([3], []):
        assert not head.sampled_losses(hidden, targets, sample_of(words, [0.5] * 7)).any()


def test_with_every_word_drawn_for_certain_the_sampled_loss_is_the_full_one():
    head, (hidden, targets) = random_head(), random_tokens()
    hidden.requires_grad_()
    found = head.sampled_losses(hidden, targets, sample_of(list(range(7)), [1.0] * 7))
    wanted = head.losses(hidden, targets)
    torch.testing.assert_close(found, wanted)
    variables = [hidden, head.weight, head.bias]
    found_gradients = torch.autograd.grad(found.sum(), variables)
    torch.testing.assert_close(found_gradients, torch.autograd.grad(wanted.sum(), variables))


def expected_gradient(head, hidden, chances, correction) -> torch.Tensor:
    """Gradient of the bias where targets follow the model, exactly: over all targets and samples.

    A word is in a sample with its chance; `correction` is what the loss takes that chance to be.
    """
    V = len(chances)
    likely = head.log_probabilities(hidden)[0].exp().detach()  # (V,)
    loss = torch.zeros((), dtype=torch.float64)
    for drawn in product([False, True], repeat=V):
        chance = np.prod(np.where(drawn, chances, 1 - chances))
        sample = Sample(torch.from_numpy(np.flatnonzero(drawn)), torch.from_numpy(correction).log())
        losses = head.sampled_losses(hidden.expand(V, -1), torch.arange(V), sample)
        loss = loss + chance * (losses * likely).sum()
    return torch.autograd.grad(loss, head.bias)[0]


def test_a_model_that_is_right_is_left_alone_by_the_sampled_loss():
    head = random_head().double()
    hidden = random_tokens()[0][:1].double()
    chances = Sampler(7, 3).chances
    assert expected_gradient(head, hidden, chances, chances).abs().max() < 1e-12
    one_draw = 3 * law_of(7)  # the chances of 3 draws, each word counted as often as it comes
    assert expected_gradient(head, hidden, chances, one_draw).abs().max() > 1e-2


def test_the_sampled_losss_mean_gradient_is_near_that_of_the_full_loss():
    V, P, N, num_draws = 50, 4, 64, 100
    head, sampler = random_head(V, P), Sampler(V, 25)
    hidden = random_tokens(N, V, P)[0].requires_grad_()
    targets = torch.from_numpy(np.random.default_rng(0).choice(V, N, p=law_of(V)))
    log_chances = torch.from_numpy(np.log(sampler.chances)).float()
    variables = [hidden, head.weight, head.bias]
    total = torch.zeros(())
    for step in range(num_draws):
        sample = Sample(torch.from_numpy(sampler.draw(step)), log_chances)
        total = total + head.sampled_losses(hidden, targets, sample).sum() / num_draws
    found = torch.autograd.grad(total, variables)
    wanted = torch.autograd.grad(head.losses(hidden, targets).sum(), variables)
    for ours, full in zip(found, wanted, strict=True):
        assert torch.cosine_similarity(ours.flatten(), full.flatten(), 0) > 0.98
        assert (ours - full).norm() < 0.2 * full.norm()


@pytest.mark.parametrize(
    ("V", "expected"), [(2, 1), (10, 1), (10, 9), (1000, 100), (100_000, 8192)]
)
def test_chances_add_up_to_the_expected_number_and_fall_with_the_rank(V, expected):
    chances = Sampler(V, expected).chances
    assert chances.shape == (V,)
    assert chances.sum() == pytest.approx(expected, rel=1e-9)
    assert (np.diff(chances) <= 0).all()
    assert chances[-1] > 0
    assert chances[0] <= 1


def test_no_more_than_all_words_but_one_are_expected():
    np.testing.assert_array_equal(Sampler(10, 500).chances, Sampler(10, 9).chances)


def test_one_expected_word_follows_the_log_uniform_law_itself():
    np.testing.assert_allclose(Sampler(6, 1).chances, law_of(6), rtol=1e-9)


def test_a_chance_is_that_of_being_among_n_draws():
    chances = inclusion_chances(np.array([0.5, 0.3, 0.2]), expected=2)
    n = np.log1p(-chances) / np.log1p(-np.array([0.5, 0.3, 0.2]))
    np.testing.assert_allclose(n, n[0])
    assert n[0] > 2


def test_words_are_drawn_as_often_as_their_chances_say():
    sampler, num_draws = Sampler(30, 8), 4000
    drawn = np.zeros(30)
    for step in range(num_draws):
        drawn[sampler.draw(step)] += 1
    deviation = np.sqrt(sampler.chances * (1 - sampler.chances) / num_draws)
    assert (np.abs(drawn / num_draws - sampler.chances) <= 4 * deviation).all()
    assert drawn.sum() / num_draws == pytest.approx(8, abs=0.15)


def test_words_are_drawn_independently_of_each_other():
    sampler, num_draws = Sampler(6, 3), 4000
    is_drawn = np.zeros((num_draws, 6))
    for step in range(num_draws):
        is_drawn[step, sampler.draw(step)] = 1
    correlation = np.corrcoef(is_drawn.T) - np.eye(6)
    assert np.abs(correlation).max() < 4 / np.sqrt(num_draws)


def test_the_same_seed_and_step_draw_the_same_words():
    first, again, other = Sampler(100, 20, 3), Sampler(100, 20, 3), Sampler(100, 20, 4)
    assert first.draw(7).tolist() == again.draw(7).tolist()
    assert first.draw(7).tolist() != first.draw(8).tolist()
    assert first.draw(7).tolist() != other.draw(7).tolist()


def test_a_draw_is_sorted_and_holds_no_word_twice():
    drawn = Sampler(100, 50).draw(0)
    assert drawn.dtype == np.int64
    assert (np.diff(drawn) > 0).all()


@pytest.mark.parametrize(("num_words", "expected"), [(1, 1), (10, 0)])
def test_a_sample_of_nothing_is_refused(num_words, expected):
    with pytest.raises(ConfigError, match="at least 1 of 2 words is needed"):
        Sampler(num_words, expected)


def test_fresh_weights_are_the_originals_and_follow_the_generator():
    heads = [LmHead(500, 64) for _ in range(2)]
    for head in heads:
        initialize(head, torch.Generator().manual_seed(4))
    assert heads[0].weight.std().item() == pytest.approx(1 / 8, rel=0.02)
    assert not heads[0].bias.any()
    assert torch.equal(heads[0].weight, heads[1].weight)


# ── with a teacher ──────────────────────────────────────────────────────────────────────────


def random_lesson(weight, N=5, V=7, P=4) -> Lesson:
    hidden = torch.randn(N, P, generator=torch.Generator().manual_seed(2))
    return Lesson(hidden, random_head(V, P, seed=1), weight)


def test_a_taught_loss_is_the_mean_over_what_the_teacher_expects():
    head, (hidden, targets), lesson = random_head(), random_tokens(), random_lesson(0.3)
    mine = head.log_probabilities(hidden)
    theirs = lesson.head.log_probabilities(lesson.hidden).exp()
    wanted = 0.7 * -mine[range(5), targets] + 0.3 * -(theirs * mine).sum(1)
    torch.testing.assert_close(head.losses(hidden, targets, lesson), wanted)


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_with_every_word_drawn_for_certain_the_taught_loss_is_the_full_one(weight):
    head, (hidden, targets), lesson = random_head(), random_tokens(), random_lesson(weight)
    sample = sample_of(list(range(7)), [1.0] * 7)
    found = head.sampled_losses(hidden, targets, sample, lesson)
    torch.testing.assert_close(found, head.losses(hidden, targets, lesson))
    if weight == 0:
        torch.testing.assert_close(found, head.losses(hidden, targets))


def test_a_pupil_that_says_what_the_teacher_says_is_left_alone():
    head, (hidden, targets) = random_head(), random_tokens()
    hidden.requires_grad_()
    lesson = Lesson(hidden.detach(), random_head(), 1.0)
    sample = sample_of([0, 2, 3, 6], [0.5, 0.1, 0.2, 0.9, 0.3, 0.4, 0.7])
    for loss in (
        head.losses(hidden, targets, lesson),
        head.sampled_losses(hidden, targets, sample, lesson),
    ):
        [gradient] = torch.autograd.grad(loss.sum(), hidden)
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-6, rtol=0)
