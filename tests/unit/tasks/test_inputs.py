"""Words of a batch become rows, letters and a mask; what was met before is not looked up again."""

import numpy as np
import torch

from relmo.tasks import inputs as module
from relmo.tasks.inputs import Inputs, InputSettings, Letters
from relmo.tasks.static_vectors import random_vectors

SENTENCES = [("Ada", "saw", "🐈"), (), ("a" * 400, "x"), ("saw",), ("שלום", "é", "", "zzz")]


def make(static_words=("ada", "saw", "x"), letters="adswx🐈é"):
    static = random_vectors(static_words, 4)
    return Inputs(static, Letters(letters) if letters else None, None, torch.device("cpu"))


def test_rows_and_letters_are_those_of_each_word_and_0_fills_up():
    inputs = make()
    for _ in range(2):  # of words that are new, and of words that are known
        batch = inputs(SENTENCES)
        assert batch.static.shape == batch.mask.shape == (5, 4)
        assert batch.letters.shape == (5, 4, 30)
        for b, sentence in enumerate(SENTENCES):
            assert batch.mask[b].tolist() == [t < len(sentence) for t in range(4)]
            assert batch.static[b].tolist() == [*inputs.static.rows(sentence), 0, 0, 0, 0][:4]
            for t, word in enumerate(sentence):
                ids = inputs.letters.ids(word)
                assert batch.letters[b, t].tolist() == ids + [0] * (30 - len(ids))
            assert not batch.letters[b, len(sentence) :].any()


def test_a_model_that_does_not_spell_has_no_letters():
    assert make(letters="")(SENTENCES).letters is None


def test_many_words_are_remembered_and_forgotten_past_a_bound(monkeypatch):
    inputs, words = make(letters="0123456789"), tuple(map(str, range(5000)))
    monkeypatch.setattr(module, "MAX_KNOWN", 5000)
    first = inputs([words])
    assert len(inputs._known) == 5000
    again = inputs([words[:3]])
    assert len(inputs._known) == 3
    assert torch.equal(again.letters[:, :, :3], first.letters[:, :3, :3])


def test_a_longer_word_in_the_batch_does_not_change_a_word():
    torch.manual_seed(0)
    inputs = make()
    for window in (2, 3, 5):
        tokens = inputs.make_module(InputSettings(letters=6, letter_window=window), None)
        alone = tokens(inputs([("saw",)]))
        beside = tokens(inputs([("saw",), ("w" * 30, "x")]))
        np.testing.assert_allclose(alone[0].detach(), beside[0, :1].detach(), atol=1e-6)
        assert not beside[0, 1].any()
