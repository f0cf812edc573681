"""Requests that come together are read together, in turn, and each is answered once."""

import threading
from concurrent.futures import Future, wait

import numpy as np
import pytest

from tests.support.serving import until

pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
from relmo.serve.batcher import Batcher, QueueClosed, QueueFull
from relmo.serve.limits import Limits


class Reader:
    """Stands for the model: remembers its batches; stops at a gate until it is opened."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.threads: set[int] = set()

    def __call__(self, sentences):
        self.gate.wait(10)
        self.threads.add(threading.get_ident())
        self.batches.append([" ".join(words) for words in sentences])
        if any("bad" in words for words in sentences):
            raise RuntimeError("a bad word")
        return [np.full((1, len(words), 1), len(words), np.float32) for words in sentences]


@pytest.fixture
def reader():
    return Reader()


@pytest.fixture
def make(reader):
    made = []

    def make(**settings):
        values = {"batch_tokens": 12, "queue_tokens": 100, "queue_requests": 10, **settings}
        made.append(Batcher(reader, Limits(**values)))
        return made[-1]

    yield make
    reader.gate.set()
    for batcher in made:
        batcher.close()


def blocked(batcher: Batcher) -> Future:
    """A first request, already taken by the worker, behind which others must wait."""
    first = batcher.embed([["first"]])
    until(lambda: not batcher._waiting)
    return first


def test_requests_that_wait_are_read_together_in_one_thread(make, reader):
    batcher = make()
    jobs = [blocked(batcher), *(batcher.embed([[word]]) for word in "abc")]
    reader.gate.set()
    wait(jobs, 10)
    assert reader.batches == [["first"], ["a", "b", "c"]]
    assert len(reader.threads) == 1


def test_a_batch_keeps_to_its_tokens(make, reader):
    batcher = make()  # a word and its boundaries are 3 tokens: 4 fit
    jobs = [blocked(batcher), *(batcher.embed([[word]]) for word in "abcdef")]
    reader.gate.set()
    wait(jobs, 10)
    assert reader.batches == [["first"], ["a", "b", "c", "d"], ["e", "f"]]


def test_a_longer_sentence_is_a_batch_of_its_own(make, reader):
    batcher = make()
    jobs = [blocked(batcher), batcher.embed([["a"], ["b"] * 20, ["c"]])]
    reader.gate.set()
    wait(jobs, 10)
    assert reader.batches == [["first"], ["a"], [" ".join("b" * 20)], ["c"]]


def test_a_small_request_does_not_wait_behind_a_large_one(make, reader):
    batcher = make()
    large, order = [[f"l{i}"] for i in range(9)], []
    jobs = [blocked(batcher), batcher.embed(large), batcher.embed([["small"]])]
    jobs[1].add_done_callback(lambda _: order.append("large"))
    jobs[2].add_done_callback(lambda _: order.append("small"))
    reader.gate.set()
    wait(jobs, 10)
    assert reader.batches[1] == ["l0", "small", "l1", "l2"]
    assert order == ["small", "large"]
    assert len(jobs[1].result()) == 9


def test_results_keep_the_order_of_the_sentences(make, reader):
    reader.gate.set()
    found = make().embed([["w"] * n for n in (3, 1, 7, 2)]).result(10)
    assert [vectors.shape[1] for vectors in found] == [3, 1, 7, 2]


def test_only_what_is_kept_is_held(make, reader):
    reader.gate.set()
    found = make().embed([["w"] * n for n in (3, 1)], lambda vectors: vectors.sum(1)).result(10)
    assert [vectors.tolist() for vectors in found] == [[[9.0]], [[1.0]]]


def test_a_full_queue_refuses_and_says_when_to_come_back(make, reader):
    batcher = make(queue_requests=2)
    blocked(batcher), batcher.embed([["a"]])
    with pytest.raises(QueueFull) as full:
        batcher.embed([["b"]])
    assert int(full.value.headers["retry-after"]) >= 1


def test_tokens_that_wait_are_bounded_too(make, reader):
    batcher = make(queue_tokens=10)
    blocked(batcher)
    with pytest.raises(QueueFull):
        batcher.embed([["a"] * 6])
    batcher.embed([["a"] * 5])
    assert (batcher.tokens, batcher.requests) == (10, 2)


def test_one_large_request_is_taken_where_none_waits(make, reader):
    reader.gate.set()
    assert len(make(queue_tokens=10).embed([["a"] * 50]).result(10)) == 1


def test_room_comes_back(make, reader):
    batcher = make(queue_requests=1)
    reader.gate.set()
    for _ in range(5):
        batcher.embed([["a"], ["b"]]).result(10)
        until(lambda: batcher.requests == 0)
    assert batcher.tokens == 0


def test_only_the_request_at_fault_fails(make, reader):
    batcher = make()
    jobs = [blocked(batcher), *(batcher.embed([[word]]) for word in ("a", "bad", "c"))]
    reader.gate.set()
    wait(jobs, 10)
    assert [job.exception() is None for job in jobs] == [True, True, False, True]
    assert "bad" in str(jobs[2].exception())
    until(lambda: (batcher.tokens, batcher.requests) == (0, 0))


def test_a_failed_request_leaves_nothing_behind(make, reader):
    batcher = make()
    bad = batcher.embed([["bad"], *[["a"]] * 20])
    reader.gate.set()
    assert bad.exception(10) is not None
    until(lambda: (batcher.tokens, batcher.requests) == (0, 0))
    assert len(batcher.embed([["a"]]).result(10)) == 1


def test_a_call_runs_in_the_same_thread_and_waits_for_one_batch_at_most(make, reader):
    batcher = make()
    jobs = [blocked(batcher), batcher.embed([["a"]] * 4)]
    jobs.append(batcher.call(lambda: (threading.get_ident(), len(reader.batches)), 5))
    jobs.append(batcher.embed([["b"]]))
    reader.gate.set()
    wait(jobs, 10)
    thread, num_batches = jobs[2].result()
    assert {thread} == reader.threads
    assert reader.batches == [["first"], ["a", "b", "a", "a"], ["a"]]
    assert num_batches == 2


def test_a_call_that_fails_says_so(make, reader):
    batcher = make()
    reader.gate.set()
    assert isinstance(batcher.call(lambda: 1 / 0, 5).exception(10), ZeroDivisionError)
    until(lambda: (batcher.tokens, batcher.requests) == (0, 0))


def test_a_batch_is_for_one_model_and_takes_what_waits_for_it(make, reader):
    batcher, batches = make(), []

    def double(items):
        batches.append(list(items))
        return [2 * item for item in items]

    jobs = [
        blocked(batcher),
        batcher.submit(double, [1, 2], [3, 3]),
        batcher.embed([["a"]]),
        batcher.submit(double, [3], [3], str),
        batcher.embed([["b"]]),
    ]
    reader.gate.set()
    wait(jobs, 10)
    assert batches == [[1, 3, 2]]
    assert reader.batches == [["first"], ["a", "b"]]
    assert (jobs[1].result(), jobs[3].result()) == ([2, 4], ["6"])
    until(lambda: (batcher.tokens, batcher.requests) == (0, 0))


def test_requests_to_another_model_keep_their_places(make, reader):
    batcher, order = make(), []
    one, other = (lambda items, n=n: [order.append(n)] * len(items) for n in ("one", "other"))
    jobs = [blocked(batcher), batcher.submit(one, [0] * 9, [3] * 9)]  # more than two batches
    jobs.append(batcher.submit(other, [0] * 2, [3] * 2))
    jobs.append(batcher.call(lambda: order.append("call"), 1))
    reader.gate.set()
    wait(jobs, 10)
    assert order == ["one", "other", "call", "one", "one"]


def test_closing_finishes_what_was_accepted_and_takes_no_more(make, reader):
    batcher = make()
    jobs = [blocked(batcher), batcher.embed([["a"]] * 9)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    until(lambda: not batcher.is_open)
    with pytest.raises(QueueClosed):
        batcher.embed([["b"]])
    reader.gate.set()
    closing.join(10)
    assert all(job.done() and job.exception() is None for job in jobs)


def test_one_who_left_disturbs_nobody(make, reader):
    batcher = make()
    jobs = [blocked(batcher), batcher.embed([["gone"]]), batcher.embed([["a"]])]
    assert jobs[1].cancel()
    reader.gate.set()
    assert len(jobs[2].result(10)) == 1
    until(lambda: (batcher.tokens, batcher.requests) == (0, 0))


def test_what_was_given_up_while_waiting_is_not_read(make, reader):
    batcher = make()
    first = blocked(batcher)
    given_up = [batcher.embed([["a"], ["b"]]), batcher.call(lambda: reader.batches.append("c"), 5)]
    last = batcher.embed([["d"]])
    assert all(job.cancel() for job in given_up)
    reader.gate.set()
    wait([first, last], 10)
    assert reader.batches == [["first"], ["d"]]
    until(lambda: (batcher.tokens, batcher.requests) == (0, 0))


def test_no_sentences_are_answered_at_once(make):
    assert make().embed([]).result(0) == []
