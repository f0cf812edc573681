"""Collects sentences from concurrent requests into batches for a model, in one thread.

Only this thread uses the models: ELMo, and the task models that read with it. While it computes a
batch, new requests wait in a queue; the next batch is for the model of the first of them, and takes
one item, such as a sentence, from each waiting request to that model in turn, up to a number of
tokens. So a small request never waits for all of a large one, and no request waits for a batch to
fill. This is safe because what a model finds for an item does not depend on its batch.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from relmo.serve.errors import ApiError
from relmo.serve.limits import Limits
from relmo.types import Vectors

Result = TypeVar("Result")
Item = TypeVar("Item")
Words = Sequence[str]
FIRST_RATE = 2000.0
"""Tokens per second assumed before the first batch."""


class QueueFull(ApiError):
    """The queue is full; the client should retry after some seconds."""

    def __init__(self, seconds: int) -> None:
        headers = {"retry-after": str(seconds)}
        text = f"the server is busy; retry in {seconds} s"
        super().__init__(429, text, code="queue_full", headers=headers)


class QueueClosed(ApiError):
    """The server is shutting down and accepts no more requests."""

    def __init__(self) -> None:
        text, headers = "the server is shutting down; retry later", {"retry-after": "5"}
        super().__init__(503, text, code="going_down", headers=headers)


@dataclass(eq=False)
class _Items:
    """A request for a model's work on items, some of which may be done."""

    work: Callable[[list[Any]], Sequence[Any]]
    items: Sequence[Any]
    costs: Sequence[int]
    reduce: Callable[[Any], Any]
    future: Future[list[Any]]
    taken: int = 0
    done: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class _Call:
    """A request for any other work that needs a model."""

    call: Callable[[], Any]
    cost: int
    future: Future[Any]


_Batch = list[tuple[_Items, int]]
"""Requests to one model, and the number of an item of each."""


class Batcher:
    """A worker thread and its queue.

    Args:
        embed: maps token lists to their vectors, in order.
        limits: of a batch and of the queue. An item beyond `batch_tokens` is a batch of its own,
            and an empty queue accepts a request of any size.
        report: called after each batch with its number of requests, of tokens and its seconds.

    `tokens` and `requests` count what has been accepted and not yet answered; `rate` is the number
    of tokens per second.
    """

    def __init__(
        self,
        embed: Callable[[list[Words]], list[Vectors]],
        limits: Limits,
        report: Callable[[int, int, float], None] = lambda requests, tokens, seconds: None,
    ) -> None:
        self._embed, self._limits, self._report = embed, limits, report
        self.tokens = self.requests = 0
        self._waiting: deque[_Items | _Call] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self.rate = FIRST_RATE
        self._thread = threading.Thread(target=self._run, name="relmo-model", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it accepts requests and its thread is alive."""
        return not self._closing and self._thread.is_alive()

    def embed(
        self, sentences: Sequence[Words], reduce: Callable[[Vectors], Vectors] = lambda found: found
    ) -> Future[list[Vectors]]:
        """Queue sentences; the future gives their vectors. Raises QueueFull or QueueClosed.

        `reduce` is applied to each sentence's vectors right away, in the worker thread, so that a
        large request need not hold all layers of all its words.
        """
        return self.submit(self._read, sentences, list(map(_cost, sentences)), reduce)

    def submit(
        self,
        work: Callable[[list[Item]], Sequence[Any]],
        items: Sequence[Item],
        costs: Sequence[int],
        reduce: Callable[[Any], Any] = lambda found: found,
    ) -> Future[list[Any]]:
        """Queue items for a model; the future gives what it finds for each, reduced.

        Args:
            work: maps items to what the model finds for each; requests with equal ones share
                batches.
            items: in the order of the answer.
            costs: about as many tokens as each item takes.
            reduce: applied to what is found for an item right away, in the worker thread.
        """
        job = _Items(work, items, costs, reduce, Future())
        if items:
            self._accept(job, sum(costs))
        else:
            job.future.set_result([])
        return job.future

    def call(self, call: Callable[[], Result], cost: int) -> Future[Result]:
        """Queue other work that needs a model and takes about as long as `cost` tokens."""
        future: Future[Result] = Future()
        self._accept(_Call(call, cost, future), cost)
        return future

    def close(self, seconds: float | None = None) -> bool:
        """Accept no more requests, finish those accepted, end the thread.

        Returns whether it has ended, for which this waits; no longer than `seconds`, if given.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _accept(self, job: _Items | _Call, cost: int) -> None:
        with self._changed:
            if not self.is_open:
                raise QueueClosed
            is_too_long = self.tokens > 0 and self.tokens + cost > self._limits.queue_tokens
            if is_too_long or self.requests >= self._limits.queue_requests:
                raise QueueFull(max(1, math.ceil(self.tokens / self.rate)))
            self.tokens += cost
            self.requests += 1
            self._waiting.append(job)
            self._changed.notify()

    # ── in the worker thread ────────────────────────────────────────────────────────────────

    def _read(self, sentences: list[Words]) -> list[Vectors]:
        return self._embed(sentences)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                taken = self._take()
            if isinstance(taken, _Call):
                try:
                    result = taken.call()
                except Exception as error:
                    result = error
                self._finish(taken.future, taken.cost, result)
            elif taken:
                self._run_batch(taken)

    def _take(self) -> _Call | _Batch:
        """Take the next call, or the next batch: one item from each request to a model in turn."""
        batch: _Batch = []
        passed: list[_Items | _Call] = []  # they keep their places
        room = self._limits.batch_tokens
        while self._waiting and room > 0:
            job = self._waiting.popleft()
            if job.future.cancelled():  # its client is gone, or the server stops
                self._finish(job.future, _left(job), None)
            elif isinstance(job, _Call):
                if not batch:
                    return job
                passed.append(job)
            elif batch and job.work != batch[0][0].work:
                passed.append(job)
            elif batch and job.costs[job.taken] > room:
                passed.append(job)
                break
            else:
                batch.append((job, job.taken))
                room -= job.costs[job.taken]
                job.taken += 1
                if job.taken < len(job.items):
                    self._waiting.append(job)
        self._waiting.extendleft(reversed(passed))
        return batch

    def _run_batch(self, batch: _Batch) -> None:
        begin = time.perf_counter()
        jobs = list(dict.fromkeys(job for job, _ in batch))
        try:
            found = jobs[0].work([job.items[number] for job, number in batch])
            reduced = [job.reduce(each) for (job, _), each in zip(batch, found, strict=True)]
        except Exception as error:
            if len(jobs) > 1:  # run each request alone, so that only the one at fault fails
                for job in jobs:
                    self._run_batch([(each, number) for each, number in batch if each is job])
                return
            (job,) = jobs
            with self._changed:
                if job in self._waiting:  # drop the items that remain
                    self._waiting.remove(job)
            self._finish(job.future, _left(job), error)
            return
        seconds = time.perf_counter() - begin
        tokens = sum(job.costs[number] for job, number in batch)
        self.rate += 0.2 * (tokens / max(seconds, 1e-6) - self.rate)
        for (job, _), kept in zip(batch, reduced, strict=True):
            job.done.append(kept)
        self._release(tokens, 0)
        self._report(len(jobs), tokens, seconds)
        for job in jobs:
            if len(job.done) == len(job.items):
                self._finish(job.future, 0, job.done)

    def _finish(self, future: Future[Any], tokens: int, result: object) -> None:
        """Free the request's place in the queue and answer, unless the client is gone."""
        self._release(tokens, 1)
        if future.set_running_or_notify_cancel():
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _release(self, tokens: int, requests: int) -> None:
        with self._changed:
            self.tokens -= tokens
            self.requests -= requests


def _left(job: _Items | _Call) -> int:
    """Count the tokens of a request that are not done."""
    if isinstance(job, _Call):
        return job.cost
    return sum(job.costs[len(job.done) :])


def _cost(words: Words) -> int:
    """Count the tokens the model reads for a sentence: its words and both boundaries."""
    return len(words) + 2
