"""Semantic roles from a file to a trained model and back."""

import random

import pytest

from relmo.errors import TextError
from relmo.tasks.metrics import MatchCounts
from relmo.tasks.predictor import load
from relmo.tasks.registry import read_parts
from relmo.tasks.run import TaskCard, load_task, load_task_recipe, train_task
from relmo.tasks.sources import split_examples
from relmo.tasks.srl.data import NO_PREDICATE, Frame, read_frames
from relmo.tasks.srl.task import SrlTask, arguments, evaluate
from relmo.training.run import read_record
from tests.support.toy_documents import write_frames

SMALL = (
    "model.cell_width=32", "model.num_layers=3", "model.mark_width=8", "batch.size=16",
    "training.epochs=10", "training.patience=0", "training.log_every=5", "input.elmo_dropout=0.1",
    "optimizer.learning_rate=0.01", "model.dropout=0.1", "model.finder_width=16",
)  # fmt: skip
BAKED = tuple(f"{a}{b}ked" for a in "bcdfgh" for b in "aeiou")
"""Predicates: too many for a finder to learn each by heart."""
MEASURES = "precision", "recall", "f1"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("srl")
    for seed, (part, size) in enumerate({"train": 120, "dev": 30, "test": 30}.items()):
        write_frames(folder / f"toy.{part}.conll", size, random.Random(seed), BAKED)
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


# ── predicates that the model finds ─────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def folder(data, tiny, tmp_path_factory):
    """A trained model with a finder."""
    folder = tmp_path_factory.mktemp("found") / "run"
    recipe = load_task_recipe("srl", None, [*SMALL, "training.epochs=6"])
    train_task("srl", recipe, data, folder, elmo=tiny, device="cpu")
    return folder


@pytest.fixture
def task(folder, tiny):
    return load_task(folder, elmo=tiny, device="cpu")


def test_the_finder_learns_predicates_and_scores_say_so(folder):
    scores = read_record(folder / "run.json")["results"]
    for part in ("dev", "test"):
        assert scores[f"{part}_predicate_f1"] > 95
        assert scores[f"{part}_found_f1"] > 90
    names = {f"dev_{kind}_{each}" for kind in ("predicate", "found") for each in MEASURES}
    assert names <= scores.keys()


def test_a_verb_that_was_never_trained_on_is_found(task):
    (found,) = task.read_inputs([("dog liked the cat and boy worked the bird today",)])
    assert [frame.words[frame.predicate] for frame in found] == ["liked", "worked"]
    assert not task.predicates & {"liked", "worked"}


def test_the_probability_of_a_predicate_is_its_score(folder, tiny):
    predictor = load(folder, elmo=tiny, device="cpu")
    (frame,) = predictor("dog baked the cat")
    assert frame.predicate.text == "baked"
    assert 0.5 <= frame.predicate.score <= 1
    ((example,),) = predictor.task.read_inputs([("dog baked the cat",)])
    assert frame.predicate.score == example.score
    predictor.task.finder_temperature *= 10
    (doubted,) = predictor("dog baked the cat")
    assert 0.5 <= doubted.predicate.score < frame.predicate.score


def test_texts_are_read_together_and_each_as_if_alone(task, monkeypatch):
    texts = [("dog baked the cat. Girl hiked it",), ("",), ("the dog",), ("boy liked the élan",)]
    read = []
    monkeypatch.setattr(task, "inputs", spy(task.inputs, read))
    together = task.read_inputs(texts * 5)
    assert len(read) == 2  # batches of 16 for 20 sentences
    for (text,), found in zip(texts * 5, together, strict=True):
        alone = task.read_input(text)
        assert [(f.words, f.predicate) for f in alone] == [(f.words, f.predicate) for f in found]
        scores = [f.score for f in alone]
        assert scores == pytest.approx([f.score for f in found], abs=1e-5)


def spy(inputs, read):
    def call(sentences):
        read.append(len(sentences))
        return inputs(sentences)

    return call


def test_the_finders_temperature_is_kept_with_the_run(folder, task):
    kept = TaskCard.read(folder).calibration
    assert kept.keys() == {"temperature", "finder_temperature"}
    assert task.finder_temperature == kept["finder_temperature"] > 0
    assert task.calibration() == kept


def test_a_finder_that_is_too_sure_of_itself_gets_a_high_temperature(task, monkeypatch, data):
    frames = SrlTask.read(data / "toy.dev.conll", "dev")
    # sure of all words, a fifth of which are predicates
    monkeypatch.setattr(task, "_log_odds", lambda sentences: [[8.0] * len(s) for s in sentences])
    task.calibrate(frames)
    assert task.finder_temperature > 15
    monkeypatch.setattr(task, "_log_odds", lambda sentences: [[-8.0] * len(s) for s in sentences])
    task.calibrate(frames)  # nothing found, nothing learned
    assert task.finder_temperature > 15


def test_arguments_of_found_predicates_count_by_hand(task, monkeypatch):
    words = ("we", "saw", "her", "go")
    saw = Frame(words, 1, ("B-A0", "B-V", "B-A1", "I-A1"), predicates=(1, 3))
    go = Frame(words, 3, ("O", "O", "B-A0", "B-V"), predicates=(1, 3))
    # saw is found, go is missed, `her` is none
    monkeypatch.setattr(task, "find", lambda sentences: [[(1, 0.9), (2, 0.6)] for _ in sentences])
    monkeypatch.setattr(task, "predict", lambda examples, show: [("B-A0", "O", "B-V", "O")])
    found = task.extra_scores([saw, go], [saw.tags, go.tags])
    assert found["predicate_precision"] == found["predicate_recall"] == 50
    assert found["found_precision"] == pytest.approx(200 / 3)  # A0, A1 of saw; A0 of her
    assert found["found_recall"] == pytest.approx(200 / 3)
    assert task.extra_scores([], []).keys() == found.keys()


def test_equal_sentences_are_scored_apart(task):
    words = ["dog", "baked", "the", "cat"]
    twice = [Frame(tuple(words), 1, ("O",) * 4) for _ in range(2)]
    assert task.score_on(twice)["predicate_recall"] == 100


def test_sentences_without_a_predicate_are_trained_on_by_a_finder_alone(data, task):
    train = SrlTask.read(data / "toy.train.conll", "train")
    assert len(train) == 240 + 30
    assert len(SrlTask.read(data / "toy.train.conll", "test")) == 240
    assert len(task.prepare(train)) == 270
    task.net.finder = None
    assert len(task.prepare(train)) == 240
    assert len(task.targets(train[:3])) == 1
    assert task.extra_scores(train, []) == {}


def test_of_one_file_they_go_to_the_training_part_and_do_not_change_the_split(data):
    path = data / "toy.train.conll"
    parts = read_parts("srl", path)
    plain = split_examples(SrlTask, read_frames(path), seed=0)
    assert (parts["dev"], parts["test"]) == (plain["dev"], plain["test"])
    assert [f for f in parts["train"] if f.predicate != NO_PREDICATE] == plain["train"]
    assert len(parts["train"]) == len(plain["train"]) + 30


def test_data_without_any_predicate_are_refused():
    with pytest.raises(TextError, match="none of the 1 sentences to train on has a predicate"):
        SrlTask.check_training([Frame(("oh",), NO_PREDICATE, ("O",))])


def test_a_run_of_an_earlier_version_is_loaded_and_looks_predicates_up(data, tmp_path):
    recipe = load_task_recipe("srl", None, [*SMALL, "training.steps=2", "model.finder_width=0"])
    scores = train_task("srl", recipe, data, tmp_path, device="cpu")
    assert not any("predicate" in name or "found" in name for name in scores)
    card = TaskCard.read(tmp_path)
    assert card.calibration.keys() == {"temperature"}
    del card.recipe["model"]["finder_width"]
    card.write(tmp_path)
    (found,) = load_task(tmp_path, device="cpu").read_inputs([("dog chased a cat. Boy Baked it",)])
    assert [(f.words[f.predicate], f.score) for f in found] == [("Baked", 1.0)]


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
