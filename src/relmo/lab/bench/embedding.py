"""READ FIRST: the default benchmark, from a model's name to a report on its embedding speed.

Each round goes over everything in turn: the machine's own rates, the parts of a batch, every
precision on every case with a cold and a warm word memo, and each peer on the same case.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, Any, get_args

import torch

from relmo.config import Range, Settings
from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.kernels.cpu_products import Precision
from relmo.lab.bench.floor import RateMeter, fraction_of_floor, lstm_flops, word_flops
from relmo.lab.bench.peers import measure_fresh, parse_peer, start_peers
from relmo.lab.bench.report import describe_machine
from relmo.lab.bench.sentences import Case, cases_of_round, load_sentences, take
from relmo.lab.bench.timing import Memo, OtherPrograms, SpeedBook, rounds, speed_ratios, timed
from relmo.runtime.runtime import unpack_layers
from relmo.text.batches import index_words
from relmo.text.tokenize import tokenized

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
MEMOS: tuple[Memo, ...] = ("cold", "warm")
PART_NAMES = (
    "tokenising",
    "character CNN, all words new",
    "looking words up, all known",
    "LSTMs",
    "joining and copying out",
)
PART_SENTENCES = 32
"""Sentences of the batch whose parts are timed."""
COMPARED = 8
"""Sentences whose vectors are compared with a peer's."""


@dataclass(frozen=True, kw_only=True)
class BenchSettings(Settings):
    """What to measure; a suite ignores the settings it has no use for."""

    model: str
    text: Path | None = None
    """One sentence per line; None makes sentences up."""
    precisions: tuple[Precision, ...] = PRECISIONS
    peers: tuple[str, ...] = ()
    """NAME=PYTHON of each."""
    seconds: Annotated[float, Range(above=0, below=math.inf)] = 30.0
    """How long to repeat rounds; at least three are run."""
    device: str | None = None
    """Of the suites gpu and train; None takes a GPU if there is one."""
    index: str | None = None
    """Of the suite search: where the index is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [parse_peer(peer)[0] for peer in self.peers]
        for what, given in (("precision", self.precisions), ("peer", names)):
            if len(set(given)) < len(given):
                raise ConfigError(f"duplicate {what} in {', '.join(given)}; give each once")
        if not self.precisions:
            raise ConfigError(f"no precision to measure; choose {', '.join(PRECISIONS)}")


def bench_embedding(settings: BenchSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure on the CPU and report as JSON; `say` is told how far it is."""
    others = OtherPrograms()
    options: dict[str, Any] = {"device": "cpu", "start": "zero"}  # as the peers start
    elmos = {
        p: Elmo.from_pretrained(settings.model, precision=p, **options) for p in settings.precisions
    }
    first = elmos[settings.precisions[0]]
    sentences = load_sentences(settings.text, first)
    # Everything is measured again in each round, so that a busy moment affects all alike.
    meter, book = RateMeter(first.config.lstm), SpeedBook()
    parts: dict[Precision, list[list[float]]] = defaultdict(list)
    with ExitStack() as stack:
        peers = start_peers(settings.peers, settings.model, stack)
        for peer in peers:
            peer.compare(first, take(sentences, 0, COMPARED))
        for number in rounds(settings.seconds):
            say("warming up" if number == 0 else f"round {number}")
            meter.measure()
            batch = take(sentences, PART_SENTENCES * number, PART_SENTENCES)
            for precision, elmo in elmos.items():
                parts[precision].append(time_parts(elmo, batch))
            for case in cases_of_round(sentences, number):
                for (precision, elmo), memo in product(elmos.items(), MEMOS):
                    seconds = time_case(elmo, case, memo)
                    book.add(f"relmo {precision}", memo, case, seconds, precision)
                for peer in peers:
                    if (taken := peer.seconds(case.calls)) is not None:
                        book.add(peer.name, "none", case, taken)
            if number == 0:  # caches and CPU clock had not settled yet
                book.clear()
                parts.clear()
        for peer in peers:
            peer.finish()
    cores_of_others = others.cores()  # the peers have ended, so their time counts as ours
    say("load time and memory, in fresh processes")
    largest = cases_of_round(sentences, 1)[-1].calls[0]
    failed = [peer.name for peer in peers if "missing" in peer.facts]
    ours = [series for series in book.values() if series.memo != "none"]
    theirs = [s for s in book.values() if s.memo == "none" and s.who not in failed]
    fractions = [fraction_of_floor(s, first.config, meter.rates(s.precision)) for s in ours]
    speed = [
        {**series.to_dict(), "fraction_of_floor": round(fraction, 3)}
        for series, fraction in zip(ours, fractions, strict=True)
    ]
    return {
        "machine": {**describe_machine(), "cores_taken_by_others": cores_of_others},
        "model": describe_model(first),
        "text": describe_text(sentences, settings.text),
        "rates": meter.to_dict(),
        "work": _describe_work(first, sentences),
        "parts_milliseconds": {p: _part_medians(found) for p, found in parts.items()},
        "speed": [*speed, *(series.to_dict() for series in theirs)],
        "fresh": {p: measure_fresh(elmo, settings.model, p, largest) for p, elmo in elmos.items()},
        "peers": {peer.name: peer.facts for peer in peers},
        "ratios": speed_ratios(ours, theirs),
    }


def time_case(elmo: Elmo, case: Case, memo: Memo) -> float:
    """Seconds of all calls of a case, with the word memo cleared or knowing all words."""
    if memo == "warm":
        elmo.runtime.memo.vectors(index_words(case.sentences).words)  # boundaries are words here
    seconds = 0.0
    for call in case.calls:
        if memo == "cold":
            elmo.runtime.memo.clear()
        seconds += timed(partial(elmo.embed, call))[0]
    return seconds


@torch.no_grad()
def time_parts(elmo: Elmo, sentences: Sequence[list[str]]) -> list[float]:
    """Seconds of each of `PART_NAMES` for one batch."""
    text = [" ".join(words) for words in sentences]
    found = index_words(sentences)
    index, lengths = torch.from_numpy(found.index), torch.from_numpy(found.lengths)
    elmo.runtime.memo.clear()  # so that the CNN computes all words
    tokenizing, _ = timed(lambda: list(tokenized(text, elmo.tokenizer)))
    cnn, _ = timed(lambda: elmo.runtime.memo.vectors(found.words))  # (U, P)
    lookup, x = timed(lambda: elmo.runtime.memo.vectors(found.words)[index])  # (B, T, P)
    lstms, (layers, _) = timed(lambda: elmo.runtime.fast.read(x, lengths))
    joining, _ = timed(lambda: unpack_layers(layers.values, sentences))
    return [tokenizing, cnn, lookup, lstms, joining]


def describe_model(elmo: Elmo) -> dict[str, Any]:
    """The model of a report."""
    lstm = elmo.config.lstm
    return {
        "name": elmo.config.name,
        "parameters": sum(p.numel() for p in elmo.bilm.parameters()),
        "lstm": f"{lstm.num_layers} x {lstm.cell_width}/{lstm.output_width}",
        "clips": [lstm.cell_clip, lstm.output_clip],
    }


def describe_text(sentences: Sequence[list[str]], path: Path | None) -> dict[str, Any]:
    """The text of a report; a file's name is left out, as it may be private."""
    tokens = sum(map(len, sentences))
    return {
        "source": "made up" if path is None else "a file",
        "sentences": len(sentences),
        "tokens": tokens,
        "distinct_words": len({word for words in sentences for word in words}),
        "tokens_per_sentence": round(tokens / len(sentences), 1),
    }


def _describe_work(elmo: Elmo, sentences: Sequence[list[str]]) -> dict[str, float]:
    distinct = {word for words in sentences for word in words}
    flops = sum(word_flops(elmo.config.tokens, word) for word in distinct) / len(distinct)
    return {
        "lstm_mflop_per_token": round(lstm_flops(elmo.config.lstm) / 1e6, 2),
        "cnn_mflop_per_new_word": round(flops / 1e6, 2),
    }


def _part_medians(found: list[list[float]]) -> dict[str, float]:
    """Milliseconds of each part."""
    columns = zip(PART_NAMES, zip(*found, strict=True), strict=True)
    return {name: round(1000 * median(seconds), 3) for name, seconds in columns}
