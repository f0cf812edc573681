"""What every task keeps: one suite over all that are registered.

Data and small models of each stand in tests/support/toy_tasks.py.
"""

import gzip
import json
import lzma
import re
import shutil
from dataclasses import fields
from functools import cache
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from relmo import Elmo
from relmo.errors import ConfigError, DataError, TextError, WeightError
from relmo.tasks.inputs import PLACES
from relmo.tasks.installed import describe_task
from relmo.tasks.mistakes import summary
from relmo.tasks.model_card import About
from relmo.tasks.predictor import Predictor, load
from relmo.tasks.registry import TASKS, find_task, read_parts
from relmo.tasks.released import export_task
from relmo.tasks.results import render, to_json
from relmo.tasks.run import TaskCard, load_task, load_task_recipe
from relmo.training.run import read_record
from relmo.training.trainer import TrainSettings
from tests.conftest import tiny_config
from tests.support.serving import EXTRA
from tests.support.toy_lm import CLOCK
from tests.support.toy_tasks import TOYS, train_toy

NAMES = sorted(TASKS)
CHECKPOINTS = [
    "training.steps=8", "training.checkpoint_every=4", "training.evaluate_every=3",
    "training.patience=0",
]  # fmt: skip
PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
each_task = pytest.mark.parametrize("name", NAMES)
each_place = pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name in NAMES for place in TOYS[name].places]
)
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
        options = {"place": most(name), "report": stop_at(7)}
        with pytest.raises(KeyboardInterrupt):
            train_toy(name, data_of(name), output, tiny, *CHECKPOINTS, **options)
        return output

    return stopped_of


def most(name):
    """Where ELMo joins in as many places as the task allows."""
    return TOYS[name].places[-1]


def least(name, tiny):
    """No ELMo, if the task can do without."""
    return None if "nowhere" in TOYS[name].places else tiny


def plain(found):
    """A result with lists in place of tensors, which can be compared."""
    if isinstance(found, list | tuple):
        return [plain(each) for each in found]
    return found.tolist() if isinstance(found, torch.Tensor) else found


def near(result):
    """A result as JSON; of a vector, numbers that differ by rounding are equal."""
    found = to_json(result)
    is_vector = isinstance(found, list) and found and isinstance(found[0], float)
    return pytest.approx(found, abs=1e-6) if is_vector else found


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


@each_task
def test_a_run_can_be_shared_in_eight_bits(run_of, data_of, tiny, tmp_path, monkeypatch, name):
    run = run_of(name, most(name))
    monkeypatch.setattr("relmo.tasks.released.SMALL", 1)  # a toy has only small matrices
    export_task(run, tmp_path / "shared", About(name="toy"), storage="int8", elmo=tiny)
    whole, shared = (load_task(f, elmo=tiny, device="cpu") for f in (run, tmp_path / "shared"))
    before = whole.model.state_dict()
    assert any(tensor.dtype == torch.int8 for tensor in weights(tmp_path / "shared").values())
    for key, tensor in shared.model.state_dict().items():
        error = (tensor - before[key]).abs()
        assert torch.all(error <= before[key].abs().max() / 200), key
    examples = read_parts(name, data_of(name))["test"]
    assert shared.score_on(examples).keys() == whole.score_on(examples).keys()
    sizes = describe_task(tmp_path / "shared")["parts"]
    assert 0 < sizes["word vectors"] < sizes["network"] + sizes["word vectors"]


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
    known = fields(find_task(name).settings_type)[0].name
    typo = f"{known[:-2]}{known[-1]}{known[-2]}"
    with pytest.raises(ConfigError, match=f"unknown key '{typo}'; did you mean '{known}'"):
        load_task_recipe(name, None, [f"model.{typo}=0.1"])


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


@each_place
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


@each_place
def test_a_loaded_model_predicts_what_the_trained_one_did(run_of, data_of, tiny, name, place):
    folder = run_of(name, place)
    test = read_parts(name, data_of(name))["test"]
    task = load_task(folder, elmo=tiny, device="cpu")
    results = read_record(folder / "run.json")["results"]
    found = {f"test_{k}": v for k, v in task.score_on(test).items()}
    assert found == pytest.approx({k: results[k] for k in found})
    again = load_task(folder, elmo=tiny, device="cpu")
    assert plain(task.predict(test)) == plain(again.predict(test))


@each_task
def test_neighbours_and_order_do_not_change_a_prediction(run_of, data_of, tiny, name):
    test = read_parts(name, data_of(name))["test"]
    task = load_task(run_of(name, most(name)), elmo=tiny, device="cpu")
    together = task.predict(test)
    alone, back = [task.predict([example])[0] for example in test], task.predict(test[::-1])
    if name == "encoder":  # numbers, which rounding may change
        alone, back, together = (torch.tensor(plain(each)) for each in (alone, back, together))
        torch.testing.assert_close(alone, together, atol=1e-6, rtol=0)
        torch.testing.assert_close(back.flip(0), together, atol=1e-6, rtol=0)
    else:
        assert alone == together
        assert back == together[::-1]
    assert task.predict([]) == []


@each_task
def test_errors_are_what_the_scores_miss(run_of, data_of, tiny, name):
    test = read_parts(name, data_of(name))["test"]
    task = load_task(run_of(name, most(name)), elmo=tiny, device="cpu")
    errors, score = task.errors(test), task.score_on(test)[task.score.removeprefix("dev_")]
    assert bool(errors) == (score < 100)
    for error in errors:
        assert 1 <= error.example <= len(test)
        assert error.gold != error.predicted
        assert (error.score is None) == (error.predicted == "")
        assert 0 <= error.start <= error.end <= len(error.text)
    found = summary(errors, task.label_counts(test), most=3)
    assert found["count"] == len(errors)
    assert len(found["examples"]) == min(len(errors), 3)
    assert json.loads(json.dumps(found)) == found


def places_in(result):
    """(text, start, end) of everything in a result that has a place."""
    if hasattr(result, "start"):
        yield result.text, result.start, result.end
    inner = result if isinstance(result, list | tuple) else ()
    for name in ("predicate", "arguments", "mentions"):
        inner = [*inner, getattr(result, name)] if hasattr(result, name) else inner
    for each in inner:
        yield from places_in(each)


def leaves(value):
    """The strings, numbers and nulls of JSON, in order."""
    if not isinstance(value, list | dict):
        yield value
        return
    for each in value.values() if isinstance(value, dict) else value:
        yield from leaves(each)


def scores_of(result):
    if hasattr(result, "score"):
        yield result.score
    for each in result if isinstance(result, list | tuple) else ():
        yield from scores_of(each)


@pytest.fixture(scope="module")
def predictor_of(run_of, tiny):
    """Task -> its trained model, ready to be called."""

    @cache
    def predictor_of(name):
        found = load(run_of(name, "input"), elmo=tiny, device="cpu")
        if name == "squad":
            found.task.threshold = 0.0
        if name == "srl":
            found.task.net.finder.to_odds.bias.fill_(10)  # all words are predicates
        return found

    return predictor_of


TEXTS = [
    " Ada  Sol runs in Oslo.\n\nThe fox saw\ther 😀. It sleeps.",
    "ada inc in rome",
    "",
    " \n\t",
    "שלום " + "x" * 400 + " e\u0301!",
]


@each_task
def test_a_text_is_answered_with_places_scores_and_json(predictor_of, name):
    predictor = predictor_of(name)
    pair = len(predictor.task.text_names) == 2
    inputs = [("where is ada?", text) if pair else text for text in TEXTS]
    together = predictor(inputs)
    for asked, text, result in zip(inputs, TEXTS, together, strict=True):
        for found, start, end in places_in(result):
            assert text[start:end] == found != ""
        assert all(0 <= score <= 1 for score in scores_of(result))
        assert json.loads(json.dumps(to_json(result))) is not None or result is None
        assert isinstance(render(result, text), str)
        alone = predictor(*asked) if pair else predictor(asked)
        assert to_json(alone) == near(result)
    assert all(not found for found in together[2:4])  # there is nothing to say of no words


@each_task
def test_a_server_answers_as_the_model_does_and_as_it_is_described(predictor_of, tiny, name):
    pytest.importorskip("fastapi", reason=EXTRA)
    pytest.importorskip("httpx", reason=EXTRA)
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="pip install schemathesis")
    from fastapi.testclient import TestClient

    from relmo.serve.app import create_app
    from relmo.serve.task_models import LoadedTask

    predictor = predictor_of(name)
    *others, last = predictor.task.text_names
    inputs = [{**dict.fromkeys(others, "where is ada?"), last: text} for text in TEXTS]
    served = Predictor(predictor.task, name)
    with TestClient(create_app(tiny, tasks=[LoadedTask(served, name)])) as client:
        answer = client.post(f"/predict/{name}", json={"inputs": inputs})
        described = client.get("/openapi.json").json()
        (listed,) = client.get("/tasks").json()["tasks"]
    assert answer.status_code == 200, answer.text
    wanted = [predictor.answer([tuple(each.values())])[0] for each in inputs]
    for found, alone in zip(answer.json()["results"], wanted, strict=True):
        assert list(leaves(found)) == pytest.approx(list(leaves(to_json(alone))), abs=1e-5)
    (response,) = described["paths"][f"/predict/{name}"]["post"]["responses"]["200"][
        "content"
    ].values()
    schema = {**response["schema"], "components": described["components"]}
    has_type = schema["$ref"] != "#/components/schemas/Predictions"
    assert has_type == predictor.task.has_scores
    for body in (answer.json(), *([response["example"]] if has_type else ())):
        jsonschema_rs.validator_for(schema).validate(body)
    assert (listed["task"], listed["texts"]) == (name, list(predictor.task.text_names))
    assert {each for each in leaves(answer.json()["results"]) if each in listed["labels"]} or (
        name in ("squad", "coref", "encoder")
    )


@each_task
@settings(max_examples=20, deadline=None)
@given(text=st.text(max_size=60))
def test_offsets_are_those_of_any_text(predictor_of, name, text):
    predictor = predictor_of(name)
    is_pair = len(predictor.task.text_names) == 2
    result = predictor("where is ada?", text) if is_pair else predictor(text)
    for found, start, end in places_in(result):
        assert text[start:end] == found != ""


@each_task
def test_a_stream_is_answered_as_it_comes(predictor_of, name):
    predictor = predictor_of(name)
    pair = len(predictor.task.text_names) == 2
    asked = []

    def texts():
        for number in range(600):
            asked.append(number)
            yield ("who?", f"ada {number}") if pair else f"ada {number}"

    found = predictor(texts())
    next(found)
    assert len(asked) < 300
    assert len(list(found)) == 599
    assert predictor([]) == []


@each_task
def test_what_is_no_text_is_refused(predictor_of, name):
    with pytest.raises(TextError, match="expected a (string|pair of strings)"):
        predictor_of(name)([7])


@each_task
def test_scores_are_calibrated_when_training_ends(run_of, name):
    folder = run_of(name, "input")
    if not find_task(name).has_scores:
        assert not TaskCard.read(folder).calibration
        return
    assert TaskCard.read(folder).calibration["temperature"] > 0
    found = read_record(folder / "run.json")["results"]["test_calibration_error"]
    assert 0 <= found <= 1


@each_task
def test_another_elmo_than_the_one_it_was_trained_with_is_refused(run_of, name):
    other = Elmo.untrained(tiny_config(), seed=2)
    with pytest.raises(ConfigError, match="was trained with another tiny; give that model"):
        load_task(run_of(name, "input"), elmo=other, device="cpu")


@each_task
def test_the_bilm_can_be_trained_too(tmp_path, data_of, tiny, name):
    fine = ["input.finetune=true", "training.epochs=1"]
    before = tiny.fingerprint()
    scores = train_toy(name, data_of(name), tmp_path / "run", tiny, *fine, place=most(name))
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
    options = {"place": most(name)}
    train_toy(name, data_of(name), whole, tiny, *CHECKPOINTS, **options)
    train_toy(name, data_of(name), stopped, tiny, *CHECKPOINTS, **options, resume=True)
    assert lines(stopped) == lines(whole)
    assert same(weights(stopped), weights(whole))
    last = "checkpoint/step-000000008/tensors.safetensors"
    assert same(load_file(stopped / last), load_file(whole / last))


@each_task
def test_a_run_stopped_before_its_first_score_says_so(tmp_path, data_of, tiny, name):
    elmo = least(name, tiny)
    with pytest.raises(KeyboardInterrupt):
        train_toy(name, data_of(name), tmp_path / "run", elmo, report=stop_at(1))
    with pytest.raises(WeightError, match="has no scores yet; continue training"):
        load_task(tmp_path / "run", elmo=elmo, device="cpu")


@each_task
def test_a_finished_run_is_not_written_over(run_of, data_of, tiny, name):
    folder = run_of(name, TOYS[name].places[0])
    with pytest.raises(ConfigError, match="contains a finished run; choose another folder"):
        train_toy(name, data_of(name), folder, least(name, tiny))


@each_task
def test_the_seed_decides_a_run(tmp_path, data_of, tiny, name):
    for output, seed in {"one": 1, "again": 1, "other": 2}.items():
        seeded = ["training.steps=2", f"training.seed={seed}"]
        train_toy(name, data_of(name), tmp_path / output, least(name, tiny), *seeded)
    one, again, other = (weights(tmp_path / output) for output in ("one", "again", "other"))
    assert same(one, again)
    assert not same(one, other)
