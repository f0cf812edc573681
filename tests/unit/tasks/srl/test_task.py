"""Semantic roles from a file to a trained model and back."""

import random

import pytest

from relmo.tasks.run import load_task, load_task_recipe, train_task
from relmo.tasks.srl.data import Frame
from relmo.tasks.srl.task import SrlTask
from tests.support.toy_documents import write_frames

SMALL = (
    "model.cell_width=32", "model.num_layers=3", "model.mark_width=8", "batch.size=16",
    "training.epochs=10", "training.patience=0", "training.log_every=5", "input.elmo_dropout=0.1",
    "optimizer.learning_rate=0.01", "model.dropout=0.1",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("srl")
    for seed, (part, size) in enumerate({"train": 120, "dev": 30, "test": 30}.items()):
        write_frames(folder / f"toy.{part}.conll", size, random.Random(seed))
    return folder


@pytest.mark.parametrize("with_elmo", [False, True])
def test_a_model_learns_roles_and_is_the_same_when_loaded(data, tiny, tmp_path, with_elmo):
    elmo = tiny if with_elmo else None
    lines = []
    recipe = load_task_recipe("srl", None, [*SMALL, "input.place=both"])
    scores = train_task(
        "srl", recipe, data, tmp_path / "run", elmo=elmo, device="cpu", report=lines.append
    )
    losses = [line["mean_loss"] for line in lines if "mean_loss" in line]
    assert losses[-1] < 0.2 * losses[0]
    assert scores["dev_f1"] > 95
    assert scores["test_f1"] > 95
    task = load_task(tmp_path / "run", elmo=elmo, device="cpu")
    frames = SrlTask.read(data / "toy.test.conll", "test")
    again = {f"test_{name}": value for name, value in task.score_on(frames).items()}
    assert again == {name: scores[name] for name in again}


def test_a_frame_is_tagged_alike_in_any_company_and_without_its_tags(data, tmp_path):
    recipe = load_task_recipe("srl", None, [*SMALL, "training.epochs=2"])
    train_task("srl", recipe, data, tmp_path / "run", device="cpu")
    task = load_task(tmp_path / "run", device="cpu")
    frames = SrlTask.read(data / "toy.dev.conll", "dev")
    odd = Frame(("👋🏽", "x" * 400, "saw", "nobody") * 10, 2, ("O",) * 40)
    together = task.predict([*frames, odd])
    assert [task.predict([frame])[0] for frame in frames[:10]] == together[:10]
    bare = [Frame(f.words, f.predicate, ("O",) * len(f.words)) for f in frames]
    assert task.predict(bare) == together[:-1]


def test_scores_name_precision_recall_and_whole_frames(data, tmp_path):
    recipe = load_task_recipe("srl", None, [*SMALL, "training.epochs=0.2"])
    found = train_task("srl", recipe, data, tmp_path / "run", device="cpu")
    assert {"dev_f1", "dev_precision", "dev_recall", "dev_perfect"} <= found.keys()
