"""What every task keeps: one suite over all that are registered.

Data and small models of each stand in tests/support/toy_tasks.py.
"""

import gzip
import json
import lzma
import re
import shutil
from functools import cache
from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file

from relmo import Elmo
from relmo.errors import ConfigError, DataError, WeightError
from relmo.tasks.inputs import PLACES
from relmo.tasks.registry import TASKS, find_task, read_parts
from relmo.tasks.run import load_task, load_task_recipe
from relmo.train.run import read_record
from relmo.train.trainer import TrainSettings
from tests.conftest import tiny_config
from tests.support.toy_lm import CLOCK
from tests.support.toy_tasks import TOYS, train_toy

NAMES = sorted(TASKS)
ELMO_PLACES = ["nowhere", *PLACES]
CHECKPOINTS = [
    "training.steps=8", "training.checkpoint_every=4", "training.evaluate_every=3",
    "training.patience=0",
]  # fmt: skip
PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
each_task = pytest.mark.parametrize("name", NAMES)
each_packing = pytest.mark.parametrize("suffix", PACKERS)


@pytest.fixture(scope="module")
def data_of(tmp_path_factory):
    """Task -> folder of its data."""
    return cache(lambda name: TOYS[name].write_parts(tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="module")
def run_of(tmp_path_factory, data_of, tiny):
    """(task, ELMo's place) -> folder of a run of one epoch."""

    @cache
    def run_of(name, place):
        output = tmp_path_factory.mktemp(f"{name}-{place}") / "run"
        elmo, at = (None, "input") if place == "nowhere" else (tiny, place)
        train_toy(name, data_of(name), output, elmo, "training.epochs=1", place=at)
        return output

    return run_of


@pytest.fixture(scope="module")
def stopped_of(tmp_path_factory, data_of, tiny):
    """Task -> folder of a run that was stopped after 7 of 8 steps."""

    @cache
    def stopped_of(name):
        output = tmp_path_factory.mktemp(f"{name}-stopped") / "run"
        options = {"place": "both", "report": stop_at(7)}
        with pytest.raises(KeyboardInterrupt):
            train_toy(name, data_of(name), output, tiny, *CHECKPOINTS, **options)
        return output

    return stopped_of


def weights(folder):
    return load_file(folder / "best.safetensors")


def lines(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in CLOCK} for line in found]


def scores_in(line):
    return {name: value for name, value in line.items() if name.startswith("dev_")}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def stop_at(step):
    def report(line):
        if line["step"] == step:
            raise KeyboardInterrupt

    return report


# ── being a task ────────────────────────────────────────────────────────────────────────────


def test_every_registered_task_has_its_place_among_the_toys():
    assert TOYS.keys() == TASKS.keys()


@each_task
def test_a_task_has_a_recipe_that_fits_it(name):
    recipe = load_task_recipe(name)
    assert isinstance(recipe.model, find_task(name).settings_type)
    assert isinstance(recipe.training, TrainSettings)


@each_task
def test_an_unknown_setting_is_named_with_the_nearest_known_one(name):
    with pytest.raises(ConfigError, match="unknown key 'dropuot'; did you mean 'dropout'"):
        load_task_recipe(name, None, ["model.dropuot=0.1"])


@each_task
@pytest.mark.parametrize("file", ["data", "model", "task"])
def test_a_task_has_the_same_three_files(name, file):
    module = TASKS[name].partition(":")[0]
    assert find_spec(f"{module.rpartition('.')[0]}.{file}")


# ── its files ───────────────────────────────────────────────────────────────────────────────


@each_task
@each_packing
def test_a_packed_file_holds_the_same_examples(tmp_path, data_of, name, suffix):
    for file in data_of(name).iterdir():
        (tmp_path / f"{file.name}{suffix}").write_bytes(PACKERS[suffix](file.read_bytes()))
    assert repr(read_parts(name, tmp_path)) == repr(read_parts(name, data_of(name)))


@each_task
@each_packing
def test_bytes_that_are_no_text_are_named_by_file_and_line(tmp_path, data_of, name, suffix):
    good = data_of(name) / f"train{TOYS[name].suffix}"
    first, _, rest = good.read_bytes().partition(b"\n")
    bad = tmp_path / f"{good.name}{suffix}"
    bad.write_bytes(PACKERS[suffix](first + b"\ncaf\xe9\n" + rest))
    with pytest.raises(DataError, match=re.escape(f"{bad.name}, line 2: not UTF-8")):
        find_task(name).read(bad, "train")


# ── with and without ELMo ───────────────────────────────────────────────────────────────────


@each_task
@pytest.mark.parametrize("place", ELMO_PLACES)
def test_a_run_leaves_a_sealed_record(run_of, name, place):
    record = read_record(run_of(name, place) / "run.json")
    score = find_task(name).score
    assert record["task"] == name
    assert 0 <= record["results"][score] <= 100
    assert record["results"][score.replace("dev_", "test_")] is not None
    assert record["mixes"].keys() == set(PLACES.get(place, ()))
    assert (record["elmo"] is None) == (place == "nowhere")
    assert record["recipe"]["model"]
    assert record["parameters"] > 0


@each_task
@pytest.mark.parametrize("place", ELMO_PLACES)
def test_a_loaded_model_predicts_what_the_trained_one_did(run_of, data_of, tiny, name, place):
    folder = run_of(name, place)
    test = read_parts(name, data_of(name))["test"]
    task = load_task(folder, elmo=tiny, device="cpu")
    results = read_record(folder / "run.json")["results"]
    found = {f"test_{k}": v for k, v in task.score_on(test).items()}
    assert found == pytest.approx({k: results[k] for k in found})
    again = load_task(folder, elmo=tiny, device="cpu")
    assert task.predict(test) == again.predict(test)


@each_task
def test_neighbours_and_order_do_not_change_a_prediction(run_of, data_of, tiny, name):
    test = read_parts(name, data_of(name))["test"]
    task = load_task(run_of(name, "both"), elmo=tiny, device="cpu")
    together = task.predict(test)
    assert [task.predict([example])[0] for example in test] == together
    assert task.predict(test[::-1]) == together[::-1]
    assert task.predict([]) == []


@each_task
def test_plain_text_is_answered_in_words_and_in_json(run_of, tiny, name):
    task = load_task(run_of(name, "input"), elmo=tiny, device="cpu")
    lines = ["ada runs in oslo.\tthe fox sleeps 😀."]
    examples = list(task.read_text(lines))
    for example, answer in zip(examples, task.predict(examples), strict=True):
        assert isinstance(task.render(example, answer), str)
        assert json.loads(json.dumps(task.describe(example, answer)))
    assert examples or name == "srl"  # where no word is known as a predicate
    assert list(task.read_text([])) == []


@pytest.mark.parametrize(
    ("name", "answer", "key"),
    [
        ("ner", ("B-PER", "E-PER", "O", "O", "O", "O"), "entities"),
        ("srl", ("B-A0", "I-A0", "B-V", "O", "O", "O"), "arguments"),
        ("coref", (((0, 1), (4, 4)),), "clusters"),
    ],
)
def test_an_answer_says_where_in_the_text_it_stands(run_of, tiny, name, answer, key):
    task = load_task(run_of(name, "input"), elmo=tiny, device="cpu")
    task.predicates = {"runs"}  # which srl asks for
    line = " Ada  Sol runs in Oslo."
    example = list(task.read_text(["Hm.", "", line]))[-1]
    found = task.describe(example, answer)[key]
    span = found[0][0] if name == "coref" else found[0]
    assert (span["text"], line[span["start"] : span["end"]]) == ("Ada Sol", "Ada  Sol")
    assert span["line"] == 3


@each_task
def test_another_elmo_than_the_one_it_was_trained_with_is_refused(run_of, name):
    other = Elmo.untrained(tiny_config(), seed=2)
    with pytest.raises(ConfigError, match="was trained with another tiny; give that model"):
        load_task(run_of(name, "input"), elmo=other, device="cpu")


@each_task
def test_the_bilm_can_be_trained_too(tmp_path, data_of, tiny, name):
    fine = ["input.finetune=true", "training.epochs=1"]
    before = tiny.fingerprint()
    scores = train_toy(name, data_of(name), tmp_path / "run", tiny, *fine, place="both")
    assert tiny.fingerprint() == before  # a copy was trained
    assert not (tmp_path / "run" / "cache").exists()
    task = load_task(tmp_path / "run", elmo=tiny, device="cpu")
    found = task.score_on(read_parts(name, data_of(name))["test"])
    assert {f"test_{k}": v for k, v in found.items()}.items() <= scores.items()


# ── stopped and resumed ─────────────────────────────────────────────────────────────────────


@each_task
def test_a_stopped_run_has_its_best_weights_so_far(stopped_of, data_of, tiny, name):
    folder, score = stopped_of(name), find_task(name).score
    assert not (folder / "run.json").exists()
    best = max((line for line in lines(folder) if score in line), key=lambda line: line[score])
    dev = read_parts(name, data_of(name))["dev"]
    found = load_task(folder, elmo=tiny, device="cpu").score_on(dev)
    assert {f"dev_{k}": v for k, v in found.items()} == pytest.approx(scores_in(best))


@each_task
def test_a_stopped_run_goes_on_to_the_bit(tmp_path, stopped_of, data_of, tiny, name):
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    shutil.copytree(stopped_of(name), stopped)
    train_toy(name, data_of(name), whole, tiny, *CHECKPOINTS, place="both")
    train_toy(name, data_of(name), stopped, tiny, *CHECKPOINTS, place="both", resume=True)
    assert lines(stopped) == lines(whole)
    assert same(weights(stopped), weights(whole))
    last = "checkpoint/step-000000008/tensors.safetensors"
    assert same(load_file(stopped / last), load_file(whole / last))


@each_task
def test_a_run_stopped_before_its_first_score_says_so(tmp_path, data_of, name):
    with pytest.raises(KeyboardInterrupt):
        train_toy(name, data_of(name), tmp_path / "run", report=stop_at(1))
    with pytest.raises(WeightError, match="has no scores yet; continue training"):
        load_task(tmp_path / "run", device="cpu")


@each_task
def test_a_finished_run_is_not_written_over(run_of, data_of, name):
    with pytest.raises(ConfigError, match="contains a finished run; choose another folder"):
        train_toy(name, data_of(name), run_of(name, "nowhere"))


@each_task
def test_the_seed_decides_a_run(tmp_path, data_of, name):
    for output, seed in {"one": 1, "again": 1, "other": 2}.items():
        seeded = ["training.steps=2", f"training.seed={seed}"]
        train_toy(name, data_of(name), tmp_path / output, None, *seeded)
    one, again, other = (weights(tmp_path / output) for output in ("one", "again", "other"))
    assert same(one, again)
    assert not same(one, other)
