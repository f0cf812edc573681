"""The alternating highway LSTM and its constrained decoding."""

import numpy as np
import pytest
import torch

from relmo.errors import ConfigError
from relmo.tasks.chunk_tags import transitions_allowed
from relmo.tasks.inputs import Inputs, InputSettings, make_elmo_layer
from relmo.tasks.srl.model import AlternatingLstm, HighwayLstm, SrlModel, SrlSettings
from relmo.tasks.static_vectors import random_vectors

WORDS = ("we", "saw", "her", "cat", "👋🏽", "x" * 400, "नि", "שלום")
TAGS = ("B-ARG0", "B-ARG1", "B-V", "I-ARG0", "I-ARG1", "O")
SHORT, LONG = WORDS[:3], WORDS * 2


def make(elmo=None, place="both", device="cpu", **changes):
    read = InputSettings(place=place)
    layer = None if elmo is None else make_elmo_layer(elmo, read)
    inputs = Inputs(random_vectors(WORDS, 6), None, layer, torch.device(device))
    tokens = inputs.make_module(read)
    settings = SrlSettings(**{"cell_width": 8, "num_layers": 3, "mark_width": 4, **changes})
    torch.manual_seed(0)
    return inputs, SrlModel(settings, tokens, TAGS).eval().to(device)


def at(*positions):
    """Predicates at these positions, one per sentence, (B, 2)."""
    return torch.tensor(list(enumerate(positions)))


def by_steps(layer: HighwayLstm, x: torch.Tensor, from_right: bool) -> torch.Tensor:
    """The layer on one sentence (T, E), a step after the other."""
    lstm, H = layer.lstm, layer.lstm.hidden_size
    h = c = torch.zeros(H)
    found = []
    for x_t in x.flip(0) if from_right else x:
        gates = lstm.weight_ih_l0 @ x_t + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ h + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        r = layer.gate(x_t).sigmoid()
        found.append(r * h + (1 - r) * layer.around(x_t))
    return torch.stack(found[::-1] if from_right else found)


@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
def test_layers_equal_a_loop_over_steps_in_alternating_directions(num_layers):
    torch.manual_seed(1)
    encoder = AlternatingLstm(5, 7, num_layers, 0.0)
    lengths = torch.tensor([4, 6, 1])
    x = torch.randn(3, 6, 5)
    found = encoder(x, lengths)
    for b, length in enumerate(lengths.tolist()):
        wanted = x[b, :length]
        for number, layer in enumerate(encoder.layers):
            wanted = by_steps(layer, wanted, from_right=number % 2 == 1)
        torch.testing.assert_close(found[b, :length], wanted, atol=1e-5, rtol=0)
        assert not found[b, length:].any()


def test_one_layer_reads_from_the_left_and_two_read_both_ways():
    x, lengths = torch.randn(1, 5, 3), torch.tensor([5])
    changed = x.clone()
    changed[0, 4] += 1
    for num_layers, sees_the_end in ((1, False), (2, True)):
        encoder = AlternatingLstm(3, 4, num_layers, 0.0)
        is_same = torch.equal(encoder(x, lengths)[0, 0], encoder(changed, lengths)[0, 0])
        assert is_same != sees_the_end


def test_dropout_takes_the_same_features_from_all_tokens_of_a_sentence():
    torch.manual_seed(0)
    encoder = AlternatingLstm(3, 50, 1, 0.5).train()
    found = encoder(torch.randn(2, 6, 3), torch.tensor([6, 4]))
    dropped = found == 0  # (B, T, H)
    assert (dropped[0] == dropped[0, 0]).all()
    assert (dropped[1, :4] == dropped[1, 0]).all()
    assert 10 < dropped[0, 0].sum() < 40
    assert not torch.equal(dropped[0, 0], dropped[1, 0])


def test_padding_and_neighbours_do_not_change_scores(tiny):
    inputs, model = make(tiny)
    alone = model(inputs([SHORT]), at(1))
    together = model(inputs([LONG, SHORT]), at(3, 1))
    torch.testing.assert_close(together[1:, : len(SHORT)], alone, atol=2e-5, rtol=0)


def test_the_predicate_changes_scores():
    inputs, model = make()
    batch = inputs([SHORT])
    assert not torch.equal(model(batch, at(0)), model(batch, at(1)))


def test_no_illegal_sequence_is_ever_decoded():
    inputs, model = make()
    allowed = transitions_allowed(TAGS)
    start = len(TAGS)
    with torch.no_grad():
        model.to_tags.weight.mul_(50)  # strong opinions, most of them against BIO
    rng = np.random.default_rng(0)
    sentences = [tuple(rng.choice(WORDS, size=rng.integers(1, 12))) for _ in range(60)]
    predicates = at(*[0] * len(sentences))
    scores = model(inputs(sentences), predicates)
    free = scores.argmax(-1)
    num_broken = 0
    for b, tags in enumerate(model.decode(inputs(sentences), predicates)):
        assert len(tags) == len(sentences[b])
        assert all(allowed[x, y] for x, y in zip([start, *tags], tags, strict=False))
        num_broken += tags != free[b, : len(tags)].tolist()
    assert num_broken > 30


def test_the_decoded_sequence_is_the_best_of_all_legal_ones():
    inputs, model = make()
    batch, predicates = inputs([SHORT]), at(1)
    scores = model(batch, predicates)[0]  # (3, K)
    allowed, start = transitions_allowed(TAGS), len(TAGS)
    legal = [
        tags
        for tags in np.ndindex(*[len(TAGS)] * 3)
        if all(allowed[x, y] for x, y in zip([start, *tags], tags, strict=False))
    ]
    best = max(legal, key=lambda tags: sum(scores[t, k].item() for t, k in enumerate(tags)))
    assert model.decode(batch, predicates) == [list(best)]


def test_the_loss_is_the_mean_over_tokens_and_does_not_see_padding():
    inputs, model = make()
    batch, predicates = inputs([LONG, SHORT]), at(0, 2)
    tags = torch.randint(0, len(TAGS), batch.mask.shape)
    logs = model(batch, predicates).log_softmax(-1).gather(2, tags[..., None])[..., 0]
    wanted = -logs[batch.mask].mean()
    torch.testing.assert_close(model.loss(batch, predicates, tags), wanted)
    tags[1, len(SHORT) :] = 0
    torch.testing.assert_close(model.loss(batch, predicates, tags), wanted)


def test_a_sentence_without_a_predicate_has_no_mark_and_no_loss_of_roles():
    inputs, model = make()
    batch, tags = inputs([LONG, SHORT]), torch.zeros(2, len(LONG), dtype=torch.long)
    logs = model(batch, at(0, -1)).log_softmax(-1)[..., 0]
    wanted = -logs[0].sum() / (len(LONG) + len(SHORT))
    torch.testing.assert_close(model.loss(batch, at(0, -1), tags), wanted)
    assert model.loss(batch, at(-1, -1), tags) == 0


# ── the finder ──────────────────────────────────────────────────────────────────────────────────


def test_a_model_has_no_finder_unless_asked():
    assert SrlSettings().finder_width == 0
    assert make()[1].finder is None
    assert not any("finder" in name for name in make()[1].state_dict())


def test_the_finders_loss_is_the_mean_over_tokens_added_to_that_of_roles(tiny):
    inputs, model = make(tiny, finder_width=5)
    batch, predicates = inputs([LONG, SHORT]), at(0, -1)
    tags = torch.zeros(batch.mask.shape, dtype=torch.long)
    are = torch.zeros(batch.mask.shape, dtype=torch.bool)
    are[0, [0, 5]] = True
    p = model.find(batch).sigmoid()  # (B, T)
    missed = -torch.where(are, p, 1 - p).log()[batch.mask].mean()
    roles = model.loss(batch, predicates, tags)
    torch.testing.assert_close(model.loss(batch, predicates, tags, are), roles + missed)


@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_the_finder_trains_nothing_but_itself(tiny, place):
    inputs, model = make(tiny, place, finder_width=5)
    model.find(inputs([LONG, SHORT])).sum().backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert trained == {f"finder.{name}" for name, _ in model.finder.named_parameters()}


@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_padding_and_neighbours_do_not_change_what_is_found(tiny, place):
    inputs, model = make(tiny, place, finder_width=5)
    alone, together = model.find(inputs([SHORT])), model.find(inputs([LONG, SHORT]))
    torch.testing.assert_close(together[1:, : len(SHORT)], alone, atol=2e-5, rtol=0)


# ── precision and places ────────────────────────────────────────────────────────────────────────


def test_losses_are_float32_under_bfloat16(tiny):
    inputs, model = make(tiny, finder_width=5)
    batch, predicates = inputs([LONG, SHORT]), at(0, 2)
    tags = torch.zeros(batch.mask.shape, dtype=torch.long)
    plain = model.loss(batch, predicates, tags, tags.bool())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model.loss(batch, predicates, tags, tags.bool())
        assert len(model.decode(batch, predicates)) == 2
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, plain, atol=0.03, rtol=0)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.gpu
def test_on_a_gpu_in_bfloat16_the_loss_is_close_to_the_cpus_and_tags_are_legal():
    found = {}
    for device in ("cpu", "cuda"):
        inputs, model = make(device=device)
        batch = inputs([LONG, SHORT])
        predicates = at(0, 2).to(device)
        tags = torch.zeros(batch.mask.shape, dtype=torch.long, device=device)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            found[device] = model.loss(batch, predicates, tags).cpu()
            assert [len(t) for t in model.decode(batch, predicates)] == [len(LONG), 3]
            model.train().loss(batch, predicates, tags).backward()  # cuDNN wants training for it
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(found["cuda"], found["cpu"], atol=0.03, rtol=0)


@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_elmo_stands_where_it_is_asked_for(tiny, place):
    inputs, model = make(tiny, place)
    D = tiny.config.width
    layer = model.encoder.layers[0]
    assert layer.lstm.input_size == 6 + 4 + D * (place != "output")
    assert model.to_tags.in_features == 8 + D * (place != "input")
    assert model(inputs([SHORT]), at(0)).shape == (1, 3, len(TAGS))


@pytest.mark.parametrize("changes", [{"num_layers": 0}, {"dropout": 1.0}])
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ConfigError):
        SrlSettings(**changes)
