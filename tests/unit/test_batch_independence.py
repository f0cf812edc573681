"""A sentence's vectors depend on that sentence and the model alone."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relmo import Elmo
from relmo.kernels.cpu_products import has_bfloat16, has_int8
from tests.conftest import tiny_config

ATOL = 1e-5
words = st.text(min_size=1, max_size=60).filter(lambda word: word.split() == [word])
sentences = st.lists(words, max_size=25)
ELMO = Elmo.untrained(tiny_config(), seed=3)
WIDE = Elmo.untrained(seed=4)  # the official small shapes
TEXT = [
    f"{subject} {verb} the {thing} {tail}".split()
    for subject in ("The bank", "She", "A very old friend of mine")
    for verb in ("raised", "saw", "did not want to sell")
    for thing in ("rates", "river", "house")
    for tail in (".", "again .", "and then went home , as everyone else had done before .")
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(sentences, min_size=1, max_size=12), st.randoms(), st.integers(1, 100))
def test_alone_batched_shuffled_and_repeated_agree(batch, random, batch_tokens):
    alone = [ELMO.embed([sentence])[0] for sentence in batch]
    together = ELMO.embed(batch, batch_tokens=batch_tokens)
    order = list(range(len(batch)))
    random.shuffle(order)
    shuffled = ELMO.embed([batch[i] for i in order])
    for i, sentence in enumerate(batch):
        assert together[i].shape == (3, len(sentence), 16)
        np.testing.assert_allclose(together[i], alone[i], rtol=0, atol=ATOL)
        np.testing.assert_allclose(shuffled[order.index(i)], alone[i], rtol=0, atol=ATOL)


def test_a_whole_file_is_its_sentences_one_at_a_time():
    together = WIDE.embed(TEXT)
    for sentence, layers in zip(TEXT, together, strict=True):
        np.testing.assert_allclose(WIDE.embed([sentence])[0], layers, rtol=0, atol=ATOL)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_what_follows_changes_no_bit_of_a_forward_layer(k):
    """Other words, fewer or more of them, and a memo that has never seen them."""
    prefix = [f"word{i}" for i in range(k)]
    P = WIDE.config.width // 2
    found = [
        Elmo.untrained(seed=4).embed([prefix + tail])[0][:, :k, :P]
        for tail in ([], ["."], ["some", "other", "words"], [f"more{i}" for i in range(40)])
    ]
    assert all(np.array_equal(layers, found[0]) for layers in found)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_what_stands_before_changes_no_bit_of_a_backward_layer(k):
    suffix = [f"word{i}" for i in range(k)]
    P = WIDE.config.width // 2
    found = [
        Elmo.untrained(seed=4).embed([head + suffix])[0][:, -k:, P:]
        for head in ([], ["."], ["some", "other", "words"], [f"more{i}" for i in range(40)])
    ]
    assert all(np.array_equal(layers, found[0]) for layers in found)


def test_a_fresh_memo_gives_what_a_warm_one_gives():
    warm = WIDE.embed(TEXT[:5])
    cold = Elmo.untrained(seed=4).embed(TEXT[:5])
    for a, b in zip(warm, cold, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=ATOL)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_does_not_matter(threads):
    import torch

    wanted = WIDE.embed(TEXT[:6])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = WIDE.embed(TEXT[:6])
    finally:
        torch.set_num_threads(before)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=ATOL)


def random_sentences(elmo: Elmo, count: int) -> list[list[str]]:
    """Of 0 to 30 words, from the vocabulary and misspelled."""
    draw = np.random.default_rng(0)
    known = [*elmo.lexicon.words[:5000], "grmpf", "naïveté", "は"]
    return [
        [str(word) for word in draw.choice(known, size)] for size in draw.integers(0, 30, count)
    ]


@pytest.mark.parametrize(
    ("precision", "has_own_products"),
    [("float32", False), ("bfloat16", has_bfloat16()), ("int8", has_int8())],
)
def test_alone_in_copies_and_shuffled_a_trained_model_gives_the_same_vectors(
    precision, has_own_products
):
    """float32 within 1e-5, on any CPU; to the bit where a CPU has products of that precision."""
    elmo = Elmo.from_pretrained("relmo-en-small", precision=precision, device="cpu")
    many = random_sentences(elmo, 16)
    order = np.random.default_rng(1).permutation(len(many))
    shuffled = dict(zip(order, elmo.embed([many[i] for i in order]), strict=True))
    worst = 0.0
    for number, sentence in enumerate(many):
        (alone,) = elmo.embed([sentence])
        for found in (*elmo.embed([sentence] * 8), shuffled[number]):
            worst = max(worst, float(np.abs(found - alone).max(initial=0)))
    assert worst <= (0 if has_own_products else ATOL)
