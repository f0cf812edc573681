"""A server under load: bench_serve.py [--model M] [--seconds 10] [--soak MINUTES].

Starts `relmo serve` on loopback and asks it from this process: requests one at a time, 16 clients
at once, three times what it can do, and, if asked, a soak. Every phase is bounded in time and
count. The load generator shares the machine with the server, so the figures are lower bounds.
"""

import argparse
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx

WORDS = Path(__file__).read_text().split()
MOST_REQUESTS = 200_000
QUEUE = 16


@dataclass
class Tally:
    """What clients saw."""

    seconds: float = 0.0
    statuses: Counter = field(default_factory=Counter)
    accepted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    @property
    def throughput(self) -> float:
        """Answered requests per second."""
        return self.statuses[200] / self.seconds

    def quantile(self, share: float) -> float:
        """Milliseconds within which this share of the answered were."""
        ordered = sorted(self.accepted)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def row(self, name: str) -> str:
        """A line of the table."""
        shown = ", ".join(f"{n:,} × {status}" for status, n in sorted(self.statuses.items()))
        times = " | ".join(f"{self.quantile(share):,.0f}" for share in (0.5, 0.95, 0.99))
        return f"| {name} | {self.throughput:,.1f} | {times} | {shown} |"


def sentence(rng: random.Random, length: int) -> str:
    return " ".join(rng.choices(WORDS, k=length))


def ask(url: str, clients: int, seconds: float, length: int, rate: float = 0.0) -> Tally:
    """Keep so many clients busy for some seconds; with a rate, they send that many a second."""
    tally, lock, end = Tally(), threading.Lock(), time.monotonic() + seconds

    def client(seed: int) -> None:
        rng = random.Random(seed)
        due = time.monotonic() + rng.random() * clients / max(rate, 1e3)
        with httpx.Client(timeout=120, verify=False) as http:
            while time.monotonic() < end and sum(tally.statuses.values()) < MOST_REQUESTS:
                if rate:  # whatever was answered meanwhile, and never two for one that was missed
                    time.sleep(max(0.0, due - time.monotonic()))
                    due = max(due, time.monotonic()) + clients / rate
                begin = time.perf_counter()
                body = {"input": sentence(rng, length), "encoding_format": "base64"}
                answer = http.post(f"{url}/v1/embeddings", json=body)
                taken = time.perf_counter() - begin
                with lock:
                    tally.statuses[answer.status_code] += 1
                    (tally.accepted if answer.status_code == 200 else tally.refused).append(taken)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.seconds = time.perf_counter() - begin
    return tally


class Server:
    """`relmo serve` with some limits changed, ended with the block."""

    def __init__(self, model: str, *changes: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "relmo", "serve", "--model", model, "--port", str(port)]
        for change in changes:
            command += ["--set", change]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self) -> "Server":
        for _ in range(600):
            try:
                httpx.get(f"{self.url}/ready").raise_for_status()
                return self
            except httpx.HTTPError:
                time.sleep(0.1)
        raise SystemExit("the server did not come up")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)

    def metric(self, name: str) -> float:
        """A counter by its name."""
        text = httpx.get(f"{self.url}/metrics").text
        return float(re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)[0])

    def batches(self) -> tuple[float, float]:
        """Requests in all batches so far (one counts in each of its batches), and batches."""
        name = "relmo_batch_requests"
        return self.metric(f"{name}_sum"), self.metric(f"{name}_count")

    def megabytes(self) -> float:
        """Resident memory."""
        return self.metric("process_resident_memory_bytes") / 2**20


def soak(server: Server, minutes: float, length: int) -> list[tuple[float, float]]:
    """(minute, megabytes) of the server under 16 clients, with texts that never repeat."""
    found = [(0.0, server.megabytes())]
    while found[-1][0] < minutes:
        part = min(0.5, minutes - found[-1][0])
        ask(server.url, 16, part * 60, length)
        found.append((found[-1][0] + part, server.megabytes()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="relmo-en-small")
    parser.add_argument("--seconds", type=float, default=10, help="of each phase")
    parser.add_argument("--length", type=int, default=25, help="words of a text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=float, default=0, help="minutes")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [
        f"`bench_serve.py {' '.join(sys.argv[1:])}`; texts of {args.length} words, one a request.",
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start.",
        "",
        "| phase | answered/s | p50 ms | p95 | p99 | answers |",
        "|---|---|---|---|---|---|",
    ]
    ratios: list[float] = []
    sizes: list[float] = []
    with Server(args.model) as server:
        ask(server.url, 4, 2, args.length)  # warms up
        for number in range(args.rounds):
            one = ask(server.url, 1, args.seconds, args.length)
            before = server.batches()
            many = ask(server.url, 16, args.seconds, args.length)
            after = server.batches()
            sizes.append((after[0] - before[0]) / (after[1] - before[1]))
            ratios.append(many.throughput / one.throughput)
            lines += [one.row(f"one at a time, round {number}"), many.row(f"16, round {number}")]
    with Server(args.model, "batch_tokens=1") as server:
        ask(server.url, 4, 2, args.length)
        lines.append(ask(server.url, 16, args.seconds, args.length).row("16, batching off"))
    with Server(args.model, f"queue_requests={QUEUE}") as server:
        ask(server.url, 4, 2, args.length)
        full = ask(server.url, QUEUE, args.seconds, args.length)
        lines.append(full.row(f"{QUEUE}, queue of {QUEUE}"))
        over = ask(server.url, 6 * QUEUE, args.seconds, args.length, 3 * full.throughput)
        lines.append(over.row(f"{3 * full.throughput:.0f} requests/s, three times that"))
    lines += ["", f"16 clients against one at a time: {median(ratios):.1f}× (median of rounds); "
              f"{median(sizes):.1f} requests a batch then."]  # fmt: skip
    if args.soak:
        with Server(args.model) as server:
            ask(server.url, 4, 2, args.length)
            curve = soak(server, args.soak, args.length)
        lines += ["", "Soak, 16 clients, resident MB by minute: "
                  + ", ".join(f"{m:.1f}: {mb:.0f}" for m, mb in curve)]  # fmt: skip
    print("\n".join(lines))
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
