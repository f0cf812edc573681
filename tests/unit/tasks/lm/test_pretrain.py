"""Pretraining from end to end: it learns, what it writes is complete, the same twice."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.errors import ConfigError
from relmo.tasks.lm.task import LmTask
from relmo.training.optim import make_optimizer, set_rate
from relmo.training.run import read_record
from relmo.weights.find import convert_model, read_model
from relmo.weights.tensors import START_NAMES
from tests.support.toy_lm import WORDS, Corpus, Grammar, metrics, toy_recipe

GRAMMAR = Grammar(seed=1)
SENTENCES = [["ba", "lu", "be"], ["ku"], ["never", "seen", "é"]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(tmp_path_factory.mktemp("corpus"), GRAMMAR)


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A run that has learned the grammar; tests do not change it."""
    output = tmp_path_factory.mktemp("run")
    cnn = {"width": 16, "character_width": 8, "filters": [[1, 8], [2, 16]], "num_highways": 1}
    recipe = toy_recipe(
        model={"char_cnn": cnn, "lstm": {"cell_width": 32, "output_width": 16}},
        lm={"rows": 64, "window": 6, "negatives": 50, "dropout": 0.0, "spans": (32, 4)},
        training={"steps": 150, "log_every": 50},
    )
    corpus.train(recipe, output)
    return output


def weights(run):
    """All tensors of a run's model."""
    files = read_model(run / "model")
    return {**files.tensors, **{f"softmax.{n}": t for n, t in files.lm_head().items()}}


def same(one, two) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[n], two[n]) for n in one)


def task_of(corpus, recipe, **options):
    seed = recipe.training.seed
    return LmTask(recipe.model, recipe.lm, corpus.cache, seed, **options)


# ── what a run learns and leaves ────────────────────────────────────────────────────────────


def test_a_cuda_graph_is_recorded_without_a_warning_of_its_stream(corpus, monkeypatch):
    said = []
    name = "set_warn_on_accumulate_grad_stream_mismatch"
    monkeypatch.setattr(torch.autograd.graph, name, said.append)
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", lambda reader, sample: reader)
    task_of(corpus, toy_recipe()).model.capture(window=4, rows=2)
    assert said == [False]


def test_held_out_perplexity_comes_near_the_grammars_own(trained, corpus):
    own = GRAMMAR.perplexity(corpus.held_out())
    scores = metrics(trained)[-1]
    for direction in ("forward", "backward", "mean"):
        assert 0.99 * own < scores[f"held_out_{direction}"] < 1.1 * own
    assert scores["held_out_unknown_rate"] == 0
    first, *_, last = (line for line in metrics(trained) if "loss" in line)
    assert last["full_softmax_loss"] < first["full_softmax_loss"]
    assert last["full_softmax_loss"] == pytest.approx(np.log(own), rel=0.15)


def test_the_saved_model_scores_text_as_the_run_did(trained, corpus):
    elmo = Elmo.from_pretrained(trained / "model", start="zero", device="cpu")
    found = elmo.lm.perplexity(corpus.held_out())
    scores = metrics(trained)[-1]
    assert found.mean == pytest.approx(scores["held_out_mean"], rel=1e-5)
    assert found.tokens == scores["held_out_tokens"]


def test_the_saved_model_has_all_that_it_needs(trained, corpus):
    elmo = Elmo.from_pretrained(trained / "model", device="cpu")
    assert [v.shape for v in elmo.embed(SENTENCES)] == [(3, 3, 32), (3, 1, 32), (3, 3, 32)]
    assert elmo.config.name == "toy"
    assert elmo.config.start == "stored"
    assert all(getattr(elmo.bilm, name).abs().sum() > 0 for name in START_NAMES)
    assert elmo.lexicon.words[:3] == ("<S>", "</S>", "<UNK>")
    assert list(elmo.lexicon.words) == corpus.cache.words
    training = elmo.config.training
    assert (training["steps"], training["tokens_seen"]) == (150, 150 * 64 * 6)
    assert training["vocabulary"] == {"words": len(elmo.lexicon), "coverage": 1.0}
    assert training["data"]["hash"] == corpus.cache.folder.name
    assert training["results"]["held_out_mean"] == metrics(trained)[-1]["held_out_mean"]


def test_the_stored_start_predicts_better_than_zero(trained, corpus):
    lm = Elmo.from_pretrained(trained / "model", device="cpu").lm
    found = {start: lm.perplexity(corpus.held_out(), start).mean for start in ("zero", "stored")}
    assert found["stored"] < found["zero"]


def test_the_record_has_a_checksum_and_holds_the_recipe(trained):
    record = read_record(trained / "run.json")
    assert record["task"] == "lm"
    assert record["recipe"]["lm"]["rows"] == 64
    assert record["recipe"]["model"]["lstm"]["cell_clip"] is None
    assert record["steps"] == 150


def test_a_model_can_be_stored_in_8_bits(corpus, tmp_path):
    corpus.train(toy_recipe(), tmp_path, storage="int8")
    assert json.loads((tmp_path / "model/config.json").read_text())["storage"] == "int8"
    assert Elmo.from_pretrained(tmp_path / "model").lm


def test_export_to_official_hdf5_gives_equal_vectors_from_a_zero_state(trained, tmp_path):
    report = convert_model(trained / "model", tmp_path / "official", "hdf5")
    assert any("start state" in lost for lost in report.lost)
    found = Elmo.from_pretrained(tmp_path / "official", device="cpu").embed(SENTENCES)
    own = Elmo.from_pretrained(trained / "model", start="zero", device="cpu").embed(SENTENCES)
    assert all(np.array_equal(a, b) for a, b in zip(found, own, strict=True))


def test_a_finished_runs_folder_is_refused(trained, corpus):
    with pytest.raises(ConfigError, match="finished run; choose another"):
        corpus.train(toy_recipe(), trained)


def test_without_held_out_text_there_is_no_score_and_no_start_state(tmp_path):
    corpus = Corpus(tmp_path, GRAMMAR, documents=20, held_out=0.0)
    recipe = toy_recipe(data={"held_out": 0.0}, training={"steps": 2})
    assert corpus.train(recipe, tmp_path / "run") == {}
    assert Elmo.from_pretrained(tmp_path / "run/model", device="cpu").config.start == "zero"


def test_a_held_out_sentence_that_never_ends_gives_no_start_state(tmp_path):
    corpus = Corpus(tmp_path, GRAMMAR, documents=20)
    task = task_of(corpus, toy_recipe())
    endless = np.array([0, *[5] * 300, 1])
    task.held_out = lambda: [endless]
    task.save_model(tmp_path / "model", {})
    assert read_model(tmp_path / "model").config.start == "zero"


# ── fine-tuning ─────────────────────────────────────────────────────────────────────────────


def test_fine_tuning_lowers_perplexity_on_other_text(trained, tmp_path):
    other = Corpus(tmp_path, Grammar(seed=2, words=[*WORDS, "new", "words"]), documents=200)
    elmo = Elmo.from_pretrained(trained / "model", device="cpu")
    before = elmo.lm.perplexity(other.held_out())
    untouched = {name: tensor.clone() for name, tensor in elmo._files().tensors.items()}
    recipe = toy_recipe(
        model={"name": "tuned"},
        lm={"rows": 32, "window": 6, "negatives": 50, "keep_vocabulary": False},
        training={"steps": 30},
    )
    other.train(recipe, tmp_path / "run", init=elmo._files())
    tuned = Elmo.from_pretrained(tmp_path / "run/model", device="cpu")
    after = tuned.lm.perplexity(other.held_out())
    assert after.mean < before.mean / 2
    assert (after.unknown_rate, before.unknown_rate > 0) == (0, True)
    assert tuned.config.name == "tuned"
    assert tuned.config.lstm == elmo.config.lstm
    assert same(untouched, elmo._files().tensors)


def test_fine_tuning_begins_with_the_softmax_rows_of_known_words(trained, tmp_path):
    other = Corpus(tmp_path, Grammar(seed=3, words=[*WORDS[:9], "new"]), documents=20)
    init = read_model(trained / "model")
    recipe = toy_recipe(lm={"keep_vocabulary": False})
    task = task_of(other, dataclasses.replace(recipe, model=init.config), init=init)
    theirs = init.lm_head()
    for row, word in enumerate(task.lexicon.words):
        mine = task.model.head.weight[row], task.model.head.bias[row]
        if word == "new":
            assert all((theirs["weight"] - mine[0]).abs().amax(1) > 1e-3)
        else:
            [at] = init.lexicon.rows([word])
            assert torch.equal(mine[0], theirs["weight"][at])
            assert torch.equal(mine[1], theirs["bias"][at])
    assert task.model.bilm.start == "zero"
    assert all(p.requires_grad for p in task.model.parameters())


def test_fine_tuning_leaves_the_softmax_alone_where_it_is_told_to(trained, corpus, tmp_path):
    recipe = toy_recipe(lm={"train_softmax": False}, training={"steps": 3})
    corpus.train(recipe, tmp_path, init=read_model(trained / "model"))
    before, after = weights(trained), weights(tmp_path)
    assert torch.equal(before["softmax.weight"], after["softmax.weight"])
    assert not torch.equal(
        before["forward_lstm.layers.0.projection"], after["forward_lstm.layers.0.projection"]
    )


def test_fine_tuning_may_keep_the_words_of_the_softmax(trained, tmp_path):
    """Text with new and missing words is scored by the same vocabulary before and after."""
    other = Corpus(tmp_path / "text", Grammar(seed=5, words=[*WORDS[::2], "zug", "zog"]))
    recipe = toy_recipe(
        lm={"keep_vocabulary": True, "rows": 16, "dropout": 0.0},
        training={"steps": 60},
    )
    before = read_model(trained / "model")
    scores = other.train(recipe, tmp_path / "run", init=before)
    after = read_model(tmp_path / "run" / "model")
    assert after.lexicon.words == before.lexicon.words
    record = read_record(tmp_path / "run" / "run.json")
    assert record["vocabulary"]["words"] == len(before.lexicon)
    documents = other.held_out()
    found = {  # from zero, as the trainer scores
        run: Elmo.from_pretrained(run / "model", start="zero").lm.perplexity(documents)
        for run in (trained, tmp_path / "run")
    }
    assert found[tmp_path / "run"].mean < found[trained].mean
    assert found[tmp_path / "run"].mean == pytest.approx(scores["held_out_mean"], rel=1e-3)
    assert found[tmp_path / "run"].unknown_rate == found[trained].unknown_rate > 0


def test_fine_tuning_keeps_the_vocabulary_and_says_how_it_was_before(trained, tmp_path):
    other = Corpus(tmp_path / "text", Grammar(seed=5, words=[*WORDS[::2], "zug", "zog"]))
    said = []
    scores = other.train(
        toy_recipe(lm={"rows": 16, "dropout": 0.0}, training={"steps": 60}),
        tmp_path / "run",
        init=read_model(trained / "model"),
        report=said.append,
    )
    assert (
        read_model(tmp_path / "run/model").lexicon.words
        == read_model(trained / "model").lexicon.words
    )
    record = read_record(tmp_path / "run/run.json")
    assert record["results"] == scores
    assert record["recipe"]["lm"]["keep_vocabulary"] is True
    before = Elmo.from_pretrained(trained / "model", start="zero", device="cpu")
    own = before.lm.perplexity(other.held_out())
    assert scores["held_out_mean_before"] == pytest.approx(own.mean, rel=1e-4)
    assert scores["held_out_mean"] < scores["held_out_mean_before"]
    bits = "held_out_bits_per_character"
    assert scores[bits] < scores[f"{bits}_before"] == pytest.approx(own.bits_per_character, 1e-4)
    names = ("held_out_mean_before", f"{bits}_before")
    assert {"before": {name: scores[name] for name in names}} in said


def test_with_a_new_vocabulary_bits_per_character_are_still_comparable(trained, tmp_path):
    other = Corpus(tmp_path / "text", Grammar(seed=5, words=[*WORDS[::2], "zug", "zog"]))
    lm = {"rows": 16, "dropout": 0.0, "keep_vocabulary": False}
    scores = other.train(
        toy_recipe(lm=lm, training={"steps": 60}),
        tmp_path / "run",
        init=read_model(trained / "model"),
    )
    before = Elmo.from_pretrained(trained / "model", start="zero", device="cpu")
    own = before.lm.perplexity(other.held_out()).bits_per_character
    assert scores["held_out_bits_per_character_before"] == pytest.approx(own, rel=1e-4)
    assert scores["held_out_bits_per_character"] < own
    assert scores["held_out_unknown_rate"] == 0


def test_fine_tuning_without_held_out_text_has_nothing_to_compare(trained, tmp_path):
    other = Corpus(tmp_path / "text", GRAMMAR, documents=20, held_out=0.0)
    said = []
    recipe = toy_recipe(data={"held_out": 0.0}, training={"steps": 1})
    init = read_model(trained / "model")
    assert other.train(recipe, tmp_path / "run", init=init, report=said.append) == {}
    assert {"before": {}} in said


def test_on_a_cpu_fine_tuning_keeps_the_token_layer_unless_asked(trained, corpus, tmp_path):
    before = weights(trained)
    for name, lm, is_kept in (("kept", {}, True), ("trained", {"train_tokens": True}, False)):
        recipe = toy_recipe(lm=lm, training={"steps": 2})
        corpus.train(recipe, tmp_path / name, init=read_model(trained / "model"))
        after = weights(tmp_path / name)
        cnn = [n for n in before if n.startswith("token_layer")]
        assert all(torch.equal(before[n], after[n]) == is_kept for n in cnn if "highway" in n)
        assert not torch.equal(before["softmax.weight"], after["softmax.weight"])


def test_kept_token_vectors_are_those_of_the_token_layer(trained, corpus):
    init = read_model(trained / "model")
    recipe = dataclasses.replace(toy_recipe(lm={"train_tokens": False}), model=init.config)
    task = task_of(corpus, recipe, init=init)
    for step in (0, 1, 0):
        batch = task.batches.make(step)
        wanted = task.model.bilm.token_layer(task.speller.table[batch.words])
        torch.testing.assert_close(task.model.token_vectors(batch), wanted)


def test_on_a_cpu_the_fast_step_has_the_loss_and_gradients_of_the_plain_one(
    trained, corpus, monkeypatch
):
    def gradients():
        lm = {"negatives": 8, "window": 6, "dropout": 0.0, "ahead": 0.1, "reach": 3}
        task = task_of(corpus, toy_recipe(lm=lm))
        torch.manual_seed(0)
        loss = task.loss(3)
        loss.backward()
        return [loss.detach(), *(p.grad for p in task.model.parameters())]

    fast = gradients()
    monkeypatch.setenv("RELMO_KERNELS", "reference")
    torch.testing.assert_close(fast, gradients())


def test_a_vocabulary_can_only_be_kept_where_there_is_one(corpus):
    with pytest.raises(ConfigError, match="give one with --init"):
        task_of(corpus, toy_recipe(lm={"keep_vocabulary": True}))


def test_fine_tuning_splits_text_as_the_model_does(trained, tmp_path):
    init = read_model(trained / "model")
    init = dataclasses.replace(
        init, config=dataclasses.replace(init.config, tokenizer="whitespace")
    )
    corpus = Corpus(tmp_path, GRAMMAR, documents=20, tokenizer="whitespace")
    corpus.train(toy_recipe(training={"steps": 1}), tmp_path / "run", init=init)
    record = read_record(tmp_path / "run/run.json")
    assert record["data"]["hash"] == corpus.cache.folder.name
    assert read_model(tmp_path / "run/model").config.tokenizer == "whitespace"


# ── the same twice ──────────────────────────────────────────────────────────────────────────


def test_a_run_is_the_same_twice_and_another_with_another_seed(corpus, tmp_path):
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        recipe = toy_recipe(lm={"dropout": 0.3, "spans": (2, 3)}, training={"seed": seed})
        corpus.train(recipe, tmp_path / name)
    assert metrics(tmp_path / "one") == metrics(tmp_path / "two")
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"))
    assert metrics(tmp_path / "one") != metrics(tmp_path / "other")


def test_a_row_that_begins_anew_begins_without_memory(corpus):
    task = task_of(corpus, toy_recipe(lm={"rows": 64, "spans": (1,), "dropout": 0.0}))
    losses = []
    for memory in (0.0, 1.0):
        task.load_state({name: torch.full_like(t, memory) for name, t in task.state().items()})
        losses.append(task.loss(1).item())
        task.batches.close()
    assert losses[0] == losses[1]


def test_a_loss_with_dropout_depends_on_the_seed_that_is_set(corpus):
    task = task_of(corpus, toy_recipe(lm={"dropout": 0.3}))

    def loss(seed: int) -> float:
        task.load_state({name: torch.zeros_like(t) for name, t in task.state().items()})
        torch.manual_seed(seed)
        return task.loss(0).item()

    assert loss(1) == loss(1) != loss(2)
    task.batches.close()


def test_a_word_that_is_dropped_is_read_as_nothing(corpus):
    """With nearly all words gone the window's loss no longer depends on their vectors."""
    settings = {"dropout": 0.0, "word_dropout": 0.999999, "rows": 64, "spans": (1,)}
    task = task_of(corpus, toy_recipe(lm=settings))
    before = task.loss(0).item()
    with torch.no_grad():
        for parameter in task.model.bilm.token_layer.parameters():
            parameter.mul_(2)
    assert task.loss(0).item() == before
    task.model.eval()
    assert task.loss(0).item() != before
    task.batches.close()


def test_words_ahead_are_foretold_by_a_second_loss(corpus, monkeypatch):
    """With the map at its start, the second loss is that of the next word moved on, by rareness."""
    settings = {"negatives": 50, "dropout": 0.0, "rows": 8, "window": 6, "reach": 4}
    plain, task = (
        task_of(corpus, toy_recipe(lm={**settings, "ahead": weight})) for weight in (0.0, 0.5)
    )
    batch, model = task.batches[0], task.model
    monkeypatch.setattr(torch, "randint", lambda low, high, size: torch.tensor(high - 1))
    _, ahead, _ = model(batch, task._state)
    top, _ = model.read(model.token_vectors(batch)[batch.index], task._state, 0.0)
    losses = model.head.losses(top[:, :-3].flatten(0, 2), batch.targets[:, 3:].flatten())
    weights = (batch.counts * model.rareness[batch.targets])[:, 3:].flatten()
    torch.testing.assert_close(ahead, (losses * weights).sum())
    assert (model.rareness.diff() >= 0).all()
    assert model.rareness[0] < model.rareness[-1] <= 1
    both, alone = task.loss(1), plain.loss(1)
    assert both > alone
    both.backward()
    assert model.ahead.grad.abs().max() > 0
    for run in (plain, task):
        run.batches.close()


def test_the_map_of_words_ahead_stays_out_of_the_model(corpus, tmp_path):
    for name, weight in (("without", 0.0), ("with", 0.5)):
        recipe = toy_recipe(lm={"ahead": weight, "reach": 2}, training={"steps": 3})
        corpus.train(recipe, tmp_path / name)
    without, with_it = weights(tmp_path / "without"), weights(tmp_path / "with")
    assert without.keys() == with_it.keys()
    assert not same(without, with_it)


def test_accumulated_steps_are_one_step_of_their_mean_gradient(corpus, tmp_path):
    training = {"steps": 3, "accumulate": 2}
    recipe = toy_recipe(lm={"dropout": 0.0}, training=training, optimizer={"clip_norm": 0.0})
    corpus.train(recipe, tmp_path)
    by_hand = task_of(corpus, recipe)
    optimizer = make_optimizer(by_hand.model, recipe.optimizer)
    for step in range(3):
        set_rate(optimizer, step / 3, recipe.optimizer)
        first, second = by_hand.loss(2 * step), by_hand.loss(2 * step + 1)
        ((first + second) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    by_hand.batches.close()
    found = weights(tmp_path)
    for name, tensor in by_hand.model.bilm.state_dict().items():
        torch.testing.assert_close(found[name], tensor, atol=1e-5, rtol=0)
    assert read_record(tmp_path / "run.json")["tokens_seen"] == 3 * 2 * 4 * 4


def test_the_loss_is_called_what_it_is(corpus, tmp_path):
    for negatives, name in ((8, "sampled_softmax_loss"), (50, "full_softmax_loss")):
        recipe = toy_recipe(lm={"negatives": negatives}, training={"steps": 1})
        corpus.train(recipe, tmp_path / name)
        assert name in metrics(tmp_path / name)[0]


def test_the_training_core_needs_torch_numpy_and_safetensors_alone():
    heavy = ("h5py", "typer", "rich", "zstandard", "pyarrow")
    code = (
        "import sys, relmo.tasks.lm.pretrain\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_an_unknown_storage_is_refused_before_anything_is_done(corpus, tmp_path):
    with pytest.raises(ConfigError, match="unknown storage 'int4'; choose float32, int8"):
        corpus.train(toy_recipe(), tmp_path / "run", storage="int4")
    assert not (tmp_path / "run").exists()
