"""What the server counts, for Prometheus: requests, batches, what waits, the process itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from relmo.serve.batcher import BatchReport

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class Meters:
    """One server's counters; a process may hold several servers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self._counter(
            "requests", "Answered requests.", ["method", "route", "status"]
        )
        self._seconds = self._histogram(
            "request_seconds", "From first byte in to last byte out.", SECONDS, ["route"]
        )
        self._tokens = self._counter("tokens", "Words read by the model.")
        self._batch_tokens = self._histogram("batch_tokens", "Of each batch.", SIZES)
        self._batch_requests = self._histogram("batch_requests", "Of each batch.", SIZES)
        self._batch_seconds = self._histogram("batch_seconds", "Of each batch.", SECONDS)
        self._waiting = self._gauge("queue_tokens", "Words that wait or are being read.")
        self._waiting_requests = self._gauge("queue_requests", "Requests that wait or are read.")

    def _counter(self, name: str, about: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(name, about, labels, namespace="relmo", registry=self.registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, namespace="relmo", registry=self.registry)

    def _histogram(
        self, name: str, about: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> Histogram:
        return Histogram(
            name, about, labels, namespace="relmo", registry=self.registry, buckets=buckets
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, report: BatchReport) -> None:
        """Count a batch."""
        self._tokens.inc(report.tokens)
        self._batch_tokens.observe(report.tokens)
        self._batch_requests.observe(report.requests)
        self._batch_seconds.observe(report.seconds)

    def watch_queue(self, tokens: Callable[[], int], requests: Callable[[], int]) -> None:
        """Ask what waits whenever the counters are read."""
        self._waiting.set_function(tokens)
        self._waiting_requests.set_function(requests)

    def text(self) -> bytes:
        """All counters as Prometheus reads them."""
        return generate_latest(self.registry)
