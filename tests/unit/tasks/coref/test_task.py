"""Coreference from a file to a trained model and back."""

import random
from dataclasses import replace

import numpy as np
import pytest

from relmo.errors import TextWarning
from relmo.tasks.coref.data import CorefDocument
from relmo.tasks.coref.metrics import mean_f1
from relmo.tasks.coref.task import CorefTask, group_grid, out_of_reach
from relmo.tasks.run import load_task, load_task_recipe, train_task
from relmo.training.run import read_record
from tests.support.toy_documents import write_documents

SMALL = (
    "model.cell_width=16", "model.hidden_width=24", "model.feature_width=4", "model.max_width=4",
    "model.dropout=0.1", "model.hidden_dropout=0.1", "model.max_antecedents=10",
    "model.spans_per_token=0.5", "input.letters=0", "input.dropout=0.1", "input.elmo_dropout=0.1",
    "training.epochs=5", "training.patience=0", "training.log_every=10",
    "optimizer.learning_rate=0.01",
)  # fmt: skip
ODD = CorefDocument("odd", 0, (("👋🏽", "x" * 400), ("ada",) * 40, ("שלום",)), (((0, 1), (2, 2)),))
EMPTY = CorefDocument("empty", 0, ())


def write_parts(folder, marks_singletons):
    for seed, (part, size) in enumerate({"train": 60, "dev": 20, "test": 20}.items()):
        path = folder / f"toy.{part}.conll"
        write_documents(path, size, random.Random(seed), marks_singletons)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus that marks singletons."""
    return write_parts(tmp_path_factory.mktemp("coref"), True)


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """A corpus that does not."""
    return write_parts(tmp_path_factory.mktemp("joined"), False)


@pytest.mark.parametrize("with_elmo", [False, True])
def test_a_model_learns_who_is_who_and_is_the_same_when_loaded(data, tiny, tmp_path, with_elmo):
    elmo = tiny if with_elmo else None
    lines = []
    recipe = load_task_recipe("coref", None, [*SMALL, "input.place=both"])
    scores = train_task(
        "coref", recipe, data, tmp_path / "run", elmo=elmo, device="cpu", report=lines.append
    )
    losses = [line["mean_loss"] for line in lines if "mean_loss" in line]
    assert losses[-1] < 0.2 * losses[0]
    assert scores["dev_f1"] > 90
    assert scores["test_f1"] > 90
    counts = np.array(read_record(tmp_path / "run" / "run.json")["test_counts"])  # (20, 4, 4)
    assert mean_f1(counts.sum(0)) == pytest.approx(scores["test_f1"], abs=1e-4)
    task = load_task(tmp_path / "run", elmo=elmo, device="cpu")
    assert task.keeps_singletons
    documents = CorefTask.read(data / "toy.test.conll", "test")
    again = {f"test_{name}": value for name, value in task.score_on(documents).items()}
    assert again == {name: scores[name] for name in again}


def test_a_corpus_without_singletons_teaches_none(joined, tmp_path):
    recipe = load_task_recipe("coref", None, SMALL)
    scores = train_task("coref", recipe, joined, tmp_path / "run", device="cpu")
    task = load_task(tmp_path / "run", device="cpu")
    assert not task.keeps_singletons
    documents = CorefTask.read(joined / "toy.test.conll", "test")
    assert all(len(cluster) > 1 for found in task.predict(documents) for cluster in found)
    assert scores["dev_f1"] > 90


def test_singletons_are_left_out_of_a_score_where_they_do_not_count(data, tmp_path):
    changes = ["training.epochs=0.1", "model.singletons=drop"]
    recipe = load_task_recipe("coref", None, [*SMALL, *changes])
    train_task("coref", recipe, data, tmp_path / "run", device="cpu")
    task = load_task(tmp_path / "run", device="cpu")
    document = CorefTask.read(data / "toy.dev.conll", "dev")[0]
    lone = replace(document, clusters=(((0, 0),), ((1, 1), (2, 2))))
    assert task.scores([lone], [(((1, 1), (2, 2)),)])["f1"] == 100


def test_a_document_is_read_alike_in_any_company_and_without_its_clusters(data, tmp_path):
    recipe = load_task_recipe("coref", None, [*SMALL, "training.epochs=2"])
    train_task("coref", recipe, data, tmp_path / "run", device="cpu")
    task = load_task(tmp_path / "run", device="cpu")
    documents = CorefTask.read(data / "toy.dev.conll", "dev")
    together = task.predict([ODD, *documents, EMPTY])
    assert together[-1] == ()
    assert [task.predict([document])[0] for document in documents] == together[1:-1]
    bare = [replace(document, clusters=()) for document in documents]
    assert task.predict(bare) == together[1:-1]


def test_facts_tell_genres_and_whether_singletons_are_meant(data, joined):
    for folder, has_singletons in ((data, True), (joined, False)):
        facts = CorefTask.facts_of(CorefTask.read(folder / "toy.train.conll", "train"))
        assert facts == {"genres": ["court", "news"], "has_singletons": has_singletons}
    slip = CorefDocument("a", 0, (("a", "b"),), (((0, 0),), *[((0, 0), (1, 1))] * 20))
    assert CorefTask.facts_of([slip]) == {"genres": [], "has_singletons": False}


def test_the_grid_holds_each_mention_once_and_leaves_out_those_out_of_reach():
    sentences = (("a", "b", "c", "d"), ("e", "f"))
    clusters = (((0, 2), (4, 4)), ((0, 0), (3, 4)), ((4, 4), (5, 5)))
    document = CorefDocument("d", 0, sentences, clusters)
    grid = group_grid(document, 2)
    assert {(a, w): n for (a, w), n in np.ndenumerate(grid) if n} == {
        (4, 0): 1, (0, 0): 2, (5, 0): 3
    }  # fmt: skip
    assert out_of_reach(document, 2) == 2  # one too wide, one over the end of its sentence
    assert out_of_reach(document, 3) == 1


def test_a_long_text_is_read_in_parts_and_that_is_told(data, tmp_path, monkeypatch):
    recipe = load_task_recipe("coref", None, [*SMALL, "training.epochs=0.1"])
    train_task("coref", recipe, data, tmp_path / "run", device="cpu")
    task = load_task(tmp_path / "run", device="cpu")
    text = "Mira sang. She left. Sol came."
    (whole,) = task.read_input(text)
    monkeypatch.setattr("relmo.tasks.coref.task.MAX_WORDS", 6)
    with pytest.warns(TextWarning, match="a text of more than 6 words is read in 2 parts"):
        parts = task.read_input(text)
    assert [len(part.sentences) for part in parts] == [2, 1]
    assert parts[0].words + parts[1].words == whole.words
    assert parts[1].places.span(0, 0) == ("Sol", 21, 24)
    assert task.read_input(" ") == []
