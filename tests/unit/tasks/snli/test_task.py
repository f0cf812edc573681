"""Entailment: what is read, what is learned, what does not change a prediction."""

from itertools import pairwise

import pytest
import torch

from relmo.errors import ConfigError, TextError
from relmo.tasks.registry import read_parts
from relmo.tasks.run import load_task, load_task_recipe
from relmo.tasks.snli.data import SentencePair
from relmo.tasks.snli.model import align_pairs
from tests.support.toy_tasks import TOYS, train_toy, write_vectors

SURE = [
    "model.dropout=0.0", "model.output_dropout=0.0", "model.hidden_width=0", "model.cell_width=24",
    "model.composition_width=24", "batch.size=16", "optimizer.learning_rate=0.003",
    "training.epochs=8", "training.patience=0",
]  # fmt: skip
"""A narrow model learns a clear rule best when nothing is dropped."""
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def make_pair(premise, hypothesis, label=""):
    return SentencePair(tuple(premise.split()), tuple(hypothesis.split()), label)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return TOYS["snli"].write_parts(tmp_path_factory.mktemp("pairs"), 300, 100)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory, data):
    """Unlike random ones that are begun small, these tell words apart from the first step on."""
    return write_vectors(tmp_path_factory.mktemp("vectors") / "vectors.txt", data)


@pytest.fixture(scope="module", params=["baseline", "elmo"])
def run(request, tmp_path_factory, data, vectors, tiny):
    """(folder, scores, lines of metrics), without ELMo or with it in both places."""
    folder, seen = tmp_path_factory.mktemp("run") / "run", []
    elmo = None if request.param == "baseline" else tiny
    options = {"place": "both", "vectors": vectors, "report": seen.append}
    scores = train_toy("snli", data, folder, elmo, *SURE, **options)
    return folder, scores, seen


@pytest.fixture(scope="module")
def task(run, tiny):
    return load_task(run[0], elmo=tiny, device="cpu")


def test_words_may_be_aligned_without_what_stands_beside_the_encoder():
    h, mask = torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    one, other = (torch.cat([h, torch.randn(2, 3, 5)], -1) for _ in range(2))
    by_encoder = [align_pairs(x, h, mask)[..., :4] for x in (one, other)]
    torch.testing.assert_close(*by_encoder)
    by_all = [align_pairs(x, x, mask)[..., :4] for x in (one, other)]
    assert (by_all[0] - by_all[1]).abs().max() > 1e-3
    with pytest.raises(ConfigError, match="aligned_by must be one of all, encoder, got 'none'"):
        load_task_recipe("snli", None, ["model.aligned_by=none"])


# ── learning ────────────────────────────────────────────────────────────────────────────────


def test_what_a_sentence_says_about_another_is_learned(run):
    _, scores, _ = run
    assert scores["dev_accuracy"] >= 90
    assert scores["test_accuracy"] >= 90


def test_the_loss_falls(run):
    losses = [line["loss"] for line in run[2] if "loss" in line]
    fifth = len(losses) // 5
    means = [sum(losses[i : i + fifth]) / fifth for i in range(0, 5 * fifth, fifth)]
    assert all(after < before for before, after in pairwise(means))
    assert means[-1] < 0.5 * means[0]


def test_a_loaded_model_predicts_the_same(run, task, data):
    test = read_parts("snli", data)["test"]
    assert task.score_on(test)["accuracy"] == run[1]["test_accuracy"]
    bare = [SentencePair(e.premise, e.hypothesis, "") for e in test]
    assert task.predict(bare) == task.predict(test)


# ── what does not change a prediction ───────────────────────────────────────────────────────


def scores_of(task, *pairs):
    task.model.eval()
    with torch.no_grad():
        return task.net(*task.model_inputs(pairs))


def test_padding_and_neighbours_do_not_change_scores(task):
    short, long = make_pair("the dog", "a 😀"), make_pair("the fox sleeps " * 9, "it runs " * 12)
    alone = scores_of(task, short)
    torch.testing.assert_close(scores_of(task, short, long)[:1], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(scores_of(task, long, short, long)[1:2], alone, atol=1e-5, rtol=0)


def test_premise_and_hypothesis_are_told_apart(task):
    one = make_pair("the fox sleeps .", "it runs .")
    other = SentencePair(one.hypothesis, one.premise, "")
    assert not torch.allclose(scores_of(task, one), scores_of(task, other))


@pytest.mark.parametrize(
    ("premise", "hypothesis"),
    [("", ""), ("", "the fox"), ("x" * 400, ""), ("שלום 👩‍🚀", "e\u0301"), ("unheard-of", "words")],
)
def test_odd_pairs_have_a_label(task, premise, hypothesis):
    odd, plain = make_pair(premise, hypothesis), make_pair("the fox sleeps", "it runs")
    assert task.predict([odd])[0] in task.labels
    assert task.predict([odd, plain]) == [*task.predict([odd]), *task.predict([plain])]


def test_bfloat16_scores_are_near_those_of_float32(task, data):
    test = read_parts("snli", data)["test"][:8]
    wanted = scores_of(task, *test).softmax(-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = scores_of(task, *test)
    torch.testing.assert_close(found.float().softmax(-1), wanted, atol=0.05, rtol=0)


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def test_the_official_files_lie_side_by_side_in_two_formats(tmp_path, data):
    for part in ("train", "dev", "test"):
        text = (data / f"{part}.jsonl").read_text()
        (tmp_path / f"snli_1.0_{part}.jsonl").write_text(text)
        (tmp_path / f"snli_1.0_{part}.txt").write_text("gold_label\tsentence1\n")
    assert read_parts("snli", tmp_path) == read_parts("snli", data)


def test_sick_is_read_under_its_own_names(tmp_path):
    row = "1\tA dog isn't here\tIt's gone.\t4.5\tNEUTRAL\n"
    for name in ("SICK_train", "SICK_trial", "SICK_test_annotated", "readme"):
        (tmp_path / f"{name}.txt").write_text(SICK + row)
    found = read_parts("snli", tmp_path)
    wanted = [make_pair("A dog is n't here", "It 's gone .", "neutral")]
    assert found == {"train": wanted, "dev": wanted, "test": wanted}


def test_a_part_without_any_label_of_the_training_part_is_named(tmp_path):
    row = '{"gold_label": "%s", "sentence1": "a", "sentence2": "b"}\n'
    for name, label in (("train", "entailment"), ("dev", "yes")):
        (tmp_path / f"{name}.jsonl").write_text(row % label)
    with pytest.raises(TextError, match=r"dev\.jsonl: none of its labels \('yes'\) occurs"):
        read_parts("snli", tmp_path)


def test_plain_text_is_split_and_answered(task):
    (example,) = task.read_input("The fox sleeps.", "It's here.")
    assert example == make_pair("The fox sleeps .", "It 's here .")
    assert task.read_input("a", " ") == task.read_input("", "b") == []
    ((label,),) = task.answer([example])
    assert label.label == task.predict([example])[0]


# ── settings ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change", ["dropout=1.0", "output_dropout=-1", "cell_width=0", "composition_width=1.5"]
)
def test_settings_that_make_no_sense_are_named(change):
    with pytest.raises(ConfigError, match=f"{change.partition('=')[0]} must be .*, got"):
        load_task_recipe("snli", None, [f"model.{change}"])


def test_token_vectors_may_go_to_the_encoder_as_they_are(tmp_path, data, tiny):
    bare = ["training.steps=2", "model.hidden_width=0"]
    train_toy("snli", data, tmp_path / "run", tiny, *bare)
    task = load_task(tmp_path / "run", elmo=tiny, device="cpu")
    assert task.net.encoder.layers[0].input_size == task.net.tokens.width
