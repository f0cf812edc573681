"""Sizes of a step by device, memory and text; the estimate against what is measured."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from relmo.errors import ConfigError
from relmo.runtime import host
from relmo.tasks.lm import fit
from relmo.tasks.lm.fit import distinct_words, estimate, fit_recipe, num_weights, target_sizes
from relmo.tasks.lm.settings import Sizes, load_recipe
from relmo.tasks.lm.task import LmTask
from relmo.training.distributed import World
from tests.support.toy_lm import Corpus, Grammar, toy_recipe

GB = 10**9


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(tmp_path_factory.mktemp("text"), Grammar(seed=1), documents=2000)


@pytest.fixture
def free(monkeypatch):
    """Sets the memory that is free, whatever this machine has."""

    def set_free(gigabytes):
        found = None if gigabytes is None else int(gigabytes * GB)
        monkeypatch.setattr(fit, "available_memory", lambda device: found)

    return set_free


def small(*changes):
    return load_recipe("small", changes)


def world_of(kind, size=1):
    return World(0, size, torch.device(kind))


# ── what is chosen ──────────────────────────────────────────────────────────────────────────


def test_on_a_gpu_a_step_is_as_relmos_own_models_were_trained():
    assert target_sizes(world_of("cuda")) == Sizes(2048, 32, 8192)


@pytest.mark.parametrize(("threads", "rows"), [(1, 64), (2, 64), (6, 128), (64, 256)])
def test_on_a_cpu_rows_follow_its_threads(monkeypatch, threads, rows):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert target_sizes(world_of("cpu")) == Sizes(rows, 16, 2048)


def test_the_packages_recipes_leave_the_sizes_to_the_device():
    for name in ("small", "base"):
        lm = load_recipe(name).lm
        assert (lm.rows, lm.window, lm.negatives) == (None, None, None)


def test_what_a_recipe_gives_is_obeyed(corpus, free):
    free(16)
    recipe = small("lm.rows=48", "lm.window=5", "lm.negatives=7", "lm.train_tokens=true")
    found, _ = fit_recipe(recipe, corpus.cache, world_of("cpu"))
    assert found == replace(recipe, lm=replace(recipe.lm, keep_vocabulary=False))


def test_rows_are_halved_until_memory_suffices(corpus, free):
    recipe = small("lm.window=2", "model.lstm.cell_width=16384")
    rows = []
    for gigabytes in (16, 8, 5, 4):
        free(gigabytes)
        found, need = fit_recipe(recipe, corpus.cache, world_of("cuda"))
        assert need.total <= fit.SHARE * gigabytes * GB
        rows.append(found.lm.rows)
    assert rows == sorted(rows, reverse=True)
    assert rows[0] > rows[-1] >= 1
    free(None)  # nothing tells how much there is
    assert fit_recipe(recipe, corpus.cache, world_of("cuda"))[0].lm.rows >= rows[0]


def test_a_short_text_is_read_in_fewer_rows(tmp_path, free):
    free(64)
    short = Corpus(tmp_path, Grammar(seed=1), documents=40)
    found, _ = fit_recipe(small(), short.cache, world_of("cpu"))
    rows, window, _ = found.lm.sizes
    assert len(short.cache.train.tokens) // rows // window >= fit.LEAST_STEPS
    task = LmTask(toy_recipe().model, found.lm, short.cache)
    assert task.steps_per_epoch >= fit.LEAST_STEPS - 1


def test_rows_stay_a_multiple_of_the_processes(corpus, free):
    free(64)
    found, _ = fit_recipe(small(), corpus.cache, world_of("cpu", size=4))
    assert found.lm.rows % 4 == 0


def test_a_resumed_run_keeps_what_it_began_with(corpus, free):
    free(64)
    stored = {"rows": 8, "window": 4, "negatives": 30, "train_tokens": False, "dropout": 0.3}
    found, _ = fit_recipe(small(), corpus.cache, world_of("cpu"), stored=stored)
    assert (found.lm.sizes, found.lm.train_tokens) == (Sizes(8, 4, 30), False)
    assert found.lm.dropout == 0


# ── what is refused ─────────────────────────────────────────────────────────────────────────


def test_a_run_that_does_not_fit_is_refused_with_rows_that_do(corpus, free):
    free(3)
    recipe = small("lm.rows=4096", "lm.window=32")
    with pytest.raises(ConfigError, match=r"needs about \d+\.\d GB .* 2\.5 GB may be used") as said:
        fit_recipe(recipe, corpus.cache, world_of("cpu"))
    [advice] = [word for word in str(said.value).split() if word.startswith("lm.rows=")]
    fit_recipe(small(advice.rstrip(")"), "lm.window=32"), corpus.cache, world_of("cpu"))


def test_where_fewer_rows_do_not_help_other_settings_are_named(corpus, free):
    recipe = small("lm.rows=1", "lm.window=20000")
    free(1.4)
    with pytest.raises(ConfigError, match=r"lm.window to 8, lm.negatives to 1024 and set"):
        fit_recipe(recipe, corpus.cache, world_of("cpu"))
    free(0.1)
    with pytest.raises(ConfigError, match="a smaller model or vocabulary"):
        fit_recipe(recipe, corpus.cache, world_of("cpu"))


def test_pretraining_refuses_before_it_makes_a_model(corpus, free, tmp_path, monkeypatch, capfd):
    free(0.2)
    monkeypatch.setattr("relmo.tasks.lm.pretrain.LmTask", None)
    with pytest.raises(ConfigError, match="GB may be used"):
        corpus.train(small(), tmp_path)
    assert "the tokenized text is kept for the next try, in " in capfd.readouterr().err


# ── the estimate ────────────────────────────────────────────────────────────────────────────


def test_weights_are_counted_exactly(corpus):
    recipe = toy_recipe()
    model = LmTask(recipe.model, recipe.lm, corpus.cache).model
    lstms, cnn, head = num_weights(recipe.model, len(corpus.cache.words))
    assert sum(p.numel() for p in model.bilm.token_layer.parameters()) == cnn
    assert sum(p.numel() for p in model.bilm.parameters()) == lstms + cnn
    assert sum(p.numel() for p in model.head.parameters()) == head


def test_distinct_words_are_those_that_a_step_has_on_average(corpus):
    recipe = toy_recipe(lm={"rows": 4, "window": 4})
    task = LmTask(recipe.model, recipe.lm, corpus.cache)
    found = [len(task.batches.make(step).words) for step in range(50)]
    assert distinct_words(corpus.cache.counts, 32) == pytest.approx(sum(found) / 50, rel=0.2)


MEASURE = """
import json, sys, torch
from pathlib import Path
from relmo.tasks.lm.fit import fit_recipe
from relmo.tasks.lm.settings import load_recipe
from relmo.tasks.lm.task import HELD_OUT_TOKENS, LmTask
from relmo.tasks.lm.token_cache import TokenCache
from relmo.training.distributed import World
from relmo.training.optim import make_optimizer

HELD_OUT_TOKENS["cpu"] = 2000
def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

cache, recipe = TokenCache(Path(sys.argv[1])), load_recipe("small", sys.argv[2:])
recipe, need = fit_recipe(recipe, cache, World())
before = resident("VmRSS")
task = LmTask(recipe.model, recipe.lm, cache)
optimizer = make_optimizer(task.model, recipe.optimizer)
for step in range(2):
    task.loss(step).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
task.evaluate()
print(json.dumps([need.total, resident("VmHWM") - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    "changes",
    [
        ["lm.rows=4", "lm.window=8"],
        pytest.param(["lm.rows=64", "lm.train_tokens=false"], marks=pytest.mark.slow),
        pytest.param(["lm.rows=256", "lm.window=32"], marks=pytest.mark.slow),
    ],
)
def test_the_peak_is_between_half_the_estimate_and_the_estimate(corpus, changes):
    command = [sys.executable, "-c", MEASURE, corpus.cache.folder, *changes]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    estimated, measured = json.loads(said)
    assert 0.5 * estimated < measured < estimated


def test_more_of_anything_needs_more(corpus):
    def total(*changes):
        sizes = ["lm.rows=32", "lm.window=16", "lm.negatives=2", *changes]
        return estimate(small(*sizes), corpus.cache, World(), None).total

    many = "lm.rows=4096"  # a step, not the evaluation, is the largest moment
    for change in ("lm.window=64", "lm.ahead=0.1", "model.lstm.cell_width=2048"):
        assert total(many, change) > total(many)
    assert total(many, "lm.train_tokens=false") < total(many)


# ── free memory ─────────────────────────────────────────────────────────────────────────────


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_free_memory_is_the_least_that_anything_leaves(tmp_path, monkeypatch):
    def left():
        return host.available_memory(torch.device("cpu"))

    write(tmp_path, meminfo="MemTotal: 99 kB\nMemAvailable:   8000 kB\n", groups="0::/box/job\n")
    monkeypatch.setattr(host, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(host, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(host, "GROUP_ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(host, "_left_of_addresses", lambda: None)
    assert left() == 8_192_000
    write(tmp_path / "cgroup/box/job", memory__max="max\n", memory__current="5\n")
    assert left() == 8_192_000
    box = tmp_path / "cgroup/box"
    write(box, memory__max="5000\n", memory__current="3000\n", memory__stat="inactive_file 700\n")
    assert left() == 2700
    (tmp_path / "groups").write_text("4:cpu,memory:/one\n3:cpu:/box\n")
    one = tmp_path / "cgroup/memory/one"
    write(one, memory__limit_in_bytes="900\n", memory__usage_in_bytes="400\n")
    assert left() == 500
    monkeypatch.setattr(host, "_left_of_addresses", lambda: 100)
    assert left() == 100


def test_where_nothing_tells_free_memory_is_not_known(tmp_path, monkeypatch):
    for name in ("MEMINFO", "GROUPS", "GROUP_ROOT"):
        monkeypatch.setattr(host, name, tmp_path / "absent")
    monkeypatch.setattr(host, "_left_of_addresses", lambda: None)
    assert host.available_memory(torch.device("cpu")) is None


def test_the_recipe_for_fine_tuning_needs_a_model_to_tune(corpus, tmp_path):
    with pytest.raises(ConfigError, match="give one with --init"):
        corpus.train(load_recipe("tune"), tmp_path)


def test_a_step_that_takes_long_on_a_cpu_is_named(corpus, free, capsys):
    free(1e12)
    fit_recipe(small("lm.rows=4096", "lm.window=16"), corpus.cache, world_of("cpu"))
    assert "on this CPU a step of 4,096 rows takes about" in capsys.readouterr().err
    fit_recipe(small(), corpus.cache, world_of("cpu"))
    assert not capsys.readouterr().err
