"""READ FIRST: one benchmark run, from the model's name to a report.

Rounds go over everything in turn: the machine, the parts, every precision of ours on every case
with a cold and a warm word memo, and each peer on the same case. A round that warms up comes first
and is not kept. Figures are medians over rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.kernels.cpu_products import Precision
from relmo.lab.bench.cases import Case, cases_of_round
from relmo.lab.bench.fresh import measure_fresh
from relmo.lab.bench.machine import Machine, describe_machine
from relmo.lab.bench.others import Others
from relmo.lab.bench.parts import Parts
from relmo.lab.bench.peer_group import PeerGroup
from relmo.lab.bench.peers import parse_peer
from relmo.lab.bench.rounds import rounds, seconds_of
from relmo.lab.bench.sentences import Words, made_up_sentences, sentences_of_file, take
from relmo.lab.bench.speed import Book, ratios
from relmo.lab.bench.work import lstm_flops, word_flops
from relmo.text.batches import index_words

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
MADE_UP = 5000
"""Sentences that are made up where no file is given."""
PART_SENTENCES = 32
"""Of the batch that is taken apart."""
COMPARED = 8
"""Sentences whose vectors are compared with a peer's."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure."""

    model: str
    text: Path | None = None
    """One sentence per line; None makes sentences up."""
    precisions: tuple[Precision, ...] = PRECISIONS
    peers: tuple[str, ...] = ()
    """NAME=PYTHON of each."""
    seconds: float = 30.0
    """Rounds begin until they are over; there are three at least."""

    def __post_init__(self) -> None:
        for precision in self.precisions:
            if precision not in PRECISIONS:
                known = ", ".join(PRECISIONS)
                raise ConfigError(f"precision is {precision!r}; choose one of {known}")
        if not self.precisions or len(set(self.precisions)) < len(self.precisions):
            given = ", ".join(self.precisions) or "none"
            raise ConfigError(f"precisions are {given}; give each once, one at least")
        if not 0 < self.seconds < math.inf:
            raise ConfigError(f"seconds is {self.seconds}; a positive number is needed")
        names = [parse_peer(peer)[0] for peer in self.peers]
        if len(set(names)) < len(names):
            raise ConfigError(f"peers are {', '.join(names)}; give each once")


def bench(settings: Settings, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Measure on the CPU, and report as JSON holds it; `say` hears how far it is."""
    others = Others()
    elmos = {p: _load(settings.model, p) for p in settings.precisions}
    first = elmos[settings.precisions[0]]
    sentences = (
        made_up_sentences(first, MADE_UP)
        if settings.text is None
        else sentences_of_file(settings.text, first)
    )
    machine, book = Machine(first.config.lstm), Book()
    parts = {precision: Parts() for precision in settings.precisions}
    with ExitStack() as stack:
        peers = PeerGroup(settings.peers, settings.model, stack)
        peers.compare(first, take(sentences, 0, COMPARED))
        for number in rounds(settings.seconds):
            say("warming up" if number == 0 else f"round {number}")
            keep = number > 0
            machine.measure()
            for precision, elmo in elmos.items():
                parts[precision].measure(
                    elmo, take(sentences, PART_SENTENCES * number, PART_SENTENCES), keep
                )
            for case in cases_of_round(sentences, number):
                for precision, elmo in elmos.items():
                    _measure(book, elmo, precision, case, keep)
                peers.measure(book, case, keep)
        peers.finish(book)
    taken = others.cores()  # the peers have ended, so their time is ours
    say("load time and memory, in fresh processes")
    largest = cases_of_round(sentences, 1)[-1].calls[0]
    threads = torch.get_num_threads()
    ours, theirs = book.of(peers=False), book.of(peers=True)
    fractions = [s.fraction_of_floor(first.config, machine.rates(s.precision)) for s in ours]
    return {
        "machine": {**describe_machine(), "cores_taken_by_others": taken},
        "model": _describe_model(first),
        "text": _describe_text(sentences, "made up" if settings.text is None else "a file"),
        "rates": machine.to_dict(),
        "work": _describe_work(first, sentences),
        "parts_milliseconds": {precision: parts[precision].to_dict() for precision in parts},
        "speed": [
            {**series.to_dict(), "fraction_of_floor": round(fraction, 3)}
            for series, fraction in zip(ours, fractions, strict=True)
        ]
        + [series.to_dict() for series in theirs],
        "fresh": {
            precision: measure_fresh(settings.model, precision, threads, largest)
            for precision in settings.precisions
        },
        "peers": peers.facts,
        "ratios": ratios(ours, theirs),
    }


def _load(model: str, precision: Precision) -> Elmo:
    """From a zero start, as peers begin."""
    return Elmo.from_pretrained(model, precision=precision, device="cpu", start="zero")


def _measure(book: Book, elmo: Elmo, precision: Precision, case: Case, keep: bool) -> None:
    """One case with a cold memo, then the same with a warm one."""

    def cold(case: Case) -> float:
        seconds = 0.0
        for call in case.calls:
            elmo.runtime.memo.clear()
            seconds += seconds_of(partial(elmo.embed, call))
        return seconds

    def warm(case: Case) -> float:
        elmo.runtime.memo.vectors(index_words(case.sentences).words)
        return sum(seconds_of(partial(elmo.embed, call)) for call in case.calls)

    book.add(f"relmo {precision}", "cold", case, cold, precision=precision, keep=keep)
    book.add(f"relmo {precision}", "warm", case, warm, precision=precision, keep=keep)


def _describe_model(elmo: Elmo) -> dict[str, Any]:
    lstm = elmo.config.lstm
    return {
        "name": elmo.config.name,
        "parameters": sum(p.numel() for p in elmo.bilm.parameters()),
        "lstm": f"{lstm.num_layers} x {lstm.cell_width}/{lstm.output_width}",
        "clips": [lstm.cell_clip, lstm.output_clip],
    }


def _describe_text(sentences: list[Words], source: str) -> dict[str, Any]:
    tokens = sum(map(len, sentences))
    return {
        "source": source,
        "sentences": len(sentences),
        "tokens": tokens,
        "distinct_words": len({word for words in sentences for word in words}),
        "tokens_per_sentence": round(tokens / len(sentences), 1),
    }


def _describe_work(elmo: Elmo, sentences: list[Words]) -> dict[str, float]:
    distinct = {word for words in sentences for word in words}
    flops = sum(word_flops(elmo.config.tokens, word) for word in distinct) / len(distinct)
    return {
        "lstm_mflop_per_token": round(lstm_flops(elmo.config.lstm) / 1e6, 2),
        "cnn_mflop_per_new_word": round(flops / 1e6, 2),
    }
