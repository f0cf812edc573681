"""How the cost of a token grows: bench_growth.py TEXT --output FOLDER [--model M] [--rounds 5].

Milliseconds per token against the length of a sentence, the sentences of a batch and the share of
words that were not met before; rounds are interleaved, medians given. Writes growth.json, growth.svg.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import median

from relmo import Elmo, ElmoConfig

LENGTHS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
NEW = (0, 25, 50, 75, 100)
LENGTH = 25
"""Words of a sentence where something else varies."""


def cases(
    words: Sequence[str], fresh: Iterator[str]
) -> dict[str, list[tuple[int, list[list[str]]]]]:
    """By figure: (x, sentences); words are met before unless they are fresh."""

    def sentences(count: int, length: int) -> list[list[str]]:
        stream = cycle(words)
        return [list(islice(stream, length)) for _ in range(count)]

    def mixed(percent: int) -> list[list[str]]:
        found = sentences(32, LENGTH)
        places = [(b, t) for b in range(32) for t in range(LENGTH)]
        for b, t in places[: len(places) * percent // 100]:
            found[b][t] = next(fresh)
        return found

    return {
        "length": [(n, sentences(1, n)) for n in LENGTHS],
        "batch": [(n, sentences(n, LENGTH)) for n in BATCHES],
        "new words, %": [(n, mixed(n)) for n in NEW],
    }


def measure(elmo: Elmo, words: Sequence[str], rounds: int) -> dict[str, list[tuple[int, float]]]:
    """Milliseconds per token by figure and x."""
    known = words[:3000]
    fresh = (f"{word}{number}" for number in range(10**6) for word in words[:500])
    elmo.memo.vectors(list(dict.fromkeys(known)))
    seconds: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds + 1):
        for name, found in cases(known, fresh).items():
            for x, sentences in found:
                begin = time.perf_counter()
                elmo.embed(sentences, layers="top")
                taken = time.perf_counter() - begin
                if number:  # the first round warms up
                    tokens = sum(map(len, sentences))
                    seconds.setdefault((name, x), []).append(1000 * taken / tokens)
    figures: dict[str, list[tuple[int, float]]] = {}
    for (name, x), values in seconds.items():
        figures.setdefault(name, []).append((x, round(median(values), 4)))
    return figures


def draw(figures: dict[str, list[tuple[int, float]]], title: str, path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "relmo"}):
        figure = Figure(figsize=(9.6, 3.2), layout="constrained")
        figure.suptitle(title, fontsize=10)
        for axes, (name, points) in zip(figure.subplots(1, 3), figures.items(), strict=True):
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, color="#1f4e79")
            axes.set_xlabel(
                {"length": "words of a sentence", "batch": "sentences of a call"}.get(name, name)
            )
            axes.set_ylabel("milliseconds per token")
            axes.set_ylim(bottom=0)
            if not name.startswith("new"):
                axes.set_xscale("log")
            axes.grid(linewidth=0.4, color="#d0d0d0")
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", help="random full-size weights unless given")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    elmo = Elmo.from_pretrained(args.model) if args.model else Elmo.untrained(ElmoConfig())
    elmo.reader.use(args.precision)
    lines = args.text.read_text(encoding="utf-8").splitlines()[:400]
    words = list(chain.from_iterable(elmo.sentences(line for line in lines if line)))
    figures = measure(elmo, words, args.rounds)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "growth.json").write_text(json.dumps({"model": repr(elmo), **figures}, indent=1))
    draw(figures, repr(elmo), args.output / "growth.svg")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
