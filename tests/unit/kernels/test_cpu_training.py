"""The hand-written training step of a CPU against plain autograd."""

import pytest
import torch

from relmo.kernels import cpu_training, reference
from relmo.kernels.reference import Clips, LstmWeights
from relmo.nn.lm_head import LmHead, Sample, initialize


def random(*shape, scale=0.5):
    generator = torch.Generator().manual_seed(sum(shape))
    return scale * torch.randn(shape, dtype=torch.float64, generator=generator)


def lstm_inputs(T, B, P, H, projects):
    x, h, c = random(2, T, B, P), random(2, B, P), random(2, B, H, scale=0.2)
    weights = LstmWeights(
        random(2, 4 * H, P),
        random(2, 4 * H, P, scale=0.4),
        random(2, 4 * H),
        random(2, P, H) if projects else None,
    )
    return x, h, c, LstmWeights(*(w if w is None else w.requires_grad_() for w in weights))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("P", "H", "projects", "clips"),
    [(6, 10, True, Clips()), (6, 10, True, Clips(0.3, 0.2)), (8, 8, False, Clips(0.3))],
)
def test_outputs_state_and_gradients_are_those_of_autograd(P, H, projects, clips, threads):
    x, h, c, weights = lstm_inputs(5, 3, P, H, projects)
    inputs = [x.requires_grad_(), *(w for w in weights if w is not None)]
    wanted = reference.paired_lstm(x, h, c, weights, clips)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = cpu_training.paired_lstm(x, h, c, weights, clips)
        pull = random(*found[0].shape)
        gradients = torch.autograd.grad(found[0], inputs, pull)
    finally:
        torch.set_num_threads(before)
    for clip, values in ((clips.cell, wanted[2]), (clips.output, wanted[0])):
        if clip is not None:
            assert 0 < (values.abs() == clip).double().mean() < 1, "all or nothing is clipped"
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradients, torch.autograd.grad(wanted[0], inputs, pull))


def test_backward_runs_once():
    x, h, c, weights = lstm_inputs(3, 2, 4, 6, projects=True)
    total = cpu_training.paired_lstm(x, h, c, weights, Clips())[0].sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="runs once"):
        total.backward()


@pytest.mark.parametrize("scores", [1 << 22, 12])
def test_a_sampled_loss_and_its_gradients_are_those_of_autograd(monkeypatch, scores):
    """Whatever part of the scores is held at a time; targets 2 and 4 are among the negatives."""
    monkeypatch.setattr(cpu_training, "SCORES", scores)
    head = LmHead(7, 4).double()
    initialize(head, torch.Generator().manual_seed(1))
    negatives, targets = torch.tensor([1, 2, 4]), torch.tensor([2, 0, 4, 6, 2])
    hidden, scale = random(5, 4).requires_grad_(), torch.tensor([1.0, 0.0, 2.0, 0.5, 1.0]).double()
    log_chances = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]).double().log()
    sample = Sample(negatives, log_chances)
    wanted = (head.sampled_losses(hidden, targets, sample) * scale).sum()
    bias = head.bias - log_chances
    hits = torch.tensor([1, -1, 2, -1, 1], dtype=torch.int32)
    found = cpu_training.sampled_loss(
        hidden, head.weight[targets], bias[targets], head.weight[negatives], bias[negatives], hits,
        scale,
    )  # fmt: skip
    torch.testing.assert_close(found, wanted)
    of = [hidden, head.weight, head.bias]
    torch.testing.assert_close(
        torch.autograd.grad(3 * found, of), torch.autograd.grad(3 * wanted, of)
    )
