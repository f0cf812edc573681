"""Reading on one GPU: bench_gpu_reading.py TEXT [--model M] [--device cuda] [--seconds 5].

The engine against the plain biLM, then tokens per second of tokenised sentences of mixed lengths:
layers kept on the device, and the mean of the layers as float16 on the host. Prints Markdown.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from relmo import Elmo, ElmoConfig
from relmo.text.batches import in_windows, plan_batches


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--model", help="random full-size weights unless given")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=5.0, help="per figure")
    parser.add_argument("--tokens", type=int, nargs="+", default=[8192, 65536, 131072])
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--sentences", type=int, default=20_000, help="that are read")
    parser.add_argument("--profile", action="store_true", help="what the device spends time on")
    return parser.parse_args()


def sync(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def median_rate(work: Callable[[], None], tokens: int, seconds: float, device) -> float:
    """Tokens per second: the median of rounds, the first left out."""
    rates: list[float] = []
    end = time.perf_counter() + seconds
    work()
    while len(rates) < 3 or time.perf_counter() < end:
        sync(device)
        begin = time.perf_counter()
        work()
        sync(device)
        rates.append(tokens / (time.perf_counter() - begin))
    return statistics.median(rates)


def batches_of(sentences: Sequence[list[str]], tokens: int) -> list[list[list[str]]]:
    """As `embed_stream` makes them."""
    found = []
    for window in in_windows(sentences, lambda s: len(s) + 2, 4 * tokens):
        plan = plan_batches([len(s) + 2 for s in window], tokens)
        found += [[window[i] for i in batch] for batch in plan]
    return found


def compare(elmo: Elmo, sentences: list[list[str]]) -> None:
    """The engine beside the plain biLM, both on the device."""
    from relmo.runtime.choice import split_layers
    from relmo.text.batches import index_words

    found = index_words(sentences)
    x = elmo.memo.vectors(found.words)[torch.from_numpy(found.index).to(elmo.device)]
    with torch.no_grad():
        plain = elmo.bilm.read(x, torch.from_numpy(found.lengths))[0].values
    for precision in ("float32", "bfloat16"):
        elmo.reader.use(precision)
        fast = elmo.reader.read(x, torch.from_numpy(found.lengths))[0].values
        worst = (fast - plain).abs().amax((1, 2, 3)).tolist()
        pairs = [
            torch.cosine_similarity(
                torch.cat([torch.from_numpy(v[k]) for v in split_layers(fast, sentences)]),
                torch.cat([torch.from_numpy(v[k]) for v in split_layers(plain, sentences)]),
            )
            for k in range(len(plain))
        ]
        means = [round(p.mean().item(), 6) for p in pairs]
        lows = [round(p.min().item(), 6) for p in pairs]
        print(f"{precision} against the plain biLM: worst {worst}; cosine {means}, lowest {lows}")


def show_profile(work: Callable[[], None]) -> None:
    """The kernels that take most of the device's time, after a pass that warms up."""
    work()
    with torch.profiler.profile() as profile:
        work()
        torch.cuda.synchronize()
    table = profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=15)
    print(table, flush=True)


def main() -> None:
    args = parse()
    device = torch.device(args.device)
    elmo = Elmo.from_pretrained(args.model) if args.model else Elmo.untrained(ElmoConfig())
    elmo.to(device)
    lines = args.text.read_text(encoding="utf-8").splitlines()
    sentences = [s for s in elmo.sentences(line for line in lines if line) if s][: args.sentences]
    count = sum(map(len, sentences))
    print(f"{len(sentences):,} sentences, {count:,} tokens, torch {torch.__version__}, {elmo!r}")
    compare(elmo, sentences[:300])
    columns = "precision", "batch tokens", "words", "on the device", "float16 mean on the host", "peak"
    print("\n| " + " | ".join(columns) + " |")
    print("|---|---|---|---|---|---|", flush=True)
    for precision in args.precision:
        elmo.reader.use(precision)
        for tokens in args.tokens:
            batches = batches_of(sentences, tokens)
            for kind in ("known", "new"):
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats()

                def kept(batches=batches, kind=kind) -> None:
                    if kind == "new":
                        elmo.memo.clear()
                    for batch in batches:
                        elmo.layers(batch)

                def host(tokens=tokens, kind=kind) -> None:
                    if kind == "new":
                        elmo.memo.clear()
                    for _ in elmo.embed_stream(
                        sentences, layers="mean", dtype="float16", batch_tokens=tokens
                    ):
                        pass

                if args.profile:
                    show_profile(kept)
                rates = [median_rate(work, count, args.seconds, device) for work in (kept, host)]
                peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
                print(
                    f"| {precision} | {tokens:,} | {kind} | {rates[0]:,.0f} | {rates[1]:,.0f} "
                    f"| {peak:.1f} GiB |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
