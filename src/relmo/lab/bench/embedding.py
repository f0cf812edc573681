"""READ FIRST: the default benchmark, from a model's name to a report on its embedding speed.

Each round goes over everything in turn: the machine's own rates, the parts of a batch, every
precision on every case with a cold and a warm word memo, and each peer on the same case.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
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
from relmo.lab.bench.timing import Memo, SpeedBook, rounds, speed_ratios, timed, watch_others
from relmo.progress import working
from relmo.runtime.runtime import unpack_layers
from relmo.text.batches import index_words
from relmo.text.tokenize import tokenized

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
MEMOS: tuple[Memo, ...] = ("cold", "warm")
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

    def load(self, **options: Any) -> Elmo:  # noqa: ANN401 - of from_pretrained
        """The model, at the first precision and on the device unless the options differ."""
        chosen = {"precision": self.precisions[0], "device": self.device, **options}
        return Elmo.from_pretrained(self.model, **chosen)


def bench_embedding(settings: BenchSettings) -> dict[str, Any]:
    """Measure on the CPU and report as JSON."""
    others = watch_others()
    with working(f"loading {settings.model}"):
        elmos = {  # they start in a zero state, as the peers do
            p: settings.load(precision=p, device="cpu", start="zero") for p in settings.precisions
        }
    first = elmos[settings.precisions[0]]
    sentences = load_sentences(settings.text, first)
    # Everything is measured again in each round, so that a busy moment affects all alike.
    meter, book = RateMeter(first.config.lstm), SpeedBook()
    parts: dict[Precision, list[dict[str, float]]] = defaultdict(list)
    with ExitStack() as stack:
        with working("starting the peers"):
            peers = start_peers(settings.peers, settings.model, stack)
            for peer in peers:
                peer.compare(first, take(sentences, 0, COMPARED))
        for number in rounds(settings.seconds):
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
    machine = describe_machine(others())  # the peers have ended, so their time counts as ours
    largest = cases_of_round(sentences, 1)[-1].calls[0]
    failed = [peer.name for peer in peers if "missing" in peer.facts]
    ours = [series for series in book.values() if series.memo != "none"]
    theirs = [s for s in book.values() if s.memo == "none" and s.who not in failed]
    speed = [series.to_dict() for series in (*ours, *theirs)]
    for row, series in zip(speed, ours, strict=False):  # ours come first
        fraction = fraction_of_floor(series, first.config, meter.rates(series.precision))
        row["fraction_of_floor"] = round(fraction, 3)
    milliseconds = {
        p: {part: round(1000 * median(each[part] for each in found), 3) for part in found[0]}
        for p, found in parts.items()
    }
    with working("load time and memory, in fresh processes"):
        fresh = {p: measure_fresh(elmo, settings.model, p, largest) for p, elmo in elmos.items()}
    return {
        "machine": machine,
        "model": describe_model(first),
        **describe_text(first, sentences, "made up" if settings.text is None else "a file"),
        "rates": meter.to_dict(),
        "parts_milliseconds": milliseconds,
        "speed": speed,
        "fresh": fresh,
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
def time_parts(elmo: Elmo, sentences: Sequence[list[str]]) -> dict[str, float]:
    """Seconds of each part of embedding one batch."""
    text = [" ".join(words) for words in sentences]
    found = index_words(sentences)
    index, lengths = torch.from_numpy(found.index), torch.from_numpy(found.lengths)
    elmo.runtime.memo.clear()  # so that the CNN computes all words
    tokenizing, _ = timed(lambda: list(tokenized(text, elmo.tokenizer)))
    cnn, _ = timed(lambda: elmo.runtime.memo.vectors(found.words))  # (U, P)
    lookup, x = timed(lambda: elmo.runtime.memo.vectors(found.words)[index])  # (B, T, P)
    lstms, (layers, _) = timed(lambda: elmo.runtime.fast.read(x, lengths))
    joining, _ = timed(lambda: unpack_layers(layers.values, sentences))
    return {
        "tokenising": tokenizing,
        "character CNN, all words new": cnn,
        "looking words up, all known": lookup,
        "LSTMs": lstms,
        "joining and copying out": joining,
    }


def describe_model(elmo: Elmo) -> dict[str, Any]:
    """The model of a report."""
    lstm = elmo.config.lstm
    return {
        "name": elmo.config.name,
        "parameters": sum(p.numel() for p in elmo.bilm.parameters()),
        "lstm": f"{lstm.num_layers} x {lstm.cell_width}/{lstm.output_width}",
        "clips": [lstm.cell_clip, lstm.output_clip],
    }


def describe_text(elmo: Elmo, sentences: Sequence[list[str]], source: str) -> dict[str, Any]:
    """The text of a report, without the name of a file, which may be private, and its work."""
    tokens, distinct = sum(map(len, sentences)), {word for words in sentences for word in words}
    flops = sum(word_flops(elmo.config.tokens, word) for word in distinct) / len(distinct)
    text = {
        "source": source,
        "sentences": len(sentences),
        "tokens": tokens,
        "distinct_words": len(distinct),
        "tokens_per_sentence": round(tokens / len(sentences), 1),
    }
    work = {
        "lstm_mflop_per_token": round(lstm_flops(elmo.config.lstm) / 1e6, 2),
        "cnn_mflop_per_new_word": round(flops / 1e6, 2),
    }
    return {"text": text, "work": work}
