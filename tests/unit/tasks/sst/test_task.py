"""Text classification: what is read, what is learned, what does not change a prediction."""

import json
from itertools import pairwise

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from relmo.errors import ConfigError, TextError
from relmo.tasks.registry import read_parts
from relmo.tasks.run import load_task, load_task_recipe, train_task
from relmo.tasks.sst.data import LabelledText, windows
from relmo.tasks.sst.task import SstPhrasesTask, SstTask, binary_accuracy
from tests.support.toy_tasks import FILLERS, TOYS, Rng, opinion, train_toy, tree

SURE = [
    "model.dropout=0.0", "model.maxout_dropout=0.0", "input.dropout=0.0", "batch.size=32",
    "training.epochs=15",
]  # fmt: skip
"""A narrow model learns a clear rule best when nothing is dropped."""


def text(words, label=""):
    return LabelledText(tuple(words.split()), label)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return TOYS["sst"].write_parts(tmp_path_factory.mktemp("opinions"), 400, 100)


@pytest.fixture(scope="module", params=["baseline", "elmo"])
def run(request, tmp_path_factory, data, tiny):
    """(folder, scores, lines of metrics), without ELMo or with it in both places."""
    folder, seen = tmp_path_factory.mktemp("run") / "run", []
    elmo = None if request.param == "baseline" else tiny
    scores = train_toy("sst", data, folder, elmo, *SURE, place="both", report=seen.append)
    return folder, scores, seen


@pytest.fixture(scope="module")
def task(run, tiny):
    return load_task(run[0], elmo=tiny, device="cpu")


# ── learning ────────────────────────────────────────────────────────────────────────────────


def test_a_word_and_its_negation_are_learned(run):
    _, scores, _ = run
    assert scores["dev_accuracy"] >= 90
    assert scores["test_accuracy"] >= 90
    assert scores["test_macro_f1"] >= 90


def test_the_loss_falls(run):
    losses = [line["loss"] for line in run[2] if "loss" in line]
    fifth = len(losses) // 5
    means = [sum(losses[i : i + fifth]) / fifth for i in range(0, 5 * fifth, fifth)]
    assert all(after < before for before, after in pairwise(means))
    assert means[-1] < 0.5 * means[0]


def test_a_loaded_model_predicts_the_same(run, task, data):
    test = read_parts("sst", data)["test"]
    assert task.score_on(test)["accuracy"] == run[1]["test_accuracy"]
    assert task.predict([text("not great"), text("this film great")]) == ["0", "4"]


def test_labels_are_not_looked_at(task, data):
    test = read_parts("sst", data)["test"]
    assert task.predict([LabelledText(e.words, "") for e in test]) == task.predict(test)


# ── what does not change a prediction ───────────────────────────────────────────────────────


def scores_of(task, *texts):
    task.model.eval()
    with torch.no_grad():
        return task.net(task.inputs([each.words for each in texts]))


def test_padding_and_neighbours_do_not_change_scores(task):
    short, long = text("a film 😀"), text("the one naïve film " * 10)
    alone = scores_of(task, short)
    torch.testing.assert_close(scores_of(task, short, long)[:1], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(scores_of(task, long, short, long)[1:2], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("odd", ["", "x" * 400, "שלום 👩‍🚀 e\u0301", "unheard-of words"])
def test_odd_text_has_a_label(task, odd):
    assert task.predict([text(odd)])[0] in task.labels
    assert task.predict([text(odd), text("great")]) == [*task.predict([text(odd)]), "4"]


def test_bfloat16_scores_are_near_those_of_float32(task, data):
    test = read_parts("sst", data)["test"][:8]
    wanted = scores_of(task, *test).softmax(-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = scores_of(task, *test)
    torch.testing.assert_close(found.float().softmax(-1), wanted, atol=0.05, rtol=0)


# ── long texts ──────────────────────────────────────────────────────────────────────────────


class Largest(TorchDispatchMode):
    """Remembers the most values of any tensor that is made."""

    values = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, tuple | list) else [found]:
            if isinstance(each, torch.Tensor):
                self.values = max(self.values, each.numel())
        return found


def test_memory_grows_with_the_length_of_a_text_not_with_its_square(task):
    texts = [text(f"a film {word} . " * 1250) for word in ("great", "dull")]
    with Largest() as seen:
        assert task.predict(texts)[0] in task.labels
    assert seen.values < 2 * 5000 * 2 * 12 * 4 * 4  # a few values per word; 5000 * 5000 are more


@pytest.mark.slow
def test_long_texts_are_learned_from(tmp_path):
    rng, rows = Rng(0), ["text,label"]
    for row in range(60):
        words = rng.choices([*FILLERS, ("great", "dull")[row % 2]], k=rng.randint(130, 160))
        rows.append(f"{' '.join(words)},{row % 2}")
    (tmp_path / "a.csv").write_text("\n".join(rows), encoding="utf-8")
    changes = [*SURE[:3], "training.epochs=8"]
    scores = train_toy("classify", tmp_path / "a.csv", tmp_path / "run", None, *changes)
    assert scores["dev_accuracy"] == scores["test_accuracy"] == 100


def test_a_long_text_has_the_scores_of_all_its_windows(task):
    long, short = text("not great ! " * 60), text("a film")
    batch, counts = task.model_inputs([short, long, short])
    assert counts.tolist() == [1, 2, 1]
    with torch.no_grad():
        together = task.net(batch, counts)
        alone = task.net(*task.model_inputs([long]))
    torch.testing.assert_close(together[1:2], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(together[:1], scores_of(task, short), atol=1e-5, rtol=0)


def test_activations_that_are_computed_twice_give_the_same_gradients(task, monkeypatch):
    texts = [
        text("not great ! " * 60, "0"),
        text("a great film", "4"),
        text("so dull . " * 99, "0"),
    ]
    weights = [weight.requires_grad_() for weight in task.net.maxout.parameters()]
    weights += [weight.requires_grad_() for weight in task.net.integrator.parameters()]
    wanted = torch.autograd.grad(task.batch_loss(texts), weights)
    monkeypatch.setattr("relmo.tasks.sst.model.MAX_TOKENS", 256)
    found = torch.autograd.grad(task.batch_loss(texts), weights)
    task.model.requires_grad_(False)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("words", ["a b . c d ! e", "a " * 30, "", "a", "a b c . " * 9])
def test_windows_hold_all_words_and_end_where_sentences_do(words):
    whole = tuple(words.split())
    found = windows(whole, limit=4)
    assert sum(found, ()) == whole
    assert all(len(each) <= 4 for each in found)
    assert all(len(each) > 2 for each in found[:-1])
    if "c . " in words:
        assert all(each[-1] == "." for each in found)


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def test_phrases_are_learned_from_but_not_scored(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("(3 (2 It) (4 (3 shines) (2 .)))\n")
    assert SstTask.read(path, "train") == [text("It shines .", "3")]
    found = SstPhrasesTask.read(path, "train")
    assert [" ".join(e.words) for e in found] == ["It shines .", "It", "shines .", "shines", "."]
    assert SstPhrasesTask.read(path, "dev") == [text("It shines .", "3")]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_any_classes_of_a_table_can_be_learned(tmp_path, suffix):
    for seed, part in enumerate(["train", "dev", "test"]):
        rows = [
            (f"{' '.join(words)}.", f"class {y}") for words, y in map(opinion, 20 * [Rng(seed)])
        ]
        lines = [json.dumps({"label": y, "text": x}) for x, y in rows]
        if suffix != ".jsonl":
            mark = "," if suffix == ".csv" else "\t"
            lines = [mark.join(row) for row in [("text", "label"), *rows]]
        (tmp_path / f"my-{part}{suffix}").write_text("\n".join(lines), encoding="utf-8")
    train_toy("sst", tmp_path, tmp_path / "run", None, "training.epochs=1")
    task = load_task(tmp_path / "run", device="cpu")
    assert task.labels == ["class 0", "class 2", "class 4"]
    assert read_parts("sst", tmp_path)["dev"][0].words[-1] == "."
    assert task.score_on(read_parts("sst", tmp_path)["test"]).keys() == {"accuracy", "macro_f1"}


def test_sides_are_scored_where_the_labels_are_those_of_trees(tmp_path):
    for part in ("train", "dev", "test"):
        trees = [tree(["so", word], label) for word, label in zip("abcde", "01234", strict=True)]
        (tmp_path / f"{part}.txt").write_text("\n".join(trees))
    scores = train_toy("sst", tmp_path, tmp_path / "run", None, "training.epochs=1")
    assert {"dev_binary_accuracy", "test_binary_accuracy"} <= scores.keys()


def test_plain_text_is_split_and_answered(task):
    (example,) = task.read_input("It's not great.")
    assert example.words == ("It", "'s", "not", "great", ".")
    assert task.read_input(" \t") == []
    ((label,),) = task.answer([example])
    assert label.label == task.predict([example])[0] == next(iter(label.scores))
    assert label.score == max(label.scores.values())
    assert sum(label.scores.values()) == pytest.approx(1)


# ── scores ──────────────────────────────────────────────────────────────────────────────────


def test_binary_accuracy_looks_at_the_side_and_leaves_neutral_sentences_out():
    assert binary_accuracy(list("01342"), list("10430")) == 1.0
    assert binary_accuracy(list("0133"), list("4123")) == 0.5  # neutral for 3 is wrong
    assert binary_accuracy(["2"], ["2"]) == 0.0


def test_binary_accuracy_is_for_labels_of_trees():
    with pytest.raises(ConfigError, match="label 'positive' has no polarity"):
        binary_accuracy(["4"], ["positive"])
    with pytest.raises(TextError, match="expected 2 predicted labels, one for each, got 1"):
        binary_accuracy(["1", "0"], ["1"])


# ── settings ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change",
    ["dropout=1.0", "maxout_dropout=-0.1", "pieces=1.5", "reduction=0"],
)
def test_settings_that_make_no_sense_are_named(change):
    with pytest.raises(ConfigError, match=f"{change.partition('=')[0]} must be .*, got"):
        load_task_recipe("sst", None, [f"model.{change}"])


def test_a_norm_that_there_is_not_is_named():
    with pytest.raises(ConfigError, match="maxout_norm must be one of batch, layer, got 'none'"):
        load_task_recipe("sst", None, ["model.maxout_norm=none"])


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_width": 0},
        {"integrator_width": 0},
        {"maxout_layers": 1},
        {"pieces": 1},
        {"maxout_norm": "layer"},
    ],
)
def test_other_shapes_can_be_trained(tmp_path, data, tiny, changes):
    small = [f"model.{key}={value}" for key, value in changes.items()]
    train_toy("sst", data, tmp_path / "run", tiny, "training.steps=2", *small)
    assert load_task(tmp_path / "run", elmo=tiny, device="cpu").predict([text("great")])


def test_a_last_batch_of_one_example_can_be_learned_from(tmp_path):
    data = TOYS["sst"].write_parts(tmp_path / "data", train=9, others=4)  # batches of 8
    norm = "model.maxout_norm=batch"
    scores = train_toy("sst", data, tmp_path / "run", None, "training.epochs=2", norm)
    assert "test_accuracy" in scores


def test_a_model_from_before_there_was_a_choice_is_loaded_as_it_was_trained(tmp_path, data):
    folder = tmp_path / "run"
    train_toy("sst", data, folder, None, "training.steps=2", "model.maxout_norm=batch")
    said = load_task(folder, device="cpu").predict([text("great"), text("not bad")])
    saved = json.loads((folder / "task.json").read_text())
    del saved["recipe"]["model"]["maxout_norm"], saved["seal"]
    (folder / "task.json").write_text(json.dumps(saved))
    assert load_task(folder, device="cpu").predict([text("great"), text("not bad")]) == said


@pytest.mark.parametrize("part", ["dev", "test"])
def test_a_part_without_any_label_of_the_training_part_is_named(tmp_path, part):
    for name in ("train", "dev", "test"):
        labels = ("good", "bad") if name != part else ("Good", "Bad")
        (tmp_path / f"{name}.csv").write_text("text,label\na,{}\nb,{}\n".format(*labels))
    with pytest.raises(
        TextError, match=rf"{part}\.csv: none of its labels \('Bad', 'Good'\) occurs"
    ):
        read_parts("sst", tmp_path)
    (tmp_path / f"{part}.csv").write_text("text,label\na,good\nb,Bad\n")  # some are
    assert len(read_parts("sst", tmp_path)[part]) == 2


# ── few texts ───────────────────────────────────────────────────────────────────────────────────


def test_few_texts_are_trained_by_a_simpler_recipe(tmp_path, capsys):
    table = tmp_path / "few.csv"
    table.write_text("text,label\n" + "fine,good\ndull,bad\n" * 100)
    few = load_task_recipe("classify", data=table)
    assert few == load_task_recipe("classify", "classify-few")
    assert "few.csv: 200 texts, fewer than 2,000: trained by the recipe" in capsys.readouterr().err
    table.write_text("text,label\n" + "fine,good\ndull,bad\n" * 1000)
    many = load_task_recipe("classify", data=table)
    assert many == load_task_recipe("classify") != few
    assert load_task_recipe("classify", "classify", data=table) == many


def test_a_regression_on_mean_vectors_learns_from_few_texts(tmp_path, tiny):
    rng = Rng(0)
    table = tmp_path / "few.csv"
    words = {"good": ["fine", "great"], "bad": ["dull", "poor"]}
    rows = [(label, rng.choice(words[label])) for label in ["good", "bad"] * 81]  # 130 to train on
    filled = [f"{rng.choice(FILLERS)} {word} {rng.choice(FILLERS)},{label}" for label, word in rows]
    table.write_text("text,label\n" + "\n".join(filled))
    recipe = load_task_recipe("classify", data=table)
    scores = train_task("classify", recipe, table, tmp_path / "run", elmo=tiny, device="cpu")
    assert scores["test_accuracy"] >= 80
    task = load_task(tmp_path / "run", elmo=tiny, device="cpu")
    answers = task.predict([text("the fine film"), text("a poor film")])
    assert answers == ["good", "bad"]
    shares = task.mixes()["input"]["weights"]
    assert max(shares) - min(shares) > 0.07  # few steps suffice to learn the mix


def test_it_is_said_that_a_model_always_answers_the_same(task, capsys):
    texts = [text("fine", "3"), text("dull", "1")]
    task.review(texts, ["3", "3"])
    assert "relmo: the model answers '3' for all 2 texts of the test" in capsys.readouterr().err
    task.review(texts, ["3", "1"])
    task.review(texts[:1], ["3"])
    assert not capsys.readouterr().err
