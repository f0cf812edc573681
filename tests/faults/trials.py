"""Faults, each tried on the jobs: what happened to the work, in one word per trial.

A trial is good if the work came to the same result as without the fault ("same"), or if the
command refused in words ("said so"). Anything else is bad: "wrong" (another result), "silent"
(another result with exit status 0), "crashed" (a traceback or no words), "hung".
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.jobs import Job, Result, Workshop, digest, is_same
from tests.faults.process import Ended, read_only, run, small_disk, start

GOOD = ("same", "said so")


@dataclass(frozen=True)
class Trial:
    """One fault on one job."""

    fault: str
    job: str
    outcome: str
    detail: str = ""


class Faults:
    """Every fault, on the jobs of a workshop; `references` are the results without one."""

    def __init__(self, shop: Workshop, seed: int, *, can_mount: bool) -> None:
        self.shop, self.random, self.can_mount = shop, random.Random(seed), can_mount
        self.jobs = shop.jobs()
        self.references: dict[str, Result] = {}
        self.seconds: dict[str, float] = {}
        for job in self.jobs:
            output = shop.fresh("reference") / job.output
            began = time.monotonic()
            shop.need(*job.args(output))
            self.seconds[job.name] = time.monotonic() - began
            self.references[job.name] = job.result(output)

    def all(self, size: int) -> Iterator[Trial]:
        """Trials of every fault; `size` multiplies their number."""
        yield from self.kills(5 * size)
        yield from self.bit_flips(10 * size)
        yield from self.two_writers(size)
        yield from self.closed_pipes(1)
        yield from self.clock_jumps(size)
        yield from self.server(size)
        if self.can_mount:
            yield from self.full_disks(size)
            yield from self.read_only_folders(1)

    # ── kills ───────────────────────────────────────────────────────────────────────────────────

    def kills(self, number: int) -> Iterator[Trial]:
        """Signals at random moments, then the command again until it is done."""
        for job in self.jobs:
            for which in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
                for _ in range(number):
                    yield self._trial(f"killed by {which.name}", job, self._kill, job, which)

    def _kill(self, job: Job, which: signal.Signals) -> tuple[str, str]:
        output = self.shop.fresh("kill") / job.output
        child = start(job.args(output), self.shop.logs)
        time.sleep(self.random.uniform(0, 1.1 * self.seconds[job.name]))
        child.kill(which)
        ended = child.wait()
        if "Traceback" in ended.err:
            return "crashed", ended.last_words
        if ended.status == 0:
            return self._compare(job, output)
        return self._go_on(job, output)

    def _go_on(self, job: Job, output: Path) -> tuple[str, str]:
        """Resume, or start again where the command says that there is nothing to resume."""
        ended = run([*job.args(output), *job.resume], self.shop.logs)
        if ended.explained and "no checkpoint" in ended.err:
            ended = run(job.args(output), self.shop.logs)
        if ended.explained and "delete it to start again" in ended.err:
            shutil.rmtree(output)  # as it says
            ended = run(job.args(output), self.shop.logs)
        if ended.status:
            return "crashed", ended.last_words
        return self._compare(job, output)

    def _compare(self, job: Job, output: Path) -> tuple[str, str]:
        found = job.result(output)
        if is_same(found, self.references[job.name]):
            return "same", ""
        return "silent", str(found)

    def _trial(
        self, fault: str, job: Job | str, act: Callable[..., tuple[str, str]], *args: Any
    ) -> Trial:
        name = job if isinstance(job, str) else job.name
        try:
            return Trial(fault, name, *act(*args))
        except TimeoutError as error:
            return Trial(fault, name, "hung", str(error))
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            return Trial(fault, name, "wrong", f"{type(error).__name__}: {error}"[:300])

    # ── flipped bits ────────────────────────────────────────────────────────────────────────────

    def bit_flips(self, number: int) -> Iterator[Trial]:
        """One bit of a file turned, then a command that reads it."""
        for kind, folder, ask in self._readers():
            expected = ask(folder)
            assert expected.status == 0, expected.last_words
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                if file.stat().st_size == 0 or _is_log(file):
                    continue
                name = file.relative_to(folder)
                is_slow = kind.startswith("interrupted")  # seconds each
                for _ in range(max(1, number // 3) if is_slow else number):
                    what = f"{kind}: {_generic(name)}"
                    yield self._trial(
                        "one bit flipped", what, self._flip, folder, name, ask, expected
                    )

    def _flip(
        self, folder: Path, name: Path, ask: Callable[[Path], Ended], expected: Ended
    ) -> tuple[str, str]:
        copy = self.shop.fresh("flip") / folder.name
        shutil.copytree(folder, copy)
        file = copy / name
        data = bytearray(file.read_bytes())
        place = self.random.randrange(8 * len(data))
        data[place // 8] ^= 1 << place % 8
        times = file.stat()
        file.write_bytes(data)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a failing disk does
        found = ask(copy)
        if found.status == 0:
            if found.out == expected.out:
                return "same", ""
            return "silent", f"bit {place} of {name}"
        return ("said so", "") if found.explained else ("crashed", found.last_words)

    def _readers(self) -> Iterator[tuple[str, Path, Callable[[Path], Ended]]]:
        """(kind of files, folder of them, command whose standard output is compared)."""
        shop = self.shop

        def vectors(model: Path) -> Ended:
            output = shop.fresh("vectors") / "out.jsonl"
            ended = run(["embed", shop.small_text, "-o", output, "--model", model], shop.logs)
            said = digest(output.read_bytes()) if output.exists() else ""
            return Ended(ended.status, said, ended.err)

        def scores(model: Path) -> Ended:
            return run(["perplexity", shop.small_text, "--model", model, "--json"], shop.logs)

        def hits(folder: Path) -> Ended:
            index = folder / "notes.relmo"
            each = [run(["search", index, q, "--json"], shop.logs) for q in ("river bank", "mill")]
            worst = max(each, key=lambda ended: abs(ended.status))
            return Ended(worst.status, "".join(e.out for e in each), worst.err)

        def answers(folder: Path) -> Ended:
            return run(["predict", folder, shop.small_text, "--json"], shop.logs)

        def resumed(job: Job) -> Callable[[Path], Ended]:
            def ask(folder: Path) -> Ended:
                work = shop.fresh("resumed") / "run"
                shutil.copytree(folder, work)
                ended = run([*job.args(work / job.output), *job.resume], shop.logs)
                if ended.status:
                    return Ended(ended.status, "", ended.err)
                found = job.result(work / job.output)
                if isinstance(found, str):
                    return Ended(0, found, ended.err)
                said = "same" if is_same(found, self.references[job.name]) else "other vectors"
                return Ended(0, said, ended.err)

            return ask

        yield "native model", shop.model, scores
        official = shop.folder / "official"
        shop.need("convert", shop.model, official, "--to", "hdf5")
        yield "official model", official, vectors
        jobs = {job.name: job for job in self.jobs}
        index = shop.fresh("index")
        shop.need(*jobs["index"].args(index / "notes.relmo"))
        yield "index", _settled(index), hits
        trained = shop.fresh("trained") / "out"
        shop.need(*jobs["train"].args(trained))
        yield "trained run", _settled(trained), answers
        for name in ("embed out.npz", "pretrain", "train"):
            yield f"interrupted {name}", self._interrupted(jobs[name]), resumed(jobs[name])

    def _interrupted(self, job: Job) -> Path:
        """A folder in which the job was killed when it had saved something."""
        for share in (0.5, 0.6, 0.7, 0.8, 0.9) * 4:
            folder = self.shop.fresh("interrupted")
            child = start(job.args(folder / job.output), self.shop.logs)
            time.sleep(share * self.seconds[job.name])
            child.kill(signal.SIGKILL)
            if child.wait().status == 0:
                continue
            saved = list(folder.rglob("checkpoint/step-*/*"))
            if saved or (job.name.startswith("embed") and any(folder.iterdir())):
                kept = self.shop.folder / f"interrupted-{job.name.replace(' ', '-')}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(folder, kept)
                return kept
        raise RuntimeError(f"{job.name} was never caught in the middle")

    # ── others on the machine ───────────────────────────────────────────────────────────────────

    def two_writers(self, number: int) -> Iterator[Trial]:
        """Two of the same command at once; then two of which the first is interrupted."""
        for job in self.jobs:
            for _ in range(number):
                yield self._trial("two writers", job, self._both, job, False)
                yield self._trial("two writers, the first interrupted", job, self._both, job, True)

    def _both(self, job: Job, interrupt: bool) -> tuple[str, str]:
        output = self.shop.fresh("both") / job.output
        first = start(job.args(output), self.shop.logs)
        time.sleep(self.random.uniform(0, 0.5) * self.seconds[job.name])
        second = start(job.args(output), self.shop.logs)
        if interrupt:
            time.sleep(self.random.uniform(0, 0.5) * self.seconds[job.name])
            first.kill(signal.SIGINT)
        ended = [first.wait(), second.wait()]
        for each in ended:
            if each.status not in (0, 130) and not each.explained:
                return "crashed", each.last_words
        if all(each.status for each in ended):
            return self._go_on(job, output)
        return self._compare(job, output)

    def closed_pipes(self, number: int) -> Iterator[Trial]:
        """Standard output or error closed, or a pipe whose reader is gone."""
        shop = self.shop
        closing: dict[str, Callable[[], Any]] = {
            "stdout closed": lambda: os.close(1),
            "stderr closed": lambda: os.close(2),
            "pipe without a reader": _break_pipe,
            "full device as stdout": lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1),
        }
        for name, act in list(closing.items()) * number:
            for job in self.jobs:
                yield self._trial(name, job, self._close, job, act)
            for args in (["info", shop.model], ["perplexity", shop.small_text]):
                yield self._trial(name, str(args[0]), self._short, args, act)

    def _close(self, job: Job, act: Callable[[], Any]) -> tuple[str, str]:
        output = self.shop.fresh("closed") / job.output
        ended = run(job.args(output), self.shop.logs, before=act)
        if "Traceback" in ended.err or ended.status not in (0, 1):
            return "crashed", ended.last_words
        return self._go_on(job, output) if ended.status else self._compare(job, output)

    def _short(self, args: list[Any], act: Callable[[], Any]) -> tuple[str, str]:
        ended = run(args, self.shop.logs, before=act)
        if "Traceback" in ended.err or ended.status not in (0, 1):
            return "crashed", ended.last_words
        return ("said so" if ended.status else "same"), ""

    def clock_jumps(self, number: int) -> Iterator[Trial]:
        """A wall clock that jumps by up to a month, forwards and backwards, at every reading."""
        for job in self.jobs:
            for _ in range(number):
                yield self._trial("clock jumps", job, self._jump, job)

    def _jump(self, job: Job) -> tuple[str, str]:
        output, seed = self.shop.fresh("clock") / job.output, self.random.random()

        def before() -> None:
            chance, now, now_ns = random.Random(seed), time.time, time.time_ns
            time.time = lambda: now() + chance.uniform(-3e6, 3e6)
            time.time_ns = lambda: now_ns() + chance.randrange(-(10**15), 10**15)

        ended = run(job.args(output), self.shop.logs, before=before)
        return ("crashed", ended.last_words) if ended.status else self._compare(job, output)

    # ── disks ───────────────────────────────────────────────────────────────────────────────────

    def full_disks(self, number: int) -> Iterator[Trial]:
        """A disk that fills up on the way; then it gets larger and the command goes on."""
        for job in self.jobs:
            for _ in range(number):
                yield self._trial("disk full", job, self._fill, job)

    def _fill(self, job: Job) -> tuple[str, str]:
        place = self.shop.fresh("full") / "disk"
        needed = self._size(job)
        with small_disk(place, max(4096, int(self.random.uniform(0.02, 0.9) * needed))) as enlarge:
            ended = run(job.args(place / job.output), self.shop.logs)
            if ended.status and not ended.explained:
                return "crashed", ended.last_words
            enlarge()
            if ended.status:
                return self._go_on(job, place / job.output)
            return self._compare(job, place / job.output)

    def _size(self, job: Job) -> int:
        folder = self.shop.fresh("size")
        self.shop.need(*job.args(folder / job.output))
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def read_only_folders(self, number: int) -> Iterator[Trial]:
        """Output into a folder without permission to write; input from one."""
        shop = self.shop
        for job in self.jobs * number:
            yield self._trial("read-only output", job, self._refuse, job)
        with read_only(shop.model), read_only(shop.data), read_only(shop.notes):
            for job in self.jobs:
                yield self._trial("read-only model and data", job, self._plain, job)
        index = shop.fresh("locked")
        shop.need(*next(j for j in self.jobs if j.name == "index").args(index / "notes.relmo"))
        with read_only(index):
            yield self._trial("read-only index", "search", self._search, index / "notes.relmo")

    def _search(self, index: Path) -> tuple[str, str]:
        found = self.shop.hits(index)
        return ("same" if found == self.references["index"] else "silent"), ""

    def _plain(self, job: Job) -> tuple[str, str]:
        output = self.shop.fresh("plain") / job.output
        ended = run(job.args(output), self.shop.logs)
        return ("crashed", ended.last_words) if ended.status else self._compare(job, output)

    def _refuse(self, job: Job) -> tuple[str, str]:
        folder = self.shop.fresh("locked")
        with read_only(folder):
            ended = run(job.args(folder / job.output), self.shop.logs)
        return ("said so", "") if ended.explained else ("crashed", ended.last_words)

    # ── the server ──────────────────────────────────────────────────────────────────────────────

    def server(self, number: int) -> Iterator[Trial]:
        """relmo serve, killed while it answers, and started again on the same port."""
        for which in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            for _ in range(number):
                yield self._trial(f"killed by {which.name}", "serve", self._serve, which)

    def _serve(self, which: signal.Signals) -> tuple[str, str]:
        port = _free_port()
        args = ["serve", "--model", self.shop.model, "--port", port]
        answers = []
        for _ in range(2):
            child = start(args, self.shop.logs)
            try:
                answers.append(_ask(port))
            finally:
                began = time.monotonic()
                child.kill(which)
                ended = child.wait(20)
            if "Traceback" in ended.err or time.monotonic() - began > 15:
                return "crashed", ended.last_words
        return ("same", "") if answers[0] == answers[1] else ("silent", "")


def _ask(port: int) -> bytes:
    """The answer of a server on loopback, once it is up."""
    import json
    import urllib.error
    import urllib.request

    body = json.dumps({"input": ["river bank", "loan rate"]}).encode()
    address = f"http://127.0.0.1:{port}/v1/embeddings"
    for _ in range(600):
        asked = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read()) from error
        except (urllib.error.URLError, ConnectionError):
            pass  # not up yet
        time.sleep(0.05)
    raise TimeoutError("the server did not come up")


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _break_pipe() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)


def _settled(folder: Path) -> Path:
    """A copy of a folder that later trials leave alone."""
    kept = folder.parent.parent / f"kept-{folder.parent.name}-{folder.name}"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept)
    return kept


def _is_log(file: Path) -> bool:
    """Whether no result is computed from it: notes for people, curves, metrics."""
    return file.suffix == ".md" or "tensorboard" in file.parts or file.name == "metrics.jsonl"


def _generic(name: Path) -> str:
    """A file's name without numbers that differ from run to run."""
    import re

    return re.sub(r"step-\d+", "step-N", str(name))
