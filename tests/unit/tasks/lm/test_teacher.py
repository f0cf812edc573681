"""A small model that learns from a larger one, too."""

import json
from dataclasses import replace

import pytest
import torch

from relmo.errors import ConfigError
from relmo.nn.bilm import read_windows, zero_state
from relmo.tasks.lm.model import restarted
from relmo.tasks.lm.task import LmTask
from relmo.tasks.lm.teacher import Teacher
from relmo.text.lexicon import Lexicon
from relmo.training.checkpoint import find_checkpoints
from relmo.weights.find import read_model
from relmo.weights.tensors import build_bilm
from tests.support.toy_lm import WORDS, Corpus, Grammar, metrics, toy_recipe

GRAMMAR = Grammar(seed=1)
LARGER = {"cell_width": 24, "output_width": 12}
PUPIL = {"lm": {"rows": 16, "dropout": 0.0, "spans": (8, 1)}}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(tmp_path_factory.mktemp("corpus"), GRAMMAR, documents=300)


@pytest.fixture(scope="module")
def teacher(corpus, tmp_path_factory):
    """A larger model, trained until it knows the grammar."""
    folder = tmp_path_factory.mktemp("teacher")
    cnn = {"width": 12, "character_width": 4, "filters": [[1, 8], [2, 8]], "num_highways": 1}
    recipe = toy_recipe(
        model={"name": "teacher", "lstm": LARGER, "char_cnn": cnn},
        lm={"rows": 32, "window": 6, "negatives": 50, "dropout": 0.0},
        training={"steps": 250, "log_every": 100},
    )
    corpus.train(recipe, folder)
    return read_model(folder / "model")


def pupil(**changes):
    training = {"steps": 100, "log_every": 10, **changes.pop("training", {})}
    lm = {**PUPIL["lm"], **changes.pop("lm", {})}
    return toy_recipe(lm=lm, training=training, **changes)


def test_a_pupil_that_only_listens_learns_what_its_teacher_knows(corpus, teacher, tmp_path):
    """The next words count for nothing here: all that it learns, it learns from the teacher."""
    recipe = pupil(lm={"teacher_weight": 1.0, "window": 6}, training={"steps": 600})
    scores = corpus.train(recipe, tmp_path / "run", teacher=teacher)
    best = GRAMMAR.perplexity(corpus.held_out())
    assert scores["held_out_mean"] < 1.1 * best  # 1.16 of it without a teacher
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["taught_by"] == "teacher"
    line = next(line for line in metrics(tmp_path / "run") if "rate" in line)
    assert "taught_sampled_softmax_loss" in line


def test_without_a_share_of_the_loss_a_teacher_changes_nothing(corpus, teacher, tmp_path):
    alone = corpus.train(pupil(), tmp_path / "alone", init=teacher)
    taught = corpus.train(
        pupil(lm={"teacher_weight": 0.0}), tmp_path / "taught", init=teacher, teacher=teacher
    )
    for name, value in alone.items():
        assert taught[name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.gpu
def test_an_initial_model_with_a_vocabulary_of_its_own_is_scored_on_a_gpu(
    corpus, teacher, tmp_path
):
    """Its vocabulary has the teacher's words but is another object, whose rows are copied."""
    init = replace(teacher, lexicon=Lexicon(teacher.lexicon.words))
    recipe = pupil(training={"steps": 2})
    found = {
        device: corpus.train(recipe, tmp_path / device, init=init, teacher=teacher, device=device)
        for device in ("cpu", "cuda")
    }
    before = [scores["held_out_mean_before"] for scores in found.values()]
    assert before[1] == pytest.approx(before[0], rel=0.02)  # bfloat16 on the GPU


def test_a_lesson_is_what_the_teacher_says_of_running_text(corpus, teacher):
    recipe = pupil()
    task = LmTask(recipe.model, recipe.lm, corpus.cache, teacher=teacher)
    other = Teacher(teacher, corpus.cache.words, 16, 0.5, torch.device("cpu"))
    bilm = build_bilm(teacher)
    state = zero_state(teacher.config.lstm, 16, like=next(bilm.parameters()))
    for step in range(4):
        batch = task.batches.make(step)
        vectors = bilm.token_layer(other.model.spelling[0][batch.words])
        stacks = bilm.forward_lstm, bilm.backward_lstm
        state = restarted(state, batch.keeps)
        outputs, state = read_windows(*stacks, vectors[batch.index], state)
        torch.testing.assert_close(other.read(batch).hidden, outputs[-1])
    task.batches.close()


def test_a_run_with_a_teacher_goes_on_to_the_bit(corpus, teacher, tmp_path):
    recipe = pupil(training={"steps": 8, "log_every": 2, "checkpoint_every": 3})

    def report(line):
        if line.get("step") == 6:
            raise RuntimeError("stop here")

    corpus.train(recipe, tmp_path / "whole", teacher=teacher)
    with pytest.raises(RuntimeError, match="stop here"):
        corpus.train(recipe, tmp_path / "run", teacher=teacher, report=report)
    assert find_checkpoints(tmp_path / "run" / "checkpoint")
    with pytest.raises(ConfigError, match=r"different settings \(teacher\)"):
        corpus.train(recipe, tmp_path / "run", resume=True)
    corpus.train(recipe, tmp_path / "run", resume=True, teacher=teacher)
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")


def test_a_teacher_that_cannot_teach_is_refused(corpus, teacher, tmp_path):
    silent = replace(teacher, lm_head=None)
    with pytest.raises(ConfigError, match="the teacher has no softmax"):
        corpus.train(pupil(), tmp_path / "a", teacher=silent)
    other = replace(teacher, config=replace(teacher.config, tokenizer="whitespace"))
    with pytest.raises(ConfigError, match="tokenizer is 'whitespace', the model's 'relmo'"):
        corpus.train(pupil(), tmp_path / "b", teacher=other)
    few = Corpus(tmp_path / "few", Grammar(2, WORDS[:6]), 60)
    few.train(toy_recipe(), tmp_path / "few-run")
    init = read_model(tmp_path / "few-run" / "model")
    with pytest.raises(ConfigError, match="have different vocabularies"):
        corpus.train(pupil(), tmp_path / "c", init=init, teacher=teacher)
