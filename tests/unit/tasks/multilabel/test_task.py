"""Several labels per text: what is learned, how labels are given, what is refused."""

import json
import math

import pytest
import torch

from relmo.errors import ConfigError, TextError
from relmo.tasks.multilabel.data import MultilabelText
from relmo.tasks.multilabel.task import MultilabelTask
from relmo.tasks.predictor import load
from relmo.tasks.registry import read_parts
from relmo.tasks.results import Label, render, to_json
from relmo.tasks.run import load_task, load_task_recipe
from relmo.training.run import read_record
from tests.support.toy_tasks import TOYS, train_toy

SURE = ["model.dropout=0.0", "model.maxout_dropout=0.0", "input.dropout=0.0", "training.epochs=6"]


def text(words, *labels):
    return MultilabelText(tuple(words.split()), labels)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return TOYS["multilabel"].write_parts(tmp_path_factory.mktemp("mentions"), 200, 60)


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    """(folder, scores) of a run without ELMo."""
    folder = tmp_path_factory.mktemp("run") / "run"
    return folder, train_toy("multilabel", data, folder, None, *SURE)


@pytest.fixture
def task(run):
    return load_task(run[0], device="cpu")


# ── learning ────────────────────────────────────────────────────────────────────────────────


def test_all_labels_of_a_text_are_learned_and_none_where_there_is_none(run, task):
    _, scores = run
    assert scores.keys() >= {"dev_macro_f1", "test_macro_f1", "test_micro_f1", "test_accuracy"}
    assert scores["test_macro_f1"] >= 95
    assert scores["test_accuracy"] >= 90
    texts = ["the great bob", "this film", "ada a rome fine"]
    found = task.predict([text(each) for each in texts])
    assert found == [("person", "praise"), (), ("person", "place", "praise")]


def test_a_predictor_gives_labels_the_most_probable_first(run):
    predict = load(run[0], device="cpu")
    assert repr(predict) == "Predictor('run', text -> labels)"
    found, none, empty = predict(["ada in rome is great", "this film", " "])
    assert {each.label for each in found} == {"person", "place", "praise"}
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    assert none == empty == []
    assert render(found[:1], "ada") == f"{found[0].label} {scores[0]:.2f}\tada"
    assert to_json(found[0]) == {"label": found[0].label, "score": round(scores[0], 6)}


def test_labels_are_not_looked_at(task, data):
    test = read_parts("multilabel", data)["test"]
    assert task.predict([MultilabelText(e.words, ()) for e in test]) == task.predict(test)


# ── thresholds ──────────────────────────────────────────────────────────────────────────────


def test_a_text_has_the_labels_that_reach_their_thresholds(task):
    task.net.thresholds.copy_(torch.tensor([1.0, -2.0, 0.0]))
    outputs = torch.tensor([[1.0, -2.0, 0.0], [0.9, -2.1, -0.1], [9.0, -9.0, 5.0]])
    assert task.decide(outputs) == [("person", "place", "praise"), (), ("person", "praise")]


def test_a_temperature_changes_probabilities_and_not_the_labels(task):
    outputs = torch.tensor([[6.0, -9.0, 7.0]])
    for temperature in (0.5, 1.0, 4.0):
        ((first, second),) = task.results([text("")], outputs, temperature)
        assert (first.label, second.label) == ("praise", "person")
        assert first.score == pytest.approx(1 / (1 + math.exp(-7 / temperature)))


def test_thresholds_are_shown_as_probabilities(task):
    task.net.thresholds.copy_(torch.tensor([0.0, 2.0, -2.0]))
    task.temperature = 2.0
    shares = {"person": 0.5, "place": 1 / (1 + math.exp(-1)), "praise": 1 / (1 + math.exp(1))}
    assert task.thresholds() == pytest.approx(shares)


def test_dev_scores_are_those_of_the_best_thresholds_there(task, data):
    task.dev = read_parts("multilabel", data)["dev"]
    task.net.thresholds.fill_(50.0)
    assert task.score_on(task.dev)["macro_f1"] == 0
    found = task.evaluate()
    assert found["dev_macro_f1"] > 90
    assert found == {f"dev_{name}": value for name, value in task.score_on(task.dev).items()}


def test_a_run_keeps_its_thresholds_with_its_weights(run, data):
    task = load_task(run[0], device="cpu")
    scores = task.score_on(read_parts("multilabel", data)["dev"])
    assert scores["macro_f1"] == read_record(run[0] / "run.json")["results"]["dev_macro_f1"]
    assert all(task.net.thresholds != 0)


# ── scores ──────────────────────────────────────────────────────────────────────────────────


def test_scores_by_hand(task):
    examples = [text("a", "x", "y"), text("b", "x"), text("c")]
    found = task.scores(examples, [("x",), ("x", "y"), ()])
    assert found["macro_f1"] == pytest.approx(100 * (1 + 0) / 2)  # x is right twice, y never
    assert found["micro_f1"] == pytest.approx(100 * 2 * 2 / (3 + 3))
    assert found["accuracy"] == pytest.approx(100 / 3)


def test_calibration_judges_every_label_of_every_text(task):
    examples = [text("a", "place"), text("b", "unheard-of")]
    outputs = torch.tensor([[0.0, 2.0, -2.0], [0.0, 0.0, 0.0]])
    found = task.judged(examples, outputs, 2.0)
    assert [is_right for _, is_right in found] == [False, True, False, False, False, False]
    assert found[1][0] == pytest.approx(1 / (1 + math.exp(-1)))
    assert task.is_right(examples[0], Label("place", 0.9))
    assert not task.is_right(examples[0], Label("person", 0.9))


def test_it_is_said_that_a_model_always_answers_the_same(task, capsys):
    texts = [text("fine", "praise"), text("rome", "place")]
    task.review(texts, [(), ()])
    assert "relmo: the model answers no labels for all 2 texts of the" in capsys.readouterr().err
    task.review(texts, [("place", "praise")] * 2)
    assert "answers 'place', 'praise' for all 2 texts" in capsys.readouterr().err
    task.review(texts, [("praise",), ()])
    assert not capsys.readouterr().err


# ── data ────────────────────────────────────────────────────────────────────────────────────


def test_plural_names_of_columns_are_found_first(tmp_path):
    (tmp_path / "a.csv").write_text("label,emotions,review\n1,joy;fear,It shines\n")
    assert MultilabelTask.read(tmp_path / "a.csv", "train") == [text("It shines", "fear", "joy")]


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("It shines\tjoy\n")
    with pytest.raises(ConfigError, match=r"a\.txt: expected a table; its name must end in \.csv"):
        read_parts("multilabel", tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        ([(), ()], "none of 2 texts has a label; expected at least two different labels"),
        ([("a",), ()], "the only label of 2 texts is 'a'; expected at least two"),
        ([tuple("abcdefghijklm"), tuple("nopqrstuvwxyz")], "2 texts have 26 different labels"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(labels, what):
    with pytest.raises(TextError, match=what):
        MultilabelTask.check_training([text("a", *each) for each in labels])


def test_a_file_with_other_labels_is_named(tmp_path):
    facts = {"labels": ["joy", "fear"]}
    with pytest.raises(TextError, match=r"none of its labels \('Joy'\) occurs in the training"):
        MultilabelTask.check(tmp_path / "test.csv", [text("a", "Joy"), text("b")], facts)
    MultilabelTask.check(tmp_path / "test.csv", [text("a", "Joy", "joy")], facts)
    MultilabelTask.check(tmp_path / "test.csv", [text("a")], facts)


def test_one_file_is_split_even_if_no_two_texts_have_the_same_labels(tmp_path):
    rows = [
        {"text": f"a {i}", "labels": [f"{i % 3}", f"x{i % 7}", f"y{i % 11}"]} for i in range(60)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = read_parts("multilabel", tmp_path / "a.jsonl")
    assert [len(part) for part in found.values()] == [48, 6, 6]
    assert {example.labels[0] for example in found["test"]} == {"0", "1", "2"}


def test_few_texts_are_trained_by_the_recipe_of_classify(tmp_path, data):
    few = load_task_recipe("multilabel", data=data)
    assert few == load_task_recipe("classify", "classify-few")
    assert load_task_recipe("multilabel").model == load_task_recipe("classify").model
