"""Sentences of many requests -> batches for the model, in one thread.

The model is used by one thread alone. While it reads a batch, requests come and wait; the next
batch takes a sentence from each of them in turn, up to a number of tokens. So a small request never
waits behind all of a large one, and nobody waits for a batch to fill. A sentence's vectors do not
depend on its batch: that is the model's promise, and why this is allowed.
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

from relmo.errors import RelmoError
from relmo.types import Vectors

Result = TypeVar("Result")
Words = Sequence[str]
FIRST_RATE = 2000.0
"""Tokens per second that are assumed before any were read."""


class QueueFull(RelmoError):
    """As much waits as may; come back in some seconds."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the server has as much to do as it may; try again in {seconds} s")
        self.seconds = seconds


class QueueClosed(RelmoError):
    """The server is going down and takes nothing more."""

    def __init__(self) -> None:
        super().__init__("the server is going down; ask again when it is back")


@dataclass(frozen=True)
class BatchReport:
    """One batch that was read."""

    requests: int
    sentences: int
    tokens: int
    seconds: float


@dataclass(eq=False)
class _Sentences:
    """A request for the vectors of sentences: some are read, the others wait."""

    sentences: Sequence[Words]
    keep: Callable[[Vectors], Vectors]
    future: Future[list[Vectors]]
    taken: int = 0
    found: list[Vectors] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return len(self.found) == len(self.sentences)


@dataclass(eq=False)
class _Call:
    """A request for anything else that needs the model."""

    call: Callable[[], Any]
    cost: int
    future: Future[Any]


_Batch = list[tuple[_Sentences, Words]]


class Batcher:
    """One worker thread and what waits for it.

    Args:
        embed: token lists -> their vectors, in order.
        batch_tokens: of a batch, at most; a longer sentence is a batch of its own.
        queue_tokens: that may wait; one request is taken whatever its size where none waits.
        queue_requests: that may wait.
        report: told of each batch, in the worker's thread.
    """

    def __init__(
        self,
        embed: Callable[[list[Words]], list[Vectors]],
        *,
        batch_tokens: int,
        queue_tokens: int,
        queue_requests: int,
        report: Callable[[BatchReport], None] = lambda report: None,
    ) -> None:
        self._embed, self._report = embed, report
        self.batch_tokens, self.queue_tokens = batch_tokens, queue_tokens
        self.queue_requests = queue_requests
        self._waiting: deque[_Sentences | _Call] = deque()
        self._changed = threading.Condition()
        self._tokens = self._requests = 0
        self._closing = False
        self._rate = FIRST_RATE
        self._thread = threading.Thread(target=self._run, name="relmo-model", daemon=True)
        self._thread.start()

    @property
    def tokens(self) -> int:
        """Accepted and not yet answered."""
        return self._tokens

    @property
    def requests(self) -> int:
        """Accepted and not yet answered."""
        return self._requests

    @property
    def is_open(self) -> bool:
        """Whether it takes requests and its thread is alive."""
        return not self._closing and self._thread.is_alive()

    def embed(
        self, sentences: Sequence[Words], keep: Callable[[Vectors], Vectors] = lambda found: found
    ) -> Future[list[Vectors]]:
        """Accept sentences; the vectors come when all are read. Raises QueueFull, QueueClosed.

        `keep` makes of a sentence's vectors what is needed of them, at once, in the worker's
        thread: a large request need not hold all layers of all its words.
        """
        job = _Sentences(sentences, keep, Future())
        if not sentences:
            job.future.set_result([])
            return job.future
        self._accept(job, sum(map(_cost, sentences)))
        return job.future

    def call(self, call: Callable[[], Result], cost: int) -> Future[Result]:
        """Accept work that needs the model; it costs about as much as so many tokens."""
        future: Future[Result] = Future()
        self._accept(_Call(call, cost, future), cost)
        return future

    def close(self) -> None:
        """Take nothing more, finish what was accepted, end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _accept(self, job: _Sentences | _Call, cost: int) -> None:
        with self._changed:
            if not self.is_open:
                raise QueueClosed
            too_long = self._tokens > 0 and self._tokens + cost > self.queue_tokens
            if too_long or self._requests >= self.queue_requests:
                raise QueueFull(max(1, math.ceil(self._tokens / self._rate)))
            self._tokens += cost
            self._requests += 1
            self._waiting.append(job)
            self._changed.notify()

    # ── the worker's side ───────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                taken = self._take()
            if isinstance(taken, _Call):
                self._answer(taken)
            elif taken:
                self._read(taken)

    def _take(self) -> _Call | _Batch:
        """The next batch, a sentence from each request in turn; or a call, where one is next."""
        batch: _Batch = []
        room = self.batch_tokens
        while self._waiting and room > 0:
            job = self._waiting[0]
            if isinstance(job, _Call):
                if not batch:
                    self._waiting.popleft()
                    return job
                break
            self._waiting.popleft()
            words = job.sentences[job.taken]
            if batch and _cost(words) > room:
                self._waiting.appendleft(job)
                break
            job.taken += 1
            room -= _cost(words)
            batch.append((job, words))
            if job.taken < len(job.sentences):
                self._waiting.append(job)
        return batch

    def _read(self, batch: _Batch) -> None:
        begin = time.perf_counter()
        try:
            vectors = self._embed([words for _, words in batch])
            kept = [job.keep(found) for (job, _), found in zip(batch, vectors, strict=True)]
        except Exception as error:
            self._read_apart(batch, error)
            return
        seconds = time.perf_counter() - begin
        tokens = sum(_cost(words) for _, words in batch)
        self._rate += 0.2 * (tokens / max(seconds, 1e-6) - self._rate)
        for (job, _), found in zip(batch, kept, strict=True):
            job.found.append(found)
        self._release(tokens, 0)
        jobs = {id(job): job for job, _ in batch}.values()
        self._report(BatchReport(len(jobs), len(batch), tokens, seconds))
        for job in jobs:
            if job.is_done:
                self._release(0, 1)
                _settle(job.future, result=job.found)

    def _read_apart(self, batch: _Batch, error: Exception) -> None:
        """Read the requests of a failed batch one by one: only the one at fault fails."""
        jobs = list({id(job): job for job, _ in batch}.values())
        if len(jobs) > 1:
            for job in jobs:
                self._read([(j, words) for j, words in batch if j is job])
            return
        (job,) = jobs
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
        read = len(job.found)
        self._release(sum(map(_cost, job.sentences[read:])), 1)
        _settle(job.future, error=error)

    def _answer(self, job: _Call) -> None:
        try:
            result = job.call()
        except Exception as error:
            self._release(job.cost, 1)
            _settle(job.future, error=error)
        else:
            self._release(job.cost, 1)
            _settle(job.future, result=result)

    def _release(self, tokens: int, requests: int) -> None:
        with self._changed:
            self._tokens -= tokens
            self._requests -= requests


def _cost(words: Words) -> int:
    """Tokens that the model reads for a sentence: its words and both boundaries."""
    return len(words) + 2


def _settle(
    future: Future[Any],
    *,
    result: Any = None,  # noqa: ANN401 - whatever was asked for
    error: Exception | None = None,
) -> None:
    """Answer, unless the one who asked has gone."""
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
