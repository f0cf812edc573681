"""Train, keep and take up a task's model: files, fine-tuning, resuming, what is refused."""

import copy
import hashlib
import json
import lzma
import os
import shutil
from functools import partial

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from relmo import Elmo
from relmo.errors import (
    ConfigError,
    DataError,
    ModelNotFound,
    OutputError,
    RelmoError,
    WeightError,
)
from relmo.tasks import run as run_module
from relmo.tasks.ner.data import TaggedSentence
from relmo.tasks.ner.task import NerTask
from relmo.tasks.predictor import load
from relmo.tasks.registry import read_parts
from relmo.tasks.results import Entity
from relmo.tasks.run import (
    TaskCard,
    draw,
    load_task,
    load_task_recipe,
    make_task_recipe,
    train_task,
)
from relmo.tasks.sources import Source
from relmo.training.run import read_record
from tests.conftest import tiny_config
from tests.support.toy_tasks import TOYS, toy_recipe, train_toy

train = partial(train_toy, "ner")
SHORT = "training.epochs=1"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return TOYS["ner"].write_parts(tmp_path_factory.mktemp("ner"), 24, 8)


@pytest.fixture(scope="module")
def elmo_folder(tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp("elmo") / "mine"
    tiny.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def baseline(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("baseline") / "run"
    train(data, folder, None, SHORT)
    return folder


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "v.txt.xz"
    text = "".join(f"{w} {i} 0.5 -1\n" for i, w in enumerate(["ada", "in", "rome", "zebra"]))
    path.write_bytes(lzma.compress(text.encode()))
    return path


def copy_of(data, folder, **changes):
    """The data with the text of some parts replaced."""
    shutil.copytree(data, folder)
    for part, text in changes.items():
        (folder / f"{part}.txt").write_text(text, encoding="utf-8")
    return folder


def interrupt(line):
    if "dev_f1" in line:
        raise KeyboardInterrupt


# ── what a run leaves ───────────────────────────────────────────────────────────────────────


def test_the_record_names_all_that_a_run_was_made_of(data, vectors, tiny, tmp_path):
    scores = train(data, tmp_path, tiny, SHORT, vectors=vectors)
    record = read_record(tmp_path / "run.json")
    for part, count in {"train": 24, "dev": 8, "test": 8}.items():
        content = (data / f"{part}.txt").read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        assert record["data"]["files"][part] == {"name": f"{part}.txt", "sha256": sha256}
        assert record["data"][part] == count
    sha256 = hashlib.sha256(vectors.read_bytes()).hexdigest()
    assert record["vectors"] == {"name": "v.txt.xz", "sha256": sha256, "words": 3, "width": 3}
    assert record["elmo"] == {"name": "tiny", "fingerprint": tiny.fingerprint()}
    assert record["results"] == scores
    assert record["best_step"] <= record["steps"] == 3
    assert str(tmp_path) not in (tmp_path / "run.json").read_text()


def test_the_record_shows_how_the_score_went(data, tmp_path):
    scores = train(data, tmp_path, None, "training.epochs=2")
    curve = read_record(tmp_path / "run.json")["curve"]
    assert curve["step"] == [3, 6]
    assert max(curve["dev_f1"]) == pytest.approx(scores["dev_f1"], abs=1e-4)


def test_a_share_of_the_training_examples_is_drawn_by_the_seed(data, tiny, tmp_path):
    records = []
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        changes = SHORT, "batch.share=0.25", f"training.seed={seed}"
        train(data, tmp_path / name, tiny, *changes, cache=tmp_path / "cache")
        records.append(read_record(tmp_path / name / "run.json"))
    assert {(r["data"]["train"], r["data"]["dev"], r["data"]["share"]) for r in records} == {
        (6, 8, 0.25)
    }
    assert len(list((tmp_path / "cache").glob("*/layers.npy"))) == 1, "of all examples, once"
    examples = read_parts("ner", data)["train"]
    one, same, other = (draw(examples, 0.25, seed) for seed in (0, 0, 1))
    assert one == same != other
    assert draw(examples, 1e-9, 0) == draw(examples, 1e-9, 0)[:1]
    assert draw(examples, 1.0, 5) == examples


def test_a_baseline_s_record_has_neither_elmo_nor_vectors(baseline):
    record = read_record(baseline / "run.json")
    assert (record["elmo"], record["vectors"], record["cache"]) == (None, None, None)
    assert record["mixes"] == {}
    assert record["recipe"]["input"]["tune_static"] is True


def test_a_missing_test_part_leaves_its_scores_out(data, tmp_path):
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "data" / "test.txt").unlink()
    scores = train(tmp_path / "data", tmp_path / "run", None, SHORT)
    assert {name.partition("_")[0] for name in scores} == {"dev"}


def test_a_model_knows_its_letters_from_training_alone(data, tmp_path):
    odd = copy_of(data, tmp_path / "data", test="ж B-PER\n\nin O\n")
    train(odd, tmp_path / "run", None, SHORT)
    letters = json.loads((tmp_path / "run" / "task.json").read_text())["letters"]
    assert "a" in letters
    assert "ж" not in letters


@pytest.mark.parametrize("word", ["a\rb", "a\u2028b", "a\x85b", "\ud83d", "a\x00b", '"', "naïve"])
def test_odd_words_come_back_with_their_vectors(data, tmp_path, monkeypatch, word):
    read = NerTask.read

    def with_odd_words(path, part):
        found = read(path, part)
        return [type(s)((word, *s.words[1:]), s.tags) for s in found]

    monkeypatch.setattr(NerTask, "read", with_odd_words)
    train(data, tmp_path, None, "training.steps=1")
    task = load_task(tmp_path, device="cpu")
    assert word in task.inputs.static.words
    assert set(word) <= set(task.inputs.letters.characters)
    weights = load_file(tmp_path / "best.safetensors")["tokens.static.weight"]
    assert len(weights) == len(task.inputs.static.words) + 2


def test_vectors_from_a_file_may_stay_as_they_are(data, vectors, tmp_path):
    train(data, tmp_path, None, SHORT, "input.tune_static=false", vectors=vectors)
    task = load_task(tmp_path, device="cpu")
    row = task.inputs.static.rows(["rome"])[0]
    assert task.net.tokens.static.weight[row].tolist() == [2, 0.5, -1]
    assert task.inputs.static.rows(["zebra"])[0] == 1  # not in the data


def test_output_embeddings_are_read_again_from_the_elmo_model(data, tmp_path, tiny_lm):
    changes = ("input.output_embeddings=true", "input.random_width=0")
    scores = train(data, tmp_path / "run", tiny_lm, SHORT, *changes)
    task = load_task(tmp_path / "run", elmo=tiny_lm)
    assert task.inputs.output.width == 8
    assert task.score_on(task.read(data / "test.txt", "test"))["f1"] == scores["test_f1"]
    with pytest.raises(ConfigError, match="needs an ELMo model"):
        train(data, tmp_path / "baseline", None, SHORT, *changes)


def test_words_of_the_test_part_alone_have_no_vector_if_the_first_ones_of_a_file_are_kept(
    data, vectors, tmp_path
):
    changed = copy_of(data, tmp_path / "data", test="Ada B-PER\nzebra O\n")
    train(changed, tmp_path / "all", None, SHORT, vectors=vectors)
    assert "zebra" in TaskCard.read(tmp_path / "all").words
    train(changed, tmp_path / "first", None, SHORT, "input.static_words=1", vectors=vectors)
    assert TaskCard.read(tmp_path / "first").words == ["ada", "in", "rome"]


def test_a_trained_task_reads_in_the_precision_that_is_asked_for(data, tmp_path, tiny):
    train(data, tmp_path, tiny, "training.steps=1")
    for precision in ("float32", "int8"):
        elmo = copy.deepcopy(tiny)
        load_task(tmp_path, elmo=elmo, device="cpu", precision=precision)
        assert elmo.precision == precision


def test_tags_that_mark_no_entities_are_chosen_by_accuracy(data, tmp_path):
    plain = copy_of(data, tmp_path / "data")
    for file in plain.iterdir():
        file.write_text(file.read_text().replace("B-", "").replace("I-", ""))
    scores = train(plain, tmp_path / "run", None, SHORT)
    assert scores.keys() == {"dev_accuracy", "test_accuracy", "test_calibration_error"}
    ada, _ = load(tmp_path / "run", device="cpu")("ada in")
    assert (ada.text, ada.start, ada.end) == ("ada", 0, 3)
    assert ada.tag in ("PER", "LOC", "ORG", "O")
    assert 0 < ada.score <= 1


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_a_mistyped_tag_is_named_by_file_and_line(data, tmp_path, part):
    odd = copy_of(data, tmp_path / "data")
    (file,) = odd.glob(f"*{part}*")
    lines = file.read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(lines) if "B-" in line)
    lines[number] = lines[number].replace("B-", "B_")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"{file.name}, line {number + 1}: 'B_.*not a chunk tag"):
        train(odd, tmp_path / "run", None, SHORT)
    assert not (tmp_path / "run").exists()


def test_a_part_with_tags_of_another_kind_than_training_s_is_named(data, tmp_path):
    odd = copy_of(data, tmp_path / "data", dev="in O\nada NN\nsang VB\n")
    with pytest.raises(
        DataError, match="line 2: 'NN' is not a chunk tag, but those of the training"
    ):
        train(odd, tmp_path / "run", None, SHORT)


def test_pos_takes_any_tags(data, tmp_path):
    odd = copy_of(data, tmp_path / "data", dev="in O\nada B_PER\n")
    recipe = load_task_recipe("pos", None, [SHORT])
    scores = train_task("pos", recipe, odd, tmp_path / "run", device="cpu")
    assert scores.keys() == {"dev_accuracy", "test_accuracy", "test_calibration_error"}


def test_a_label_that_training_did_not_have_counts_as_wrong(baseline, data, tmp_path):
    task = load_task(baseline, device="cpu")
    (tmp_path / "odd.txt").write_text("ada B-GOD\nin O\n\nada B-GOD\n", encoding="utf-8")
    found = task.score_on(task.read(tmp_path / "odd.txt", "test"))
    assert found["f1"] == found["recall"] == 0
    other = copy_of(data, tmp_path / "data", dev="ada B-GOD\nin O\n")
    assert train(other, tmp_path / "run", None, SHORT)["dev_f1"] == 0


# ── fine-tuning ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory, data):
    """A run that trained its biLM, its scores, and the model that was handed in."""
    folder = tmp_path_factory.mktemp("finetuned") / "run"
    elmo = Elmo.untrained(tiny_config(), seed=1)
    scores = train(data, folder, elmo, "training.epochs=2", "input.finetune=true")
    return folder, scores, elmo


def test_finetuning_trains_a_copy_of_the_bilm(finetuned, tiny):
    folder, _, elmo = finetuned
    assert elmo.fingerprint() == tiny.fingerprint()
    assert not any(p.requires_grad for p in elmo.bilm.parameters())
    saved = load_file(folder / "best.safetensors")
    begun = {f"bilm.{name}": tensor for name, tensor in tiny.bilm.state_dict().items()}
    assert begun.keys() <= saved.keys()
    moved = [name for name in begun if not torch.equal(saved[name], begun[name])]
    assert len(moved) > len(begun) / 2
    assert read_record(folder / "run.json")["elmo"]["fingerprint"] == tiny.fingerprint()
    count = sum(p.numel() for p in tiny.bilm.parameters())
    assert read_record(folder / "run.json")["parameters"] > count
    assert not (folder / "cache").exists()


def test_a_finetuned_bilm_is_taken_up_again(finetuned, data, tiny):
    folder, scores, _ = finetuned
    before = tiny.fingerprint()
    task = load_task(folder, elmo=tiny, device="cpu")
    assert tiny.fingerprint() == before
    saved = load_file(folder / "best.safetensors")
    bilm = task.net.tokens.elmo.bilm
    for name, tensor in bilm.state_dict().items():
        assert torch.equal(tensor, saved[f"bilm.{name}"])
    words = [("ada", "inc"), ("in", "rome")]
    layers = task.inputs.elmo.read(words).values
    assert not torch.allclose(layers, load_frozen(tiny, words), atol=1e-3)
    with torch.no_grad():
        own = bilm(tiny.runtime.batch(words))[0].values[:, :, 1:-1]
    torch.testing.assert_close(layers, own, atol=1e-5, rtol=1e-4)
    found = task.score_on(read_parts("ner", data)["test"])
    assert {f"test_{k}": v for k, v in found.items()}.items() <= scores.items()


def test_a_finetuned_run_reads_in_the_precision_that_is_asked_for(finetuned, tiny):
    words = [("ada", "inc"), ("in", "rome")]
    read = {}
    for precision in ("float32", "int8"):
        task = load_task(finetuned[0], elmo=copy.deepcopy(tiny), device="cpu", precision=precision)
        read[precision] = task.inputs.elmo.read(words).values
    assert not torch.equal(read["float32"], read["int8"])
    torch.testing.assert_close(read["float32"], read["int8"], atol=0.05, rtol=0.05)


def load_frozen(elmo, words):
    return elmo.runtime.layers(words)[0].values[:, :, 1:-1]


def test_a_finetuned_run_goes_on_to_the_bit(data, tmp_path):
    changes = ["training.steps=4", "training.checkpoint_every=1", "input.finetune=true"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train(data, whole, Elmo.untrained(tiny_config(), seed=1), *changes)
    with pytest.raises(KeyboardInterrupt):
        train(data, stopped, Elmo.untrained(tiny_config(), seed=1), *changes, report=interrupt)
    train(data, stopped, Elmo.untrained(tiny_config(), seed=1), *changes, resume=True)
    one, two = (load_file(folder / "best.safetensors") for folder in (whole, stopped))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_frozen_bilm_stays_as_it_is_and_is_not_saved(data, tiny, tmp_path):
    before = tiny.fingerprint()
    train(data, tmp_path, tiny, SHORT, place="both")
    assert tiny.fingerprint() == before
    assert not any("bilm" in name for name in load_file(tmp_path / "best.safetensors"))


# ── finding the model again ─────────────────────────────────────────────────────────────────


def test_a_model_given_as_a_folder_is_found_there_again(data, elmo_folder, tmp_path, tiny):
    scores = train(data, tmp_path, str(elmo_folder), SHORT)
    found = load_task(tmp_path, device="cpu").score_on(read_parts("ner", data)["test"])
    assert {f"test_{k}": v for k, v in found.items()}.items() <= scores.items()
    assert load_task(tmp_path, elmo=elmo_folder, device="cpu")
    with pytest.raises(ConfigError, match="was trained with another tiny; give that model"):
        load_task(tmp_path, elmo=Elmo.untrained(tiny_config(), seed=2), device="cpu")


def test_a_model_that_is_gone_can_be_given(data, tiny, tmp_path):
    train(data, tmp_path, tiny, SHORT)
    with pytest.raises(ModelNotFound, match="needs tiny; give it with --elmo"):
        load_task(tmp_path, device="cpu")
    assert load_task(tmp_path, elmo=tiny, device="cpu")


def test_loading_draws_no_weights(baseline):
    before = torch.get_rng_state()
    load_task(baseline, device="cpu")
    assert torch.equal(torch.get_rng_state(), before), "all of them come from the file"


def test_a_path_may_be_a_string(data, vectors, tmp_path):
    recipe = toy_recipe("ner", SHORT)
    options = {"vectors": str(vectors), "cache": str(tmp_path / "c"), "device": "cpu"}
    scores = train_task("ner", recipe, str(data), str(tmp_path / "run"), **options)
    found = load_task(str(tmp_path / "run"), device="cpu")
    assert found.score_on(read_parts("ner", Source(str(data)))["test"])["f1"] == scores["test_f1"]


def test_a_folder_that_is_no_run_says_so(tmp_path, baseline):
    with pytest.raises(
        ModelNotFound, match=r"is not the folder of a task's run: it has no task\.json"
    ):
        load_task(tmp_path, device="cpu")
    shutil.copytree(baseline, tmp_path / "run")
    (tmp_path / "run" / "words.json").unlink()
    with pytest.raises(WeightError, match=r"words\.json missing; copy it again"):
        load_task(tmp_path / "run", device="cpu")
    (tmp_path / "run" / "task.json").write_text("{}")
    with pytest.raises(WeightError, match=r"elmo, facts, letters, .* missing; copy it again"):
        load_task(tmp_path / "run", device="cpu")


@pytest.mark.parametrize("value", [10**6, 10**9, 2**70])
@pytest.mark.parametrize("key", ["num_layers", "cell_width", "static_width"])
def test_sizes_that_no_weight_has_are_refused_before_anything_is_built(
    baseline, tmp_path, key, value
):
    shutil.copytree(baseline, tmp_path / "run")
    path = tmp_path / "run" / "task.json"
    card = json.loads(path.read_text())
    del card["seal"]
    home = card if key == "static_width" else card["recipe"]["model"]
    home[key] = value
    path.write_text(json.dumps(card))
    what = f"{key} must be|has the shape .*, expected .*000|is damaged"
    with pytest.raises((ConfigError, WeightError), match=what):
        load_task(tmp_path / "run", device="cpu")


@pytest.mark.parametrize("name", ["task.json", "words.json"])
def test_one_flipped_bit_in_a_card_is_noticed(baseline, tmp_path, name):
    path = tmp_path / "run" / name
    for place in range(0, (baseline / name).stat().st_size, 37):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(baseline, tmp_path / "run")
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        try:
            found = TaskCard.read(tmp_path / "run")
        except RelmoError:
            continue
        assert found == TaskCard.read(baseline)  # white space


@pytest.mark.parametrize("other", [torch.zeros(0, 3_000_000_000), torch.zeros(1, 20_000)])
def test_another_tensor_of_any_size_vouches_for_nothing(baseline, tmp_path, monkeypatch, other):
    devices, make_task = [], run_module._make_task

    def build(*args):
        devices.append(args[4].type)
        return make_task(*args)

    monkeypatch.setattr(run_module, "_make_task", build)
    shutil.copytree(baseline, tmp_path / "run")
    path, weights = tmp_path / "run" / "task.json", tmp_path / "run" / "best.safetensors"
    with safe_open(weights, "pt") as file:
        tensors, metadata = {n: file.get_tensor(n) for n in file.keys()}, file.metadata()  # noqa: SIM118
    name = next(name for name in tensors if "bias" in name)
    save_file({**tensors, name: other}, weights, metadata)
    card = json.loads(path.read_text())
    del card["seal"]
    for home, key in ((card["recipe"]["model"], "cell_width"), (card, "static_width")):
        home[key] = 20_000
        path.write_text(json.dumps(card))
        with pytest.raises(WeightError, match="has the shape"):
            load_task(tmp_path / "run", device="cpu")
        home[key] = 10
    assert devices == ["meta", "meta"]  # nothing that takes memory was built


@pytest.mark.parametrize(
    "change",
    [
        {"task": ["ner"]}, {"recipe": []}, {"facts": []}, {"facts": {}}, {"static_width": -5},
        {"static_width": "x"}, {"letters": 5}, {"letters": [5]}, {"elmo": "x"},
        {"elmo": {"name": 1}},
        {"facts": {"tags": None}}, {"facts": {"labels": [["a"], {}]}}, {"words": 1},
        {"facts": {"source": [1]}}, {"facts": {"source": {"columns": 5}}},
        {"facts": {"source": {"split": {"seed": "x"}}}},
        {"facts": {"tags": ["O", "O"]}}, {"words": ["a", "a"]}, {"calibration": {"temperature": 0}},
        {"calibration": {"temperature": True}}, {"calibration": {"threshold": -1}},
    ],
    ids=str,
)  # fmt: skip
def test_a_card_that_says_nonsense_is_named(baseline, tmp_path, change):
    shutil.copytree(baseline, tmp_path / "run")
    path = tmp_path / "run" / "task.json"
    card = {**json.loads(path.read_text()), **change}
    del card["seal"]  # as whoever prepares a folder would
    path.write_text(json.dumps(card))
    with pytest.raises(WeightError, match=r"task\.json .* is damaged"):
        load_task(tmp_path / "run", device="cpu")


@pytest.mark.parametrize("text", ["[" * 100_000, "[1, 2]", '{"a": 1}', '"abc"', "\xe9", ""])
def test_words_that_are_no_list_of_words_are_named(baseline, tmp_path, text):
    shutil.copytree(baseline, tmp_path / "run")
    (tmp_path / "run" / "words.json").write_text(text, encoding="utf-8")
    with pytest.raises(WeightError, match=r"words\.json is damaged"):
        load_task(tmp_path / "run", device="cpu")


# ── stopped and resumed ─────────────────────────────────────────────────────────────────────


def test_an_interrupted_run_can_be_used(data, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path, None, "training.epochs=9", report=stop_after(2))
    assert not (tmp_path / "run.json").exists()
    seen = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    best = max(line["dev_f1"] for line in seen if "dev_f1" in line)
    found = load_task(tmp_path, device="cpu").score_on(read_parts("ner", data)["dev"])
    assert found["f1"] == pytest.approx(best)


def stop_after(count):
    left = [count]

    def report(line):
        left[0] -= "dev_f1" in line
        if not left[0] and "loss" in line:
            raise KeyboardInterrupt

    return report


CHECKPOINTS = "training.checkpoint_every=1"


def test_a_finished_run_is_not_trained_over(baseline, data, tmp_path):
    with pytest.raises(ConfigError, match="contains a finished run; choose another folder"):
        train(data, baseline, None, SHORT)
    shutil.copytree(baseline, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(ConfigError, match="finished run without a checkpoint to resume"):
        train(data, tmp_path, None, SHORT, resume=True)


def test_a_run_that_never_began_is_not_resumed(data, tmp_path):
    with pytest.raises(ConfigError, match="has no checkpoint to resume from: the run was never"):
        train(data, tmp_path / "run", None, SHORT, resume=True)
    assert not (tmp_path / "run").exists()


def test_a_second_run_in_the_same_folder_is_refused_at_once(data, tmp_path):
    refused = []

    def report(line):
        with pytest.raises(OutputError, match=f"process {os.getpid()} is writing to this folder"):
            train(data, tmp_path, None, SHORT)
        refused.append(line)

    train(data, tmp_path, None, SHORT, report=report)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == refused


def test_the_first_mean_loss_after_resuming_covers_the_steps_since_the_last(data, tmp_path):
    settings = ["training.steps=8", "training.log_every=4", "training.checkpoint_every=3"]
    train(data, tmp_path / "whole", None, *settings)

    def stop(line):
        if line["step"] == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "stopped", None, *settings, report=stop)
    train(data, tmp_path / "stopped", None, *settings, resume=True)  # from step 6
    found, wanted = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("stopped", "whole")
    )
    mean_losses = [
        [line["mean_loss"] for line in run if "mean_loss" in line] for run in (found, wanted)
    ]
    assert mean_losses[0] == mean_losses[1]
    assert len(mean_losses[0]) == 2


def test_a_finished_run_that_is_resumed_changes_nothing_and_can_be_made_longer(data, tmp_path):
    scores = train(data, tmp_path, None, SHORT, CHECKPOINTS)
    weights = (tmp_path / "best.safetensors").read_bytes()
    assert train(data, tmp_path, None, SHORT, CHECKPOINTS, resume=True) == scores
    assert (tmp_path / "best.safetensors").read_bytes() == weights
    assert read_record(tmp_path / "run.json")["steps"] == 3
    train(data, tmp_path, None, "training.epochs=2", CHECKPOINTS, resume=True)
    assert read_record(tmp_path / "run.json")["steps"] == 6


def test_the_weights_of_an_interrupted_run_are_not_trained_over(data, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path, None, "training.epochs=9", report=stop_after(1))
    weights = (tmp_path / "best.safetensors").read_bytes()
    for resume in (False, True):
        with pytest.raises(ConfigError, match="unfinished run without a checkpoint to resume"):
            train(data, tmp_path, None, SHORT, resume=resume)
    assert (tmp_path / "best.safetensors").read_bytes() == weights


def test_an_unfinished_run_is_refused_before_anything_is_written(data, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path, None, SHORT, CHECKPOINTS, report=interrupt)
    before = (tmp_path / "task.json").read_bytes()
    with pytest.raises(ConfigError, match="unfinished run; resume it with --resume, or"):
        train(data, tmp_path, None, "model.cell_width=4", CHECKPOINTS)
    assert (tmp_path / "task.json").read_bytes() == before


def test_a_run_is_resumed_only_with_what_it_began_with(data, vectors, tiny, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(data, run, None, SHORT, CHECKPOINTS, report=interrupt)
    other = copy_of(data, tmp_path / "other", dev="ada B-PER\nin O\n")
    for what, change in {
        "model": {"changes": ["model.cell_width=4"]},
        "batch": {"changes": ["batch.size=4"]},
        "seed": {"changes": ["training.seed=3"]},
        "input": {"changes": ["input.dropout=0.4"]},
        "data": {"data": other},
        "elmo": {"elmo": tiny},
        "vectors": {"vectors": vectors},
    }.items():
        given = {"data": data, "elmo": None, "vectors": None, "changes": [], **change}
        with pytest.raises(ConfigError, match=rf"different settings \({what}\); resume with"):
            train(
                given["data"], run, given["elmo"], SHORT, CHECKPOINTS, *given["changes"],
                vectors=given["vectors"], resume=True,
            )  # fmt: skip
    train(data, run, None, "training.epochs=2", CHECKPOINTS, resume=True)
    assert read_record(run / "run.json")["steps"] == 6


def test_a_run_that_began_before_there_was_a_setting_had_its_default(data, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path, None, SHORT, CHECKPOINTS, "input.l2=0.001", report=interrupt)
    path = tmp_path / "checkpoint" / "course.json"
    course = json.loads(path.read_text())
    del course["input"]["l2"]
    path.write_text(json.dumps(course))
    with pytest.raises(ConfigError, match=r"the original ones \(input.l2 0.001\), or choose"):
        train(data, tmp_path, None, SHORT, CHECKPOINTS, "input.l2=0.1", resume=True)
    train(data, tmp_path, None, "training.epochs=2", CHECKPOINTS, "input.l2=0.001", resume=True)
    assert read_record(tmp_path / "run.json")["steps"] == 6


# ── refused ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("trainning.epochs=3", "unknown key 'trainning'; did you mean 'training'"),
        ("input.plaec=both", "input: unknown key 'plaec'; did you mean 'place'"),
        ("batch.sise=3", "batch: unknown key 'sise'; did you mean 'size'"),
        ("model=3", "model: expected an object with settings, got 3"),
        ("training.epochs=-1", "training: epochs must be a number > 0 or unset, got -1"),
        ("input.finetune=yes", "finetune must be true or false, got 'yes'"),
        ("training.steps=ten", "training: steps must be an integer ≥ 1 or unset, got 'ten'"),
        ("training.epochs=true", "training: epochs must be a number > 0 or unset, got True"),
        ("optimizer.learning_rate=low", "learning_rate must be a number > 0, got 'low'"),
        ("model.cell_width=0", "model: cell_width must be an integer ≥ 1, got 0"),
        ("model.dropout=3", "model: dropout must be a number ≥ 0 and < 1, got 3"),
        ("training.steps", "expected section.key=value, for example training.seed=1"),
    ],
)
def test_a_recipe_with_a_slip_is_refused(change, what):
    with pytest.raises(ConfigError, match=what):
        load_task_recipe("ner", None, [change])


def test_a_recipe_comes_from_a_file_or_from_the_package(tmp_path):
    (tmp_path / "own.toml").write_text("[training]\nsteps = 5\n[model]\ncell_width = 7\n")
    recipe = load_task_recipe("ner", tmp_path / "own.toml", ["training.minutes=2"])
    assert (recipe.training.steps, recipe.training.minutes) == (None, 2)
    assert recipe.model.cell_width == 7
    assert load_task_recipe("ner") == load_task_recipe("ner", "ner")
    with pytest.raises(ConfigError, match="no recipe 'nerr'; give a TOML file or one of"):
        load_task_recipe("ner", "nerr")
    with pytest.raises(ConfigError, match=r"there: unknown key 'x'"):
        make_task_recipe("ner", {"x": 1}, "there")


def test_a_task_that_there_is_not_is_named():
    with pytest.raises(ConfigError, match="unknown task 'nerd'; did you mean 'ner'"):
        load_task_recipe("nerd")


@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_part_without_examples_is_refused(data, tmp_path, monkeypatch, part):
    read = NerTask.read
    monkeypatch.setattr(NerTask, "read", lambda path, p: [] if p == part else read(path, p))
    with pytest.raises(ConfigError, match=f"the {part} part contains no examples"):
        train(data, tmp_path / "run")


def test_a_bound_that_leaves_no_example_is_refused(data, tmp_path):
    with pytest.raises(
        ConfigError, match="all training examples are longer than batch.max_length = 1"
    ):
        train(data, tmp_path / "run", None, "batch.max_length=1")


def test_a_full_gpu_is_a_named_error(data, tmp_path, monkeypatch):
    def fail(self, examples):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(NerTask, "batch_loss", fail)
    with pytest.raises(ConfigError, match="batches of 8 examples need more memory .* batch.size"):
        train(data, tmp_path)


def test_a_task_is_trained_by_one_process(data, tmp_path, monkeypatch):
    from relmo.tasks import run
    from relmo.training.distributed import World

    monkeypatch.setattr(run, "join_world", lambda _: World(0, 2))
    with pytest.raises(ConfigError, match="trained by one process; start one process per run"):
        train(data, tmp_path)


def test_entities_that_the_test_part_does_not_have_need_not_count(data, tmp_path):
    train(data, tmp_path / "run", None, SHORT, 'model.uncounted=["ORG"]')
    task = load_task(tmp_path / "run", device="cpu")
    example = TaggedSentence(("ada", "in", "rome", "inc"), ("S-PER", "O", "O", "O"))
    found = ("S-PER", "O", "B-ORG", "E-ORG")
    assert task.scores([example], [found])["f1"] == 100
    assert task.scores([example], [("O", "O", "B-LOC", "E-LOC")])["f1"] == 0
    firm, person = Entity("rome inc", "ORG", 7, 15, 0.9), Entity("in", "PER", 4, 6, 0.9)
    kinds = [error.label for error in task.errors_of(example, [firm, person])]
    assert sorted(kinds) == ["PER", "PER"]  # one missed, one spurious
