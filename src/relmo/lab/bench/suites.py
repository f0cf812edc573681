"""What `relmo bench --suite` measures beside embedding on a CPU, one row per case.

growth    milliseconds per token by sentence length, batch size and share of new words
gpu       tokens per second on a GPU (or any device), by precision and batch size
train     tokens per second through `ElmoLayer`, forward and backward
search    milliseconds per query over an index
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, cycle, product
from statistics import median
from typing import Any

import numpy as np
import torch

from relmo.elmo import Elmo
from relmo.elmo_layer import ElmoLayer
from relmo.errors import ConfigError
from relmo.kernels.cpu_products import Precision
from relmo.lab.bench.embedding import BenchSettings, bench_embedding, describe_model
from relmo.lab.bench.report import describe_machine
from relmo.lab.bench.sentences import load_sentences, of_length, take
from relmo.lab.bench.timing import interleave, timed, watch_others
from relmo.progress import working
from relmo.search import SemanticIndex
from relmo.text.batches import in_windows, plan_batches

LENGTHS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
NEW_PERCENT = (0, 25, 50, 75, 100)
LENGTH = 25
"""Words of a sentence where its length does not vary."""
BATCH_TOKENS = (8192, 65536, 131072)
GPU_SENTENCES = 20_000
TRAIN_SENTENCES = 32
QUERY_WORDS = 7

Row = dict[str, Any]


def run_suite(suite: str, settings: BenchSettings) -> dict[str, Any]:
    """Run one suite and report as JSON."""
    if suite == "embed":
        return bench_embedding(settings)
    if suite not in SUITES:
        raise ConfigError(f"unknown suite {suite!r}; choose embed, {', '.join(SUITES)}")
    others = watch_others()
    with working("preparing"):  # until the first round
        about, rows = SUITES[suite](settings)
    return {"suite": suite, "machine": describe_machine(others()), "about": about, "rows": rows}


def bench_growth(settings: BenchSettings) -> tuple[str, list[Row]]:
    """Cost of a token against one quantity at a time; words are known unless they are new."""
    elmo = settings.load(device="cpu")
    known = of_length(load_sentences(settings.text, elmo), 3000)
    elmo.embed([known])  # the memo knows them from here on
    numbers = count()  # make a known word new: "bank17" was not seen before

    def sentences(size: int, length: int, percent: int = 0) -> list[list[str]]:
        found = of_length([known], size * length)
        new = len(found) * percent // 100
        found[:new] = [f"{word}{next(numbers)}" for word in found[:new]]
        return [found[i : i + length] for i in range(0, len(found), length)]

    cases: dict[tuple[str, int], tuple[int, ...]] = {("length", n): (1, n) for n in LENGTHS}
    cases |= {("batch", n): (n, LENGTH) for n in BATCHES}
    cases |= {("new words, %", n): (32, LENGTH, n) for n in NEW_PERCENT}

    def per_token(shape: tuple[int, ...]) -> float:
        batch = sentences(*shape)
        return 1000 * timed(lambda: elmo.embed(batch, layers="top"))[0] / sum(map(len, batch))

    found = interleave(settings.seconds, {k: partial(per_token, v) for k, v in cases.items()})
    return _about(elmo), _medians(found, ("varies", "value"), "ms_per_token", 4)


def bench_gpu(settings: BenchSettings) -> tuple[str, list[Row]]:
    """Speed on the device: layers left there, and the mean of the layers as float16 on the host."""
    floats: list[Precision] = [p for p in settings.precisions if p != "int8"]  # that is for CPUs
    elmos = {p: settings.load(precision=p) for p in floats or settings.precisions}
    first = next(iter(elmos.values()))
    if first.device.type == "cpu" and settings.device is None:
        raise ConfigError("the gpu suite found no GPU; --device cpu runs it on the CPU, slowly")
    sentences = load_sentences(settings.text, first)[:GPU_SENTENCES]
    tokens = sum(map(len, sentences))

    def rate(precision: Precision, batch_tokens: int, words: str, output: str) -> float:
        elmo = elmos[precision]
        if words == "new":
            elmo.runtime.memo.clear()  # outside the clock

        def work() -> None:
            if output == "device":
                for batch in _batches(sentences, batch_tokens):
                    elmo.runtime.layers(batch)
            else:
                stream = elmo.embed_stream(
                    sentences, layers="mean", dtype="float16", batch_tokens=batch_tokens
                )
                deque(stream, maxlen=0)  # reads to the end and keeps nothing
            _wait(elmo)

        return tokens / timed(work)[0]

    cases = list(product(elmos, BATCH_TOKENS, ("known", "new"), ("device", "host")))
    found = interleave(settings.seconds, {case: partial(rate, *case) for case in cases})
    names = ("precision", "batch_tokens", "words", "output")
    rows = _medians(found, names, "tokens_per_second")
    return f"{_about(first)}; {tokens:,} tokens per pass", rows


def bench_train(settings: BenchSettings) -> tuple[str, list[Row]]:
    """Forward and backward of one batch through `ElmoLayer`, with the biLM frozen or trained."""
    elmos = {"frozen": settings.load(), "trained": settings.load()}
    layers = {name: ElmoLayer(elmo, finetune=name == "trained") for name, elmo in elmos.items()}
    sentences = load_sentences(settings.text, elmos["frozen"])
    batches = (take(sentences, TRAIN_SENTENCES * number, TRAIN_SENTENCES) for number in count())

    def rate(name: str) -> float:
        batch = next(batches)

        def work() -> None:
            (mixed,), _ = layers[name](batch)
            mixed.sum().backward()  # a task's loss would cost the same on either side
            _wait(elmos[name])

        return sum(map(len, batch)) / timed(work)[0]

    found = interleave(settings.seconds, {(name,): partial(rate, name) for name in elmos})
    rows = _medians(found, ("biLM",), "tokens_per_second")
    return f"{_about(elmos['frozen'])}; batches of {TRAIN_SENTENCES} sentences", rows


def bench_search(settings: BenchSettings) -> tuple[str, list[Row]]:
    """Time of one query, embedding included; "embed" is that part alone."""
    if settings.index is None:
        raise ConfigError("the search suite needs an index; give one with --index")
    with SemanticIndex.open(settings.index) as index:
        sentences = load_sentences(settings.text, settings.load(device="cpu"))
        queries = (" ".join(words[:QUERY_WORDS]) for words in cycle(sentences))
        tasks: dict[str, Callable[[], object]] = {
            "embed": lambda: index.encoder.encode([next(queries)]),
            "vectors": lambda: index.search(next(queries), 10, by="vectors"),
            "hybrid": lambda: index.search(next(queries), 10, by="hybrid"),
        }
        found = interleave(settings.seconds, {k: partial(timed, v) for k, v in tasks.items()})
        about = f"{len(index):,} passages, queries of up to {QUERY_WORDS} words"
    rows = []
    for name, times in found.items():
        p50, p95 = np.percentile([1000 * seconds for seconds, _ in times], (50, 95))
        rows.append({"query": name, "p50_ms": round(float(p50), 1), "p95_ms": round(float(p95), 1)})
    return about, rows


def _medians(
    found: Mapping[Any, Sequence[float]], names: Sequence[str], unit: str, digits: int | None = None
) -> list[Row]:
    """One row per case: its names and the median of its rounds."""
    return [
        {**dict(zip(names, case, strict=True)), unit: round(median(values), digits)}
        for case, values in found.items()
    ]


def _about(elmo: Elmo) -> str:
    model = describe_model(elmo)
    return f"model {model['name'] or 'unnamed'}: {model['lstm']}, {elmo.precision}, {elmo.device}"


def _batches(sentences: Sequence[list[str]], tokens: int) -> Iterator[list[list[str]]]:
    """Batches as `embed_stream` makes them."""
    for window in in_windows(sentences, lambda words: len(words) + 2, 4 * tokens):
        plan = plan_batches([len(words) + 2 for words in window], tokens)
        yield from ([window[i] for i in batch] for batch in plan)


def _wait(elmo: Elmo) -> None:
    """Wait until the device has finished: a GPU computes in the background."""
    if elmo.device.type == "cuda":
        torch.cuda.synchronize()


SUITES: dict[str, Callable[[BenchSettings], tuple[str, list[Row]]]] = {
    "growth": bench_growth,
    "gpu": bench_gpu,
    "train": bench_train,
    "search": bench_search,
}
