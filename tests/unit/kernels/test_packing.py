"""Padded sentences as one matrix without padding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relmo.kernels.packing import blocks_of, pack, plan_step_rows

all_lengths = st.lists(st.integers(0, 9), max_size=8)


@settings(deadline=None)
@given(all_lengths, st.integers(0, 3))
def test_every_token_stands_in_the_packing_once(lengths, padding):
    T = max(lengths, default=0) + padding
    ahead, behind = pack(torch.tensor(lengths, dtype=torch.long)).places(T)
    tokens = [b * T + t for b, length in enumerate(lengths) for t in range(length)]
    assert sorted(ahead.tolist()) == tokens
    assert sorted(behind.tolist()) == tokens


@settings(deadline=None)
@given(all_lengths, st.integers(0, 3))
def test_a_step_is_the_next_token_of_each_sentence_in_its_direction(lengths, padding):
    T = max(lengths, default=0) + padding
    plan = pack(torch.tensor(lengths, dtype=torch.long))
    ahead, behind = plan.places(T)
    steps = torch.arange(sum(plan.alive)).split(plan.alive)
    assert len(plan.alive) == max(lengths, default=0)
    for t, rows in enumerate(steps):
        sentences = plan.order[: len(rows)].tolist()
        assert {b for b, length in enumerate(lengths) if length > t} == set(sentences)
        assert ahead[rows].tolist() == [b * T + t for b in sentences]
        assert behind[rows].tolist() == [b * T + lengths[b] - 1 - t for b in sentences]


@settings(deadline=None)
@given(all_lengths)
def test_the_longest_come_first_and_their_number_never_grows(lengths):
    plan = pack(torch.tensor(lengths, dtype=torch.long))
    assert sorted(plan.order.tolist()) == list(range(len(lengths)))
    assert [lengths[b] for b in plan.order] == sorted(lengths, reverse=True)
    assert plan.alive == sorted(plan.alive, reverse=True)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_nothing_to_read_is_packed_as_nothing(lengths):
    plan = pack(torch.tensor(lengths, dtype=torch.long))
    assert plan.alive == []
    assert plan.places(4).shape == (2, 0)
    assert len(plan.order) == len(lengths)


def test_sentences_of_one_length_keep_their_order():
    assert pack(torch.tensor([2, 3, 2, 3])).order.tolist() == [1, 3, 0, 2]


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 20))
def test_blocks_are_all_steps_in_order_and_bounded(alive, tokens):
    blocks = blocks_of(alive, tokens)
    assert [n for block in blocks for n in block] == alive
    assert all(block for block in blocks)
    assert all(sum(block) <= tokens or len(block) == 1 for block in blocks)


@settings(deadline=None)
@given(all_lengths)
def test_a_step_reads_what_the_one_before_it_wrote(lengths):
    """Walk through the rows with names of tokens instead of vectors."""
    plan = pack(torch.tensor(lengths, dtype=torch.long))
    plan_rows = plan_step_rows(plan.alive)
    B = len(plan_rows.last)
    inputs, before = [""] * (B + sum(lengths)), [""] * (B + sum(lengths))
    for token, row in enumerate(plan_rows.inputs.tolist()):
        inputs[row] = f"x{token}"
    before[:B] = [f"start{b}" for b in range(B)]
    read = []
    for t, (n, first, after) in enumerate(plan_rows.steps):
        came = [f"start{b}" if t == 0 else f"{b} at {t - 1}" for b in range(n)]
        assert before[first : first + n] == came
        read += inputs[first : first + n]
        before[after : after + n] = [f"{b} at {t}" for b in range(n)]
    assert read == [f"x{token}" for token in range(sum(lengths))]
    outputs, ordered = before[B:], sorted(lengths, reverse=True)
    found = [outputs[row] for row in plan_rows.last.tolist()]
    assert found == [f"{b} at {length - 1}" for b, length in enumerate(ordered) if length]
