"""What a task's model reads: which parts stand side by side, how wide, and where ELMo goes."""

import pytest
import torch

from relmo.errors import ConfigError
from relmo.tasks.inputs import InputSettings, TokenBatch, TokenInput

LENGTHS = (3, 1, 0)
STATIC, LETTERS, D = 5, 6, 8


def batch(T=3, C=4, dtype=torch.float32, seed=0):
    rng = torch.Generator().manual_seed(seed)
    mask = torch.arange(T) < torch.tensor(LENGTHS).unsqueeze(1)  # (B, T)
    return TokenBatch(
        static=torch.randint(1, 9, mask.shape, generator=rng) * mask,
        letters=torch.randint(1, 7, (*mask.shape, C), generator=rng) * mask[..., None],
        layers=(torch.randn(3, *mask.shape, D, generator=rng) * mask[..., None]).to(dtype),
        mask=mask,
    )


def make(elmo=True, **settings):
    torch.manual_seed(0)
    settings = {"letters": LETTERS, "elmo_dropout": 0.0, **settings}
    table = torch.randn(9, STATIC)
    table[0] = 0
    return TokenInput(InputSettings(**settings), table, 7, (3, D) if elmo else None)


@pytest.mark.parametrize(
    ("place", "own", "extra"), [("input", D, 0), ("output", 0, D), ("both", D, D), (None, 0, 0)]
)
def test_elmo_widens_the_places_it_stands_at(place, own, extra):
    tokens = make(elmo=place is not None, place=place or "both")
    assert (tokens.width, tokens.extra_width) == (STATIC + LETTERS + own, extra)
    assert tokens(batch()).shape == (3, 3, tokens.width)
    h = torch.randn(3, 3, 7)
    beside = tokens.beside(h, batch())
    assert torch.equal(beside[..., :7], h)
    assert beside.shape[-1] == 7 + extra


def test_each_place_has_a_mix_of_its_own():
    tokens = make(place="both")
    with torch.no_grad():
        tokens.mixes["output"].s.copy_(torch.tensor([99.0, 0.0, 0.0]))
        tokens.mixes["output"].gamma.fill_(2.0)
    found, layers = batch(), batch().layers
    torch.testing.assert_close(tokens(found)[..., -D:], layers.mean(0))
    torch.testing.assert_close(tokens.beside(torch.zeros(3, 3, 1), found)[..., 1:], 2 * layers[0])


def test_the_top_layer_alone_is_scaled_but_not_mixed():
    tokens = make(layers="top")
    torch.testing.assert_close(tokens(batch())[..., -D:], batch().layers[-1])
    assert tokens.mixes["input"].s.shape == (1,)
    with torch.no_grad():
        tokens.mixes["input"].gamma.fill_(3.0)
    torch.testing.assert_close(tokens(batch())[..., -D:], 3 * batch().layers[-1])


def test_layers_in_float16_are_mixed_in_float32():
    tokens = make()
    found = tokens(batch(dtype=torch.float16))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, tokens(batch()), atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("place", ["input", "both"])
def test_padding_is_zero(place):
    found = make(place=place)(batch())
    assert not found[~batch().mask].any()
    assert found[batch().mask].abs().sum(-1).gt(0).all()


def test_the_penalty_is_lambda_times_the_squared_weights_of_all_mixes():
    tokens = make(place="both", l2=0.1)
    assert tokens.penalty() == 0
    with torch.no_grad():
        for mix in tokens.mixes.values():
            mix.s.copy_(torch.tensor([1.0, 2.0, 0.0]))
    assert tokens.penalty().item() == pytest.approx(0.1 * 10)
    tokens.penalty().backward()
    torch.testing.assert_close(tokens.mixes["input"].s.grad, 0.2 * tokens.mixes["input"].s)
    assert make(elmo=False, l2=0.1).penalty() == 0


def test_letters_do_not_depend_on_the_batch():
    tokens, short, long = make(letter_window=5), batch(C=4), batch(T=5, C=9)
    alone = tokens(short)
    letters = torch.zeros(3, 5, 9, dtype=torch.long)
    letters[:, :3, :4] = short.letters
    letters[2] = long.letters[0]
    wider = tokens.letters(letters)[:2, :3]
    torch.testing.assert_close(wider, tokens.letters(short.letters)[:2], atol=1e-6, rtol=0)
    torch.testing.assert_close(wider[0], alone[0, :, STATIC : STATIC + LETTERS], atol=1e-6, rtol=0)


def test_a_model_that_does_not_spell_needs_no_letters():
    tokens = make(letters=0)
    assert tokens(batch()._replace(letters=None)).shape[-1] == STATIC + D
    assert tokens.letters is None


@pytest.mark.parametrize("is_tuned", [True, False])
def test_static_vectors_are_trained_only_where_asked_for(is_tuned):
    tokens = make(tune_static=is_tuned)
    tokens(batch()).sum().backward()
    grad = tokens.static.weight.grad
    assert (grad is not None) == is_tuned
    if is_tuned:
        assert not grad[0].any()  # padding stays zero
    assert all(mix.gamma.grad is not None for mix in tokens.mixes.values())


def test_the_table_that_was_given_is_not_changed():
    table = torch.randn(9, STATIC)
    tokens = TokenInput(InputSettings(), table)
    with torch.no_grad():
        tokens.static.weight.zero_()
    assert table.any()


def test_dropout_is_for_training_alone():
    tokens = make(elmo_dropout=0.5, dropout=0.5)
    assert not torch.equal(tokens(batch()), tokens(batch()))
    tokens.eval()
    assert torch.equal(tokens(batch()), tokens(batch()))


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"place": "middle"}, "place is 'middle'; choose one of input, output, both"),
        ({"layers": "all"}, "layers is 'all'; choose mix or top"),
        ({"dropout": 1.0}, "dropout is 1.0; a share below 1"),
        ({"elmo_dropout": -0.1}, "elmo_dropout is -0.1; a share"),
        ({"l2": -1.0}, "l2 is -1.0; it cannot be negative"),
        ({"finetune": "yes"}, "finetune is 'yes'; write true or false"),
        ({"tune_static": 1}, "tune_static is 1; write true or false"),
        ({"letters": 2.5}, "letters is 2.5; a whole number from 0 on"),
        ({"letter_window": 0}, "letter_window is 0; a whole number from 1 on"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, what):
    with pytest.raises(ConfigError, match=what):
        InputSettings(**settings)
