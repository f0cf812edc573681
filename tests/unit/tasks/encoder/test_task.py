"""The encoder as a task: batches, what is right, scores, errors, and what is refused."""

import json

import pytest
import torch

from relmo.errors import ConfigError, DataError, TextError
from relmo.tasks.encoder.data import read_text
from relmo.tasks.encoder.task import EncoderTask
from relmo.tasks.installed import describe_task, headline
from relmo.tasks.model_card import About
from relmo.tasks.predictor import load
from relmo.tasks.registry import read_parts
from relmo.tasks.released import export_task
from relmo.tasks.run import load_task, load_task_recipe
from relmo.training.run import read_record
from tests.support.toy_encoder import make_encoder, pair
from tests.support.toy_tasks import TOYS, train_toy

BANK, SONG = "the river bank", "Mira sings"


@pytest.fixture
def task(tiny):
    return make_encoder(tiny)


# ── batches ─────────────────────────────────────────────────────────────────────────────────


def test_what_suits_a_query(task):
    batch = [
        pair("bank", BANK, SONG, "neither"),
        pair("song", SONG),
        pair("bank", "a bank of stone"),
        pair("shore", BANK),
    ]
    (right,) = task.targets(batch)
    assert right.int().tolist() == [
        [1, 0, 1, 1, 0, 0],  # the passages of both equal queries, and the equal passage
        [0, 1, 0, 0, 1, 0],  # also where it is the wrong answer to another query
        [1, 0, 1, 1, 0, 0],
        [1, 0, 0, 1, 0, 0],
    ]


@pytest.mark.parametrize("layers", ["mix", "token"])
def test_reading_in_chunks_gives_the_same_loss_and_gradients(tiny, layers):
    texts = [f"{'the ' * (i % 5)}river {i}. Mira sings {i % 3}!" for i in range(12)]
    batch = [pair(f"bank {i}", text, f"no {i}") for i, text in enumerate(texts)]
    batch.append(batch[0])  # equal texts are read once
    found = []
    for limit in (32_768, 20, 1):
        task = make_encoder(tiny, layers, chunk_tokens=limit)
        task.model.train()
        loss = task.batch_loss(batch)
        loss.backward()
        named = task.model.named_parameters()
        found.append((loss.item(), {name: p.grad for name, p in named if p.grad is not None}))
    (loss, grads), *others = found
    assert {"attention.weight", "projection.weight", "tokens.static.weight"} <= grads.keys()
    assert all(grad.any() for grad in grads.values() if grad.ndim > 1)
    for other, by_chunks in others:
        assert other == pytest.approx(loss, abs=1e-6)
        assert by_chunks.keys() == grads.keys()
        for name, grad in grads.items():
            torch.testing.assert_close(by_chunks[name], grad, atol=1e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize("limit", [32_768, 10])
@pytest.mark.parametrize("layers", ["mix", "token"])
def test_bfloat16_changes_the_loss_little(tiny_lm, layers, limit):
    task = make_encoder(tiny_lm, layers, chunk_tokens=limit)
    batch = [pair(f"river {i}", f"the bank of {i}. Mira sings", "no") for i in range(9)]
    wanted = task.batch_loss(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = task.batch_loss(batch)
        vectors = task.vectors([example.query for example in batch])
    loss.backward()
    assert loss.item() == pytest.approx(wanted.item(), rel=0.02)
    assert (loss.dtype, vectors.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(9))


def test_a_batch_may_be_a_single_pair_or_have_one_passage_alone(task):
    task.model.train()
    for batch in ([pair("bank", BANK)], [pair(f"{i}", BANK) for i in range(3)]):
        loss = task.batch_loss(batch)
        loss.backward()
        torch.testing.assert_close(loss, task.net.tokens.penalty(), atol=1e-5, rtol=0)
        assert all(p.grad.isfinite().all() for p in task.model.parameters() if p.grad is not None)


def test_batches_are_of_one_kind(tiny):
    train = [pair(f"q {i}", f"p {i}", kind=f"{i % 3 % 2}") for i in range(20)]  # 13 and 7 pairs
    task = make_encoder(tiny, train=train, size=4)
    assert task.steps_per_epoch == 4 + 2
    batches = [task.examples_of(step) for step in range(6)]
    assert all(len({each.kind for each in batch}) == 1 for batch in batches)
    assert sorted(len(batch) for batch in batches) == [1, 3, 4, 4, 4, 4]


# ── scores ──────────────────────────────────────────────────────────────────────────────────


def vectors(*angles):
    return [(torch.tensor(q), torch.tensor(p)) for q, p in angles]


def test_scores_by_hand(task):
    east, north = (1.0, 0.0), (0.0, 1.0)
    examples = [pair("a", BANK), pair("b", SONG), pair("a", SONG), pair("c", BANK)]
    found = vectors((east, east), (north, north), (north, north), (north, east))
    scores = task.scores(examples, found)
    assert scores["accuracy"] == pytest.approx(100 * 3 / 4)  # both passages suit the query "a"
    assert scores["mrr"] == pytest.approx(100 * (3 + 1 / 2) / 4)


def test_equal_passages_are_one(task):
    examples = [pair(f"{i}", BANK) for i in range(30)] + [pair("song", SONG)]
    east, north = (1.0, 0.0), (0.0, 1.0)
    found = vectors(*[(east, east)] * 30, (north, north))
    assert task.scores(examples, found) == {"mrr": 100, "accuracy": 100}


def test_an_encoder_that_tells_nothing_apart_is_not_scored_as_perfect(task):
    examples = [pair(f"{i}", f"p {i}") for i in range(30)]
    assert task.scores(examples, vectors(*[((1.0, 0.0), (1.0, 0.0))] * 30))["mrr"] == 0


def test_errors_name_what_was_found_instead(task):
    with torch.no_grad():
        task.net.projection.weight.normal_()
    examples = [pair(f"river {i}", f"Mira {i}.") for i in range(12)]
    errors, accuracy = task.errors(examples), task.score_on(examples)["accuracy"]
    assert 100 * (1 - len(errors) / 12) == pytest.approx(accuracy)
    assert errors
    passages = task.vectors([example.positive for example in examples])
    for error in errors:
        number = error.example - 1
        assert (error.text, error.gold) == (f"river {number}", f"Mira {number} .")
        cosines = passages @ task.vectors([examples[number].query])[0]
        best = int(cosines.argmax())
        assert error.predicted == f"Mira {best} ."
        assert error.score == pytest.approx(cosines[best].item(), abs=1e-5)
    assert task.errors([]) == []
    assert task.errors(examples[:1]) == []


# ── data ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "names", [("query", "positive"), ("Question", "Context"), ("anchor", "passage"), ("a", "text")]
)
def test_common_names_of_columns_are_found(tmp_path, names):
    rows = [dict(zip(names, ("Who?", "Mira."), strict=True))]
    if names == ("a", "text"):  # `text` is a usual name of the query
        rows = [{"text": "Who?", "a": "Mira."}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert EncoderTask.read(tmp_path / "a.jsonl", "train") == [pair("Who?", "Mira.")]


def test_one_file_is_split_so_that_equal_passages_stay_together(tmp_path):
    rows = [{"query": f"q {i}", "positive": f"p {i // 2}", "kind": f"{i % 4 > 1}"}
            for i in range(80)]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    parts = read_parts("encoder", tmp_path / "a.jsonl")
    assert [len(part) for part in parts.values()] == [64, 8, 8]
    passages = [{example.positive for example in part} for part in parts.values()]
    assert not passages[0] & passages[1] | passages[0] & passages[2] | passages[1] & passages[2]


def test_pairs_that_all_have_one_passage_are_refused():
    with pytest.raises(TextError, match="all 2 pairs have the same passage; expected others"):
        EncoderTask.check_training([pair("a", BANK), pair("b", BANK)])
    EncoderTask.check_training([pair("a", BANK), pair("b", SONG)])


def test_a_line_without_words_is_named(tmp_path):
    for part in ("train", "dev"):
        row = '{"query": "a", "positive": "b"}\n{"query": "a", "positive": "\xa0"}\n'
        (tmp_path / f"{part}.jsonl").write_text(row, encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: .* contains no words"):
        read_parts("encoder", tmp_path)


@pytest.mark.parametrize(
    ("elmo", "change", "what"),
    [
        (False, "training.epochs=1", "an encoder needs an ELMo model"),
        (True, "input.place=both", "an encoder reads ELMo at its input, got place 'both'"),
        (True, "input.place=output", "an encoder reads ELMo at its input, got place 'output'"),
        (True, "input.letters=4", "an encoder has no character CNN of its own, got letters 4"),
    ],
)
def test_what_cannot_encode_is_refused_before_anything_is_read(tmp_path, tiny, elmo, change, what):
    with pytest.raises(ConfigError, match=what):
        train_toy("encoder", tmp_path, tmp_path / "run", tiny if elmo else None, change)


@pytest.mark.parametrize("name", ["encoder", "encoder-search"])
def test_the_recipes_are_of_the_task(name):
    recipe = load_task_recipe("encoder", name)
    assert recipe.model.width == 256
    assert recipe.input.output_embeddings
    EncoderTask.check_input(recipe.input, has_elmo=True)


# ── a run ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_lm):
    """A run on the toy's pairs with the softmax's rows and a large dev part."""
    home = tmp_path_factory.mktemp("encoder")
    data = TOYS["encoder"].write_parts(home / "data", 80, 20)
    changes = ["input.output_embeddings=true", "training.epochs=2"]
    train_toy("encoder", data, home / "run", tiny_lm, *changes)
    return home / "run"


def test_a_record_has_the_scores_of_a_search(run):
    results = read_record(run / "run.json")["results"]
    assert results.keys() == {"dev_mrr", "dev_accuracy", "test_mrr", "test_accuracy"}
    assert results["dev_accuracy"] <= results["dev_mrr"]
    assert headline("encoder", results) == ("test_mrr", results["test_mrr"])


def test_a_run_is_shared_in_eight_bits_and_described(run, tiny_lm, tmp_path, monkeypatch):
    monkeypatch.setattr("relmo.tasks.released.SMALL", 1)
    about = About(name="tiny-search", licence="CC-BY-SA-4.0", example=("Mira sings.",))
    options = {"elmo": tiny_lm, "test": run.parent / "data" / "test.jsonl"}
    facts = export_task(run, tmp_path / "shared", about, storage="int8", **options)
    assert (facts["task"], facts["labels"], facts["storage"]) == ("encoder", [], "int8")
    assert facts["stored"].keys() == {"test_mrr", "test_accuracy"}
    assert not facts["calibration"]
    assert describe_task(tmp_path / "shared")["results"] == facts["results"]
    whole, shared = (load(each, elmo=tiny_lm, device="cpu") for each in (run, tmp_path / "shared"))
    texts = ["badu rasin", "lotof kiven Mira", "😀"]
    cosines = (whole.encode(texts) * shared.encode(texts)).sum(1)
    assert (cosines > 0.999).all()
    card = (tmp_path / "shared" / "README.md").read_text(encoding="utf-8")
    assert "sentence-similarity" in card
    assert f"test MRR | {facts['results']['test_mrr']:.2f} %" in card
    assert "probability" not in card
    shown = next(line for line in card.splitlines() if line.startswith("# [")).split(",")
    assert len(shown) == 4
    assert shown[-1] == " …]"


def test_a_loaded_task_reads_text_and_scores_the_dev_part(run, tiny_lm):
    task = load_task(run, elmo=tiny_lm, device="cpu")
    dev = read_parts("encoder", run.parent / "data")["dev"]
    assert task.score_on(dev)["mrr"] == pytest.approx(
        read_record(run / "run.json")["results"]["dev_mrr"]
    )
    assert task.read_input(" ") == []
    (example,) = task.read_input("Mira left. She sang.")
    assert example.query == read_text("Mira left. She sang.")
    ((found,),) = task.answer([example])
    assert found == pytest.approx(task.vectors([example.query])[0].tolist(), abs=1e-6)
