"""A run that was stopped goes on as if it had not been; two processes do what one does.

The file also runs as a program, one process that forks a child for every attempt: a child kills
itself at a chosen line of the training code or halfway through a checkpoint's file, or is killed
from outside at a random moment; two children together are one distributed run.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

import relmo
from relmo.errors import ConfigError, OutputError
from relmo.tasks.lm.pretrain import pretrain
from relmo.training.checkpoint import find_checkpoints
from relmo.training.trainer import Trainer
from relmo.weights import safetensors_files
from relmo.weights.find import read_model
from tests.support.toy_lm import Corpus, Grammar, metrics, toy_recipe

STEPS = {"steps": 10, "log_every": 2, "checkpoint_every": 3, "evaluate_every": 4}
TRACED = ("train", "tasks", "files.py")
SLACK = 50
"""Lines by which two runs may differ: waiting for a thread takes now more, now fewer."""
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def stopped_recipe():
    return toy_recipe(lm={"dropout": 0.1, "window": 3}, training=STEPS)


def paired_recipe(**training):
    """Dropout is drawn in each process for itself: without it results do not depend on them."""
    training = {"checkpoint_every": 3, **training}
    return toy_recipe(lm={"dropout": 0.0}, training=training)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(tmp_path_factory.mktemp("corpus"), Grammar(seed=1), documents=60)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """The run that nothing stopped."""
    output = tmp_path_factory.mktemp("whole")
    corpus.train(stopped_recipe(), output)
    return output


def assert_same_run(found: Path, wanted: Path) -> None:
    assert metrics(found) == metrics(wanted)
    for file in ("model.safetensors", "lm_head.safetensors"):
        one, two = load_file(found / "model" / file), load_file(wanted / "model" / file)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[name], two[name]) for name in one)


# ── stopped and resumed ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stop", [2, 4, 8, 10])
def test_a_run_stopped_by_an_error_goes_on_to_the_bit(corpus, whole, tmp_path, stop):
    def report(line):
        if line.get("step") == stop:
            raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        corpus.train(stopped_recipe(), tmp_path, report=report)
    assert not (tmp_path / "run.json").exists()
    corpus.train(stopped_recipe(), tmp_path, resume=can_resume(tmp_path))
    assert_same_run(tmp_path, whole)


def can_resume(output):
    return bool(find_checkpoints(output / "checkpoint"))


def test_a_run_that_never_began_is_not_resumed(corpus, tmp_path):
    with pytest.raises(ConfigError, match="has no checkpoint to resume from: the run was never"):
        corpus.train(stopped_recipe(), tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()


def test_a_second_run_in_the_same_folder_is_refused_at_once(corpus, tmp_path):
    refused = []

    def report(line):
        with pytest.raises(OutputError, match=f"process {os.getpid()} is writing to this folder"):
            corpus.train(stopped_recipe(), tmp_path)
        refused.append(line.get("step"))

    corpus.train(stopped_recipe(), tmp_path, report=report)
    assert [line["step"] for line in metrics(tmp_path)] == refused[1:]


def test_a_resume_of_a_finished_run_changes_nothing(corpus, whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    corpus.train(stopped_recipe(), tmp_path, resume=True)
    assert_same_run(tmp_path, whole)


def test_an_unfinished_run_is_not_begun_anew_in_its_place(corpus, whole, tmp_path):
    shutil.copytree(whole / "checkpoint", tmp_path / "checkpoint")
    with pytest.raises(ConfigError, match="unfinished run; resume it with --resume, or"):
        corpus.train(stopped_recipe(), tmp_path)


def test_a_run_is_not_resumed_with_other_text_or_settings(corpus, whole, tmp_path):
    shutil.copytree(whole / "checkpoint", tmp_path / "checkpoint")
    for change, name in (
        ({"lm": {"rows": 8}}, "lm"),
        ({"model": {"lstm": {"cell_width": 9, "output_width": 8}}}, "lm, model"),
        ({"training": {"seed": 5}}, "lm, seed"),
    ):
        with pytest.raises(ConfigError, match=rf"different settings \({name}\); resume with"):
            corpus.train(toy_recipe(**change), tmp_path, resume=True)
    other = Corpus(tmp_path / "other", Grammar(seed=2), documents=30)
    with pytest.raises(ConfigError, match=r"different settings \(text\); resume with the original"):
        other.train(stopped_recipe(), tmp_path, resume=True)


def test_a_model_of_one_layer_is_resumed_too(corpus, tmp_path):
    lstm = {"cell_width": 12, "output_width": 8, "num_layers": 1}
    for steps in (3, 5):
        recipe = toy_recipe(model={"lstm": lstm}, training={"steps": steps, "checkpoint_every": 2})
        corpus.train(recipe, tmp_path, resume=steps == 5)
    assert [line["step"] for line in metrics(tmp_path) if "loss" in line] == [1, 2, 3, 4, 5]


@needs_fork
def test_a_run_killed_at_random_moments_goes_on_to_the_bit(corpus, whole, tmp_path):
    check_kills(corpus, whole, tmp_path, points=3, seed=1)


@needs_fork
@pytest.mark.slow
def test_a_run_killed_at_twenty_random_moments_goes_on_to_the_bit(corpus, whole, tmp_path):
    check_kills(corpus, whole, tmp_path, points=20, seed=2)


@needs_fork
@pytest.mark.parametrize(("points", "seed"), [(4, 3), pytest.param(30, 4, marks=pytest.mark.slow)])
def test_a_run_stopped_by_signals_goes_on_to_the_bit(corpus, whole, tmp_path, points, seed):
    codes = json.loads(start("stop", corpus, tmp_path, points, seed))
    assert set(codes) <= {130, -signal.SIGTERM, 0}
    assert 130 in codes
    for point in range(points):
        assert_same_run(tmp_path / str(point), whole)


def check_kills(corpus, whole, folder, points, seed):
    done = start("kill", corpus, folder, points, seed)
    assert json.loads(done) == [-signal.SIGKILL] * points
    for point in range(points):
        assert_same_run(folder / str(point), whole)


# ── two processes ───────────────────────────────────────────────────────────────────────────


@needs_fork
def test_two_processes_do_what_one_does(corpus, tmp_path):
    corpus.train(paired_recipe(), tmp_path / "one")
    shutil.copytree(tmp_path / "one/checkpoint/", tmp_path / "resumed/checkpoint")
    shutil.rmtree(tmp_path / "resumed/checkpoint/step-000000006")
    assert json.loads(start("pair", corpus, tmp_path)) == [0] * 6

    for name in ("two", "resumed"):
        assert_close(read_model(tmp_path / "one/model"), read_model(tmp_path / name / "model"))
    pairs = list(zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True))
    assert len(pairs) == 7
    for one, two in pairs:
        assert one == pytest.approx(two, rel=1e-5)
    step = "checkpoint/step-000000003/tensors.safetensors"
    one, two = load_file(tmp_path / "one" / step), load_file(tmp_path / "two" / step)
    assert one.keys() == two.keys()
    assert one["carried.forward.h"].shape == (2, 4, 8)
    for name in one.keys() - {"carried.sums"}:
        torch.testing.assert_close(one[name], two[name], atol=1e-5, rtol=1e-4)


@needs_fork
def test_two_processes_that_are_stopped_leave_a_checkpoint(corpus, tmp_path):
    assert json.loads(start("stop-pair", corpus, tmp_path)) == [130] * 2 + [0] * 2
    assert [line["step"] for line in metrics(tmp_path / "stopped") if "loss" in line] == [20, 40]
    corpus.train(paired_recipe(steps=40, log_every=20), tmp_path / "one")
    pairs = zip(metrics(tmp_path / "one"), metrics(tmp_path / "stopped"), strict=True)
    for one, two in pairs:
        assert one == pytest.approx(two, rel=1e-4)


def assert_close(one, two) -> None:
    tensors = [{**model.tensors, **model.lm_head()} for model in (one, two)]
    assert tensors[0].keys() == tensors[1].keys()
    for name, tensor in tensors[0].items():
        torch.testing.assert_close(tensor, tensors[1][name], atol=1e-5, rtol=0)


# ── the program ─────────────────────────────────────────────────────────────────────────────


def start(mode, corpus, folder, *numbers):
    """Run this file; it prints how its children ended."""
    paths = [str(Path(relmo.__file__).parents[1]), str(Path(__file__).parents[4])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    args = [mode, corpus.file, corpus.cache_folder, folder, *numbers]
    command = [sys.executable, __file__, *map(str, args)]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=300
    )
    return done.stdout


def fork(work, *args) -> int:
    """A child that does its work and exits without coming back here."""
    child = os.fork()
    if child:
        return child
    try:
        work(*args)
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at_points(file, cache, folder, points, seed):
    """Kill as many runs, each at a moment of its own, and let each go on to its end."""
    rng = random.Random(int(seed))

    def run(output):
        options = {"cache_folder": cache, "device": "cpu", "resume": can_resume(output)}
        pretrain(stopped_recipe(), [file], output, **options)

    counted = Path(folder) / "counted"
    began = time.monotonic()
    assert ended(fork(kill_at_line, 10**9, counted, run, Path(folder) / "trial")) == 0
    duration, lines = time.monotonic() - began, int(counted.read_text())
    codes = []
    for point in range(int(points)):
        output = Path(folder) / str(point)
        if point % 3 == 0:
            child = fork(kill_at_line, rng.randrange(1, lines - SLACK), counted, run, output)
        elif point % 3 == 1:
            child = fork(kill_in_write, rng.randrange(4), rng.random(), run, output)
        else:
            child = kill_from_outside(rng.uniform(0, duration / 4), run, output)
        codes.append(ended(child))
        assert ended(fork(run, output)) == 0
    return codes


def kill_from_outside(pause, run, output) -> int:
    """A child that was killed after a pause, a shorter one if it was done by then."""
    while True:
        child = fork(run, output)
        time.sleep(pause)
        os.kill(child, signal.SIGKILL)
        if not (output / "run.json").exists():
            return child
        ended(child)
        shutil.rmtree(output)
        pause /= 2


def stop_at_moments(file, cache, folder, points, seed):
    """Send SIGINT or SIGTERM to as many runs while they train, and let each go on to its end."""
    rng = random.Random(int(seed))
    codes, names = [], (signal.SIGINT, signal.SIGTERM)

    def run(output):
        def pause(line):
            (output / "started").touch()
            time.sleep(0.02)

        options = {"cache_folder": cache, "device": "cpu", "resume": can_resume(output)}
        pretrain(stopped_recipe(), [file], output, report=pause, **options)

    for point in range(int(points)):
        output = Path(folder) / str(point)
        child = fork(run, output)
        while not (output / "started").exists():
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.15))
        os.kill(child, names[point % 2])
        codes.append(ended(child))
        assert codes[-1] == 0 or can_resume(output) or not (output / "metrics.jsonl").exists()
        if codes[-1] != 0:
            assert ended(fork(run, output)) == 0
    return codes


def kill_at_line(number, counted, run, output):
    """Run, and die where the number-th line of training code would be next."""
    rooms = tuple(str(Path(relmo.__file__).parent / room) for room in TRACED)
    count = 0

    def at_line(frame, event, _):
        nonlocal count
        count += event == "line"
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return at_line

    def at_call(frame, *_):
        return at_line if frame.f_code.co_filename.startswith(rooms) else None

    threading.settrace(at_call)  # a thread writes checkpoints
    sys.settrace(at_call)
    run(output)
    sys.settrace(None)
    counted.write_text(str(count))


def kill_in_write(number, share, run, output):
    """Run, and die when that share of the number-th checkpoint is written."""
    left = number
    save_file = safetensors_files.save_file

    def save_half(tensors, path, metadata):
        nonlocal left
        if left == 0:
            whole = save(tensors)
            path.write_bytes(whole[: int(share * len(whole))])
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        save_file(tensors, path, metadata)

    safetensors_files.save_file = save_half
    run(output)


def train_in_pairs(file, cache, folder):
    """Three distributed runs: from the start, from a checkpoint of one process, by the clock."""
    folder, timed = Path(folder), paired_recipe(minutes=0.01, log_every=50)
    codes = []
    for output, recipe in (
        ("two", paired_recipe()),
        ("resumed", paired_recipe()),
        ("timed", timed),
    ):
        children = fork_pair(recipe, file, cache, folder / output, output == "resumed")
        codes += [ended(child) for child in children]
    return codes


def stop_a_pair(file, cache, folder):
    """A distributed run that a signal ends, as torchrun sends it, and its continuation."""
    output, recipe = Path(folder) / "stopped", paired_recipe(steps=40, log_every=20)
    children = fork_pair(recipe, file, cache, output, pause=0.02)
    while not (output / "metrics.jsonl").exists():
        time.sleep(0.005)
    for child in children:
        os.kill(child, signal.SIGTERM)
    codes = [ended(child) for child in children]
    children = fork_pair(recipe, file, cache, output, resume=True)
    return codes + [ended(child) for child in children]


def fork_pair(recipe, file, cache, output, resume=False, pause=0.0) -> list[int]:
    """Two processes of one run; a step may take a pause longer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(rank):
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
        if sys.platform == "linux":
            os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        train_step = Trainer._train_step

        def slow_step(trainer, progress):
            time.sleep(pause)
            return train_step(trainer, progress)

        Trainer._train_step = slow_step
        options = {"cache_folder": cache, "device": "cpu", "resume": resume}
        pretrain(recipe, [file], output, **options)

    return [fork(run, rank) for rank in (0, 1)]


def warm_up() -> None:
    """An optimiser's first step imports much: once here, not in each child."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.AdamW([parameter]).step()


if __name__ == "__main__":
    warm_up()
    mode, file, cache, *rest = sys.argv[1:]
    works = {
        "kill": kill_at_points,
        "stop": stop_at_moments,
        "pair": train_in_pairs,
        "stop-pair": stop_a_pair,
    }
    print(json.dumps(works[mode](Path(file), Path(cache), *rest)))  # noqa: T201
