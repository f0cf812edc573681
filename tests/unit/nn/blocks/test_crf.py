"""The CRF against every sequence, one by one."""

import math
from itertools import pairwise, product

import pytest
import torch

from relmo.errors import ConfigError
from relmo.nn.blocks.crf import Crf, make_lattice, viterbi
from relmo.tasks.chunk_tags import transitions_allowed

BIOES = ["O", "B-x", "I-x", "E-x", "S-x"]
LENGTHS = (4, 1, 3, 2)


def make_crf(K=3, allowed=None) -> Crf:
    """A CRF with random scores of its own, in float64."""
    generator = torch.Generator().manual_seed(1)
    crf = Crf(K, allowed).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return crf


def make_batch(K=3, lengths=LENGTHS):
    """Scores (B, T, K), tags (B, T) and mask (B, T)."""
    generator = torch.Generator().manual_seed(0)
    B, T = len(lengths), max(lengths)
    scores = torch.randn(B, T, K, generator=generator, dtype=torch.float64)
    tags = torch.randint(K, (B, T), generator=generator)
    mask = torch.arange(T) < torch.tensor(lengths).unsqueeze(1)
    return scores, tags, mask


def score(crf, scores, path) -> float:
    """The score of one sequence, added up; scores (T, K)."""
    total = crf.start[path[0]] + crf.end[path[-1]]
    total = total + sum(scores[t, tag] for t, tag in enumerate(path))
    return (total + sum(crf.transitions[a, b] for a, b in pairwise(path))).item()


def is_legal(crf, path) -> bool:
    K = len(crf.start)
    return all(crf.allowed[a, b] for a, b in pairwise([K, *path, K + 1]))


def legal_paths(crf, T):
    return [p for p in product(range(len(crf.start)), repeat=T) if is_legal(crf, p)]


def bioes() -> torch.Tensor:
    return torch.from_numpy(transitions_allowed(BIOES))


CRFS = pytest.mark.parametrize("crf", [make_crf(3), make_crf(5, bioes())], ids=["free", "BIOES"])


@CRFS
def test_the_loss_is_minus_the_log_of_the_sequences_share(crf):
    scores, tags, mask = make_batch(len(crf.start))
    for b, length in enumerate(LENGTHS):
        paths = legal_paths(crf, length)
        tags[b, :length] = torch.tensor(paths[b % len(paths)])
    losses = crf.loss(scores, tags, mask)
    for b, length in enumerate(LENGTHS):
        every = [score(crf, scores[b], path) for path in legal_paths(crf, length)]
        own = score(crf, scores[b], tags[b, :length].tolist())
        wanted = torch.logsumexp(torch.tensor(every, dtype=torch.float64), 0) - own
        torch.testing.assert_close(losses[b], wanted)


@CRFS
def test_shares_of_all_sequences_sum_to_one(crf):
    scores, _, mask = make_batch(len(crf.start), (3,))
    every = torch.tensor(legal_paths(crf, 3))  # (paths, 3)
    losses = crf.loss(scores.expand(len(every), -1, -1), every, mask.expand(len(every), -1))
    assert losses.neg().exp().sum().item() == pytest.approx(1.0, abs=1e-12)


@CRFS
def test_the_best_sequence_of_all_is_decoded(crf):
    scores, _, mask = make_batch(len(crf.start))
    scores = 3 * scores
    for b, path in enumerate(crf.decode(scores, mask)):
        every = legal_paths(crf, LENGTHS[b])
        assert tuple(path) == max(every, key=lambda path: score(crf, scores[b], path))


class _Loss(torch.nn.Module):
    """The loss as a module's forward, so that parameters can be given as arguments."""

    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def forward(self, scores, tags, mask):
        return self.crf.loss(scores, tags, mask)


@CRFS
def test_gradients_are_exact(crf):
    scores, tags, mask = make_batch(len(crf.start))
    for b, length in enumerate(LENGTHS):
        tags[b, :length] = torch.tensor(legal_paths(crf, length)[0])
    module = _Loss(crf)
    names, values = zip(*module.named_parameters(), strict=True)

    def loss(scores, *values):
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, given, (scores, tags, mask))

    assert torch.autograd.gradcheck(loss, (scores.requires_grad_(), *values))


def test_an_illegal_sequence_is_never_decoded_however_high_its_scores():
    crf = make_crf(5, bioes())
    scores = 1e6 * torch.randn(20, 6, 5, generator=torch.Generator().manual_seed(2))
    for path in crf.decode(scores, torch.ones(20, 6, dtype=torch.bool)):
        assert is_legal(crf, path)


def test_padding_changes_neither_loss_nor_tags_whatever_stands_there():
    crf = make_crf()
    scores, tags, mask = make_batch()
    scores[~mask] = float("nan")
    tags[~mask] = -100
    scores.requires_grad_()
    losses = crf.loss(scores, tags, mask)
    paths = crf.decode(scores, mask)
    losses.sum().backward()
    assert scores.grad[~mask].eq(0).all()
    for b, length in enumerate(LENGTHS):
        alone = (scores[b : b + 1, :length], mask[b : b + 1, :length])
        torch.testing.assert_close(
            crf.loss(alone[0], tags[b : b + 1, :length], alone[1])[0], losses[b]
        )
        assert crf.decode(*alone) == [paths[b]]


def test_a_sentence_without_words_costs_nothing_and_has_no_tags():
    crf = make_crf()
    scores, tags, mask = make_batch(lengths=(2, 0))
    assert crf.loss(scores, tags, mask)[1] == 0
    assert crf.decode(scores, mask)[1] == []
    assert crf.loss(scores[:, :0], tags[:, :0], mask[:, :0]).tolist() == [0, 0]
    assert crf.decode(scores[:, :0], mask[:, :0]) == [[], []]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_scores_are_added_up_in_float32(dtype):
    crf = make_crf().float()
    scores, tags, mask = make_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = crf.loss(scores.to(dtype), tags, mask)
        paths = crf.decode(scores.to(dtype), mask)
    assert losses.dtype == torch.float32
    exact = crf.loss(scores.to(dtype).double(), tags, mask)
    torch.testing.assert_close(losses.double(), exact, atol=1e-5, rtol=1e-5)
    assert paths == crf.decode(scores.to(dtype).double(), mask)


def test_a_thousand_tokens_keep_their_digits_in_float32():
    crf = make_crf()
    scores, tags, mask = make_batch(lengths=(1000,))
    exact = crf.loss(scores, tags, mask)
    found = crf.float().loss(scores.float(), tags, mask)
    torch.testing.assert_close(found.double(), exact, atol=0, rtol=1e-5)


def test_training_finds_a_rule_that_the_scores_do_not_show():
    crf = Crf(2)
    tags = torch.tensor([[0, 1] * 4])
    scores, mask = torch.zeros(1, 8, 2), torch.ones(1, 8, dtype=torch.bool)
    optimizer = torch.optim.SGD(crf.parameters(), lr=0.5)
    for _ in range(50):
        optimizer.zero_grad()
        crf.loss(scores, tags, mask).sum().backward()
        optimizer.step()
    assert crf.loss(scores, tags, mask).item() < 0.5
    assert crf.decode(scores, mask) == tags.tolist()


def test_viterbi_works_with_fixed_steps_alone():
    scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [2.0, 0.0]]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    free, never = torch.zeros(2, 2), float("-inf")
    assert viterbi(scores, mask, free) == [[0, 1, 0]]
    assert viterbi(scores, mask, torch.tensor([[0.0, never], [0.0, 0.0]])) == [[0, 0, 0]]
    assert viterbi(scores, mask, free, start=torch.tensor([never, 0.0])) == [[1, 1, 0]]
    assert viterbi(scores, mask, free, end=torch.tensor([0.0, 9.0])) == [[0, 1, 1]]


def test_a_sentence_that_no_allowed_sequence_fits_is_an_error():
    crf = Crf(2, torch.from_numpy(transitions_allowed(["B-x", "E-x"])))
    scores, mask = torch.zeros(1, 3, 2), torch.tensor([[True, True, False]])
    assert crf.decode(scores, mask) == [[0, 1]]
    with pytest.raises(ConfigError, match="no sequence of 3 tags is allowed"):
        crf.decode(scores, torch.ones_like(mask))


def test_the_callers_tensors_stay_as_they_were():
    scores, tags, mask = make_batch()
    tags[~mask] = -1
    before = scores.clone(), tags.clone(), mask.clone()
    crf = make_crf()
    crf.loss(scores, tags, mask)
    crf.decode(scores, mask)
    for now, then in zip((scores, tags, mask), before, strict=True):
        assert torch.equal(now, then)


def test_allowed_must_fit_the_tags():
    with pytest.raises(ConfigError, match=r"allowed must be \(5, 5\) for 3 tags, got \(3, 3\)"):
        Crf(3, torch.ones(3, 3))


def test_a_crf_shows_its_steps_and_saves_only_what_it_learned():
    crf = Crf(5, bioes())
    assert "tags=5, allowed=13 of 25 transitions" in repr(crf)
    assert set(crf.state_dict()) == {"transitions", "start", "end"}


@pytest.mark.gpu
def test_on_a_gpu_loss_gradients_and_tags_are_the_same():
    crf = make_crf(5, bioes())
    scores, _, mask = make_batch(5)
    tags = torch.zeros(mask.shape, dtype=torch.long)
    found = {}
    for device in ("cpu", "cuda"):
        there = crf.to(device)
        inputs = scores.detach().to(device).requires_grad_()
        losses = there.loss(inputs, tags.to(device), mask.to(device))
        losses.sum().backward()
        found[device] = (losses.cpu(), inputs.grad.cpu(), there.decode(inputs, mask.to(device)))
    torch.testing.assert_close(found["cuda"][:2], found["cpu"][:2])
    assert found["cuda"][2] == found["cpu"][2]


@pytest.mark.gpu
def test_on_a_gpu_autocast_leaves_the_sums_in_float32():
    crf = make_crf().float().cuda()
    scores, tags, mask = (each.cuda() for each in make_batch(lengths=(50, 30)))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        losses = crf.loss(scores.bfloat16(), tags, mask)
    assert losses.dtype == torch.float32
    exact = crf.double().loss(scores.bfloat16().double(), tags, mask)
    torch.testing.assert_close(losses.double(), exact, atol=0, rtol=1e-5)


# ── probabilities ───────────────────────────────────────────────────────────────────────────


def sequences_of(scores, length, steps):
    """(tags, weight) of every sequence of a sentence, by its definition."""
    transitions, start, end = steps
    found = {}
    for tags in product(range(scores.shape[1]), repeat=length):
        score = start[tags[0]] + end[tags[-1]] + sum(scores[t, k] for t, k in enumerate(tags))
        score += sum(transitions[a, b] for a, b in pairwise(tags))
        found[tags] = math.exp(score)
    total = sum(found.values())
    return {tags: weight / total for tags, weight in found.items()}


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_a_lattice_has_the_probabilities_of_all_sequences(temperature):
    torch.manual_seed(0)
    scores, mask = torch.randn(2, 4, 3), torch.tensor([[True] * 4, [True, True, False, False]])
    steps = torch.randn(3, 3), torch.randn(3), torch.randn(3)
    steps[0][0, 1] = float("-inf")  # a forbidden transition
    scores[1, 2:] = float("nan")  # padding
    found = make_lattice(scores, mask, *steps, temperature=temperature)
    tempered = [each.double() / temperature for each in steps]
    for row, length in enumerate((4, 2)):
        all_of = sequences_of(scores[row].double() / temperature, length, tempered)
        shares = found.tag_probabilities(row)
        for t, k in product(range(length), range(3)):
            wanted = sum(p for tags, p in all_of.items() if tags[t] == k)
            assert shares[t, k] == pytest.approx(wanted, abs=1e-9)
        for first, last in ((0, 0), (0, 1), (1, 1), (1, length - 1)):
            for tags in product(range(3), repeat=last - first + 1):
                inside = {s: p for s, p in all_of.items() if s[first : last + 1] == tags}
                span = found.span_probability(row, first, tags)
                assert span == pytest.approx(sum(inside.values()), abs=1e-9)
                alone = found.span_probability(row, first, tags, barred=2)
                onward = sum(p for s, p in inside.items() if s[last + 1 : last + 2] == (2,))
                assert alone == pytest.approx(sum(inside.values()) - onward, abs=1e-9)


def test_a_crf_s_lattice_prefers_what_it_decodes():
    torch.manual_seed(1)
    crf = Crf(3)
    scores, mask = 3 * torch.randn(1, 5, 3), torch.ones(1, 5, dtype=torch.bool)
    (best,) = crf.decode(scores, mask)
    lattice = crf.lattice(scores, mask)
    chances = {t: lattice.span_probability(0, 0, t) for t in product(range(3), repeat=5)}
    assert max(chances, key=chances.get) == tuple(best)
    assert sum(chances.values()) == pytest.approx(1)
