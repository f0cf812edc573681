"""Collects sentences from concurrent requests into batches for the model, in one thread.

Only this thread uses the model. While it computes a batch, new requests wait in a queue; the next
batch takes one sentence from each waiting request in turn, up to a number of tokens. So a small
request never waits for all of a large one, and no request waits for a batch to fill. This is safe
because a sentence's vectors do not depend on its batch.
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
class _Sentences:
    """A request for the vectors of sentences, of which some may be done."""

    sentences: Sequence[Words]
    reduce: Callable[[Vectors], Vectors]
    future: Future[list[Vectors]]
    taken: int = 0
    done: list[Vectors] = field(default_factory=list)


@dataclass(eq=False)
class _Call:
    """A request for any other work that needs the model."""

    call: Callable[[], Any]
    cost: int
    future: Future[Any]


_Batch = list[tuple[_Sentences, Words]]


class Batcher:
    """A worker thread and its queue.

    Args:
        embed: maps token lists to their vectors, in order.
        limits: of a batch and of the queue. A sentence beyond `batch_tokens` is a batch of its own,
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
        self._waiting: deque[_Sentences | _Call] = deque()
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
        job = _Sentences(sentences, reduce, Future())
        if sentences:
            self._accept(job, sum(map(_cost, sentences)))
        else:
            job.future.set_result([])
        return job.future

    def call(self, call: Callable[[], Result], cost: int) -> Future[Result]:
        """Queue other work that needs the model and takes about as long as `cost` tokens."""
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

    def _accept(self, job: _Sentences | _Call, cost: int) -> None:
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
        """Take the next call, or the next batch: one sentence from each request in turn."""
        batch: _Batch = []
        room = self._limits.batch_tokens
        while self._waiting and room > 0:
            job = self._waiting[0]
            if job.future.cancelled():  # its client is gone, or the server stops
                self._waiting.popleft()
                self._finish(job.future, _left(job), None)
                continue
            if isinstance(job, _Call):
                if batch:
                    break
                self._waiting.popleft()
                return job
            words = job.sentences[job.taken]
            if batch and _cost(words) > room:
                break
            self._waiting.popleft()
            job.taken += 1
            room -= _cost(words)
            batch.append((job, words))
            if job.taken < len(job.sentences):
                self._waiting.append(job)
        return batch

    def _run_batch(self, batch: _Batch) -> None:
        begin = time.perf_counter()
        jobs = list(dict.fromkeys(job for job, _ in batch))
        try:
            vectors = self._embed([words for _, words in batch])
            reduced = [job.reduce(found) for (job, _), found in zip(batch, vectors, strict=True)]
        except Exception as error:
            if len(jobs) > 1:  # run each request alone, so that only the one at fault fails
                for job in jobs:
                    self._run_batch([(each, words) for each, words in batch if each is job])
                return
            (job,) = jobs
            with self._changed:
                if job in self._waiting:  # drop the sentences that remain
                    self._waiting.remove(job)
            self._finish(job.future, _left(job), error)
            return
        seconds = time.perf_counter() - begin
        tokens = sum(_cost(words) for _, words in batch)
        self.rate += 0.2 * (tokens / max(seconds, 1e-6) - self.rate)
        for (job, _), found in zip(batch, reduced, strict=True):
            job.done.append(found)
        self._release(tokens, 0)
        self._report(len(jobs), tokens, seconds)
        for job in jobs:
            if len(job.done) == len(job.sentences):
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


def _left(job: _Sentences | _Call) -> int:
    """Count the tokens of a request that are not done."""
    if isinstance(job, _Call):
        return job.cost
    return sum(map(_cost, job.sentences[len(job.done) :]))


def _cost(words: Words) -> int:
    """Count the tokens the model reads for a sentence: its words and both boundaries."""
    return len(words) + 2
