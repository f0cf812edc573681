"""kill -9 at any moment, then resume: no row lost, none doubled, the same bytes as without.

The file also runs as a program, one process that forks a child for every attempt. A child kills
itself at a chosen line of this room's code, so that the moments are spread over all of it and the
same on every run; or it is killed from outside while it appends.
"""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import relmo
from relmo.vectors import formats
from relmo.vectors.formats import Record
from relmo.vectors.writer import VectorWriter

NUM_LINES = 10
TRIALS = 8

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet", ".jsonl"])
def test_killed_at_any_line_of_code_a_run_resumes_to_the_same_bytes(suffix, tmp_path):
    child = start("every_line", tmp_path, suffix)
    try:
        done = child.communicate(timeout=60)[0].split()
    finally:
        child.kill()
    kills, finished = map(int, done)
    assert finished == TRIALS
    assert kills > TRIALS


def test_what_was_appended_before_a_kill_is_there_after_it(tmp_path):
    path, delays = tmp_path / "out.npz", random.Random(1)
    for _ in range(3):
        child = start("append_forever", tmp_path, ".npz")
        acknowledged = int(child.stdout.readline())
        for _ in range(delays.randrange(50, 400)):
            acknowledged = int(child.stdout.readline())
        child.kill()
        acknowledged = int(([acknowledged, *child.communicate()[0].split()])[-1])
        with VectorWriter(path, {}, [0, 1, 2], resume=True) as writer:
            assert writer.done in (acknowledged, acknowledged + 1)
            done = writer.done
    with VectorWriter(path, {}, [0, 1, 2], resume=True) as writer:
        assert all(writer.is_done(line, record(line).text) for line in range(done))
        writer.finish()
    with np.load(path) as arrays:
        assert len(arrays) == done
        assert all(np.array_equal(arrays[str(i)], record(i).vectors) for i in range(done))


def start(mode, folder, suffix):
    environment = {**os.environ, "PYTHONPATH": str(Path(relmo.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, __file__, mode, str(folder), suffix],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def record(line):
    T = line % 4
    vectors = np.random.default_rng(line).standard_normal((3, T, 4)).astype(np.float32)
    return Record(line, f"line {line}", [f"w{i}" for i in range(T)], vectors)


def write_all(path):
    with VectorWriter(path, {"model": "m"}, [0, 1, 2], resume=True) as writer:
        for line in range(NUM_LINES):
            if not writer.is_done(line, f"line {line}"):
                writer.append(record(line))
        writer.finish()


def append_forever(folder, suffix):
    """Append and say how many are done, until killed."""
    with VectorWriter(folder / f"out{suffix}", {}, [0, 1, 2], resume=True) as writer:
        line = 0
        while True:
            if not writer.is_done(line, f"line {line}"):
                writer.append(record(line))
                print(writer.done, flush=True)  # noqa: T201
            line += 1


def every_line(folder, suffix):
    """Runs killed at lines spread over the whole work, each resumed until it ends."""
    formats.find_format(Path(f"x{suffix}"))
    if suffix == ".parquet":
        pa.array(np.zeros(1))  # what pyarrow loads at its first use, loaded once for all children
    whole = folder / f"whole{suffix}"
    attempt(whole, None)
    wanted, num_steps = whole.read_bytes(), int((folder / "steps").read_text())
    kills, lines = 0, random.Random(0)
    for trial in range(TRIALS):
        path = folder / f"{trial}{suffix}"
        path.write_bytes(b"old")
        step = (trial * num_steps) // TRIALS + lines.randrange(num_steps // TRIALS) + 1
        while attempt(path, step):
            kills += 1
            assert path.read_bytes() in (b"old", wanted), f"half written, killed at {step}"
            step = lines.randrange(1, 2 * num_steps)  # resuming may take more steps
        assert path.read_bytes() == wanted, f"differs, last killed at {step}"
        assert sorted(folder.glob(f"{trial}{suffix}*")) == [path]
    print(kills, TRIALS)  # noqa: T201


def attempt(path, last_step):
    """Whether a child that writes all was killed, as it is at the given step."""
    child = os.fork()
    if child == 0:
        steps = count_steps(last_step)
        write_all(path)
        sys.settrace(None)
        (path.parent / "steps").write_text(str(next(steps)))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL


def count_steps(last):
    """Count the lines run in this room from now on; die at the last."""
    steps = iter(range(sys.maxsize))
    room = str(Path(formats.__file__).parent)

    def trace(frame, event, argument):
        if not frame.f_code.co_filename.startswith(room):
            return None
        if event == "line" and next(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    return steps


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
