"""Semantic roles from a file to a trained model and back."""

import random

import pytest

from relmo.tasks.metrics import MatchCounts
from relmo.tasks.run import load_task, load_task_recipe, train_task
from relmo.tasks.srl.data import Frame
from relmo.tasks.srl.task import SrlTask, arguments, evaluate
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


# ── argument F1 of CoNLL-2005, counted by hand ──────────────────────────────────────────────────


def frame(tags):
    return tags.split()


def score(gold, predicted):
    return evaluate([frame(gold)], [frame(predicted)])


def test_label_and_extent_must_both_be_right():
    found = score("B-A0 B-V B-A1 I-A1 B-A2", "B-A0 B-V B-A1 O B-A3")
    assert found.arguments.overall == MatchCounts(correct=1, predicted=3, gold=3)
    assert found.arguments.overall.f1 == pytest.approx(1 / 3)
    assert found.arguments.by_label["A1"] == MatchCounts(0, 1, 1)
    assert found.arguments.by_label["A2"] == MatchCounts(0, 0, 1)
    assert found.arguments.by_label["A3"] == MatchCounts(0, 1, 0)
    assert list(found.arguments.by_label) == ["A0", "A1", "A2", "A3"]


def test_the_predicate_does_not_count():
    found = score("B-V O B-C-V", "O B-V O")
    assert found.arguments.overall == MatchCounts(0, 0, 0)
    assert found.arguments.by_label == {}
    assert found.num_perfect == 1


def test_a_continued_argument_is_right_only_whole():
    gold = "B-A1 B-V B-C-A1 I-C-A1"
    assert score(gold, gold).arguments.overall == MatchCounts(1, 1, 1)
    assert score(gold, "B-A1 B-V B-C-A1 O").arguments.overall == MatchCounts(0, 1, 1)
    assert score(gold, "B-A1 B-V O O").arguments.overall == MatchCounts(0, 1, 1)
    assert score(gold, "B-A1 B-V B-A1 I-A1").arguments.overall == MatchCounts(0, 2, 1)


def test_an_argument_may_be_continued_twice():
    tags = frame("B-A1 B-V B-C-A1 O B-C-A1")
    assert arguments(tags) == {("A1", ((0, 0), (2, 2), (4, 4)))}


def test_a_continuation_joins_the_latest_argument_of_its_label():
    tags = frame("B-A1 B-A1 B-A0 B-C-A1")
    assert arguments(tags) == {("A1", ((0, 0),)), ("A1", ((1, 1), (3, 3))), ("A0", ((2, 2),))}


def test_a_continuation_of_nothing_is_an_argument_of_its_own():
    assert arguments(frame("B-C-A1 O B-C-A1")) == {("A1", ((0, 0), (2, 2)))}
    assert score("O B-A1", "O B-C-A1").arguments.overall == MatchCounts(1, 1, 1)


def test_a_reference_is_a_label_like_any_other():
    found = score("B-A0 B-R-A0 B-V", "B-A0 B-A0 B-V")
    assert found.arguments.overall == MatchCounts(1, 2, 2)
    assert found.arguments.by_label["R-A0"] == MatchCounts(0, 0, 1)
    assert found.arguments.by_label["A0"] == MatchCounts(1, 2, 1)


def test_counts_add_up_over_frames_and_perfect_ones_are_counted():
    gold = [frame("B-A0 B-V"), frame("B-V B-A1")]
    found = evaluate(gold, [gold[0], frame("B-V B-A2")])
    assert found.arguments.overall == MatchCounts(1, 2, 2)
    assert (found.num_frames, found.num_perfect) == (2, 1)


def test_truth_against_itself_is_perfect():
    gold = [frame("B-A0 B-V B-C-A0 B-R-A1 O"), ["O"], frame("B-C-A2 B-V")]
    found = evaluate(gold, gold)
    assert found.arguments.overall.f1 == 1
    assert all(counts.f1 == 1 for counts in found.arguments.by_label.values())


def test_frames_must_come_in_pairs():
    with pytest.raises(ValueError, match="shorter"):
        evaluate([["O"], ["O"]], [["O"]])
