"""Sentences -> batches, and back in order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relmo.errors import ConfigError
from relmo.text.batches import in_windows, index_words, map_batches, plan_batches


@given(st.lists(st.integers(0, 60)), st.integers(1, 100), st.none() | st.integers(1, 5))
def test_every_sentence_is_in_one_batch_and_no_batch_is_too_large(
    lengths, max_tokens, max_sentences
):
    batches = plan_batches(lengths, max_tokens, max_sentences)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[i] for i in batch)
        assert padded <= max_tokens or len(batch) == 1
        assert max_sentences is None or len(batch) <= max_sentences


def test_like_lengths_stand_together():
    assert plan_batches([1, 9, 2, 8], max_tokens=18) == [[1, 3], [2, 0]]


def test_a_batch_without_room_is_refused():
    with pytest.raises(ConfigError, match="must be ≥ 1, got 0 and None"):
        plan_batches([1], max_tokens=0)


@given(st.lists(st.integers(1, 9)), st.integers(1, 20))
def test_windows_keep_order_and_stay_near_the_limit(items, limit):
    windows = list(in_windows(iter(items), lambda item: item, limit))
    assert [item for window in windows for item in window] == items
    assert all(sum(window[:-1]) < limit for window in windows)


def test_results_come_back_in_the_order_of_the_items():
    def begin(batch):
        return lambda: [letter.upper() for letter in batch]

    assert map_batches("dacb", [[2, 0], [3, 1]], begin) == list("DACB")


def test_a_batch_is_begun_before_the_one_before_it_is_waited_for():
    events = []

    def begin(batch):
        events.append(f"begin {batch[0]}")

        def wait():
            events.append(f"wait {batch[0]}")
            return batch

        return wait

    assert map_batches("abc", [[0], [1], [2]], begin) == list("abc")
    assert events == ["begin a", "begin b", "wait a", "begin c", "wait b", "wait c"]


def test_words_are_numbered_once_and_sentences_get_boundaries():
    found = index_words([["a", "b", "a"], []])
    assert found.words == ["<S>", "</S>", "a", "b"]
    assert found.index.tolist() == [[0, 2, 3, 2, 1], [0, 1, 0, 0, 0]]
    assert found.lengths.tolist() == [5, 2]


def test_no_sentences_are_an_empty_batch():
    found = index_words([])
    assert found.index.shape == (0, 0)
    assert found.lengths.dtype == np.int64
