"""Question answering as a task: parts, training, and a model that is taken up again."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from relmo.errors import ConfigError
from relmo.tasks.inputs import Inputs
from relmo.tasks.registry import read_parts
from relmo.tasks.run import load_task, load_task_recipe, make_task_recipe, train_task
from relmo.tasks.squad.data import Answer, Context, Question
from relmo.tasks.squad.task import SquadTask, best_scores, evaluate, normalize
from relmo.tasks.static_vectors import random_vectors

KINDS = {
    "colour": ["red", "blue", "green"],
    "animal": ["cat", "dog", "brown owl"],
    "place": ["York", "New York", "Rome"],
}
FILLERS = ["one", "day", "it", "was", "there", "and", "then", "so", "it", "went", "on", "é🐈"]
RECIPE = {
    "input": {"letters": 4, "place": "both"},
    "model": {"cell_width": 12, "hidden_width": 16, "dropout": 0.1},
    "batch": {"size": 16, "max_length": 30},
    "training": {"epochs": 8, "log_every": 5},
    "optimizer": {"learning_rate": 1e-2},
}


def paragraph(rng, name):
    """Each kind of thing once, anywhere; the question says which kind is meant."""
    things = {kind: rng.choice(words) for kind, words in KINDS.items()}
    words = [*things.values(), *rng.choices(FILLERS, k=rng.randint(2, 8))]
    rng.shuffle(words)
    context = " ".join(words)
    qas = [
        {
            "id": f"{name} {kind}",
            "question": f"Which {kind}?",
            "answers": [{"text": thing, "answer_start": f" {context} ".index(f" {thing} ")}],
        }
        for kind, thing in things.items()
    ]
    return {"context": context, "qas": qas}


def write_part(path, num_articles, seed):
    rng = random.Random(seed)
    articles = [
        {"title": f"{seed} {n}", "paragraphs": [paragraph(rng, f"{seed} {n} {k}") for k in "ab"]}
        for n in range(num_articles)
    ]
    path.write_text(json.dumps({"data": articles}))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder as SQuAD comes: no test part."""
    folder = tmp_path_factory.mktemp("squad")
    write_part(folder / "train-v1.1.json", 60, 1)
    write_part(folder / "dev-v1.1.json", 10, 2)
    return folder


@pytest.fixture(scope="module", params=["baseline", "elmo"])
def trained(request, data, tmp_path_factory, tiny):
    """A trained model's folder, its scores and the ELMo model that it reads with."""
    elmo = tiny if request.param == "elmo" else None
    output = tmp_path_factory.mktemp(request.param) / "run"
    recipe = make_task_recipe("squad", RECIPE, "test")
    lines = []
    scores = train_task("squad", recipe, data, output, elmo=elmo, device="cpu", report=lines.append)
    return output, scores, elmo, lines


def asked(data):
    return read_parts("squad", data)["test"]


def test_the_loss_falls_and_answers_become_right(trained):
    _, scores, _, lines = trained
    losses = [line["mean_loss"] for line in lines if "mean_loss" in line]
    assert losses[-1] < losses[0] / 4
    assert scores["dev_f1"] >= 90
    assert scores["test_f1"] >= 90
    assert 85 <= scores["test_exact_match"] <= 100


def test_a_model_taken_up_again_says_the_same(trained, data):
    folder, scores, elmo, _ = trained
    task = load_task(folder, elmo=elmo, device="cpu")
    examples = asked(data)
    answers = task.predict(examples)
    assert answers == load_task(folder, elmo=elmo, device="cpu").predict(examples)
    assert task.scores(examples, answers)["f1"] == pytest.approx(scores["test_f1"])
    task.threshold = 0.0
    for example, span, (said,) in zip(examples, answers, task.answer(examples), strict=True):
        assert said.text == example.context.span_text(*span) != ""
        assert said.text == example.context.text[said.start : said.end]
        assert 0 <= said.score <= 1


def test_neighbours_do_not_change_an_answer(trained, data):
    folder, _, elmo, _ = trained
    task = load_task(folder, elmo=elmo, device="cpu")
    examples = asked(data)
    assert [task.predict([e])[0] for e in examples] == task.predict(examples)


def test_odd_questions_are_answered(trained, data):
    folder, _, elmo, _ = trained
    task = load_task(folder, elmo=elmo, device="cpu")
    one = asked(data)[0]
    nothing = replace(one.context, text="", words=(), starts=one.context.starts[:0])
    odd = [
        replace(one, words=()),
        replace(one, context=nothing),
        replace(one, words=("😀" * 99, "שלום", "e\u0301")),
    ]
    first, empty, last = task.predict(odd)
    for answer in (first, last):
        assert one.context.span_text(*answer) in one.context.text
    assert empty is None
    assert task.answer([odd[1]]) == [[]]
    assert task.predict([replace(one, context=nothing)]) == [None]
    assert task.predict([replace(one, words=())]) == [first]


def test_whole_articles_are_held_out_where_there_is_no_test_part(data):
    parts = read_parts("squad", data)
    titles = {part: {q.title for q in found} for part, found in parts.items()}
    assert not titles["train"] & titles["dev"]
    assert len(titles["train"] | titles["dev"]) == 60
    assert titles["dev"]
    assert len(parts["test"]) == 60
    assert {t.partition(" ")[0] for t in titles["test"]} == {"2"}


def test_three_files_are_the_three_parts(tmp_path):
    for seed, name in enumerate(("train", "dev", "test")):
        write_part(tmp_path / f"{name}.json", 2 + seed, seed)
    found = {part: len(questions) for part, questions in read_parts("squad", tmp_path).items()}
    assert found == {"train": 12, "dev": 18, "test": 24}


def test_too_few_articles_to_hold_some_out_are_an_error(tmp_path):
    for seed, name in enumerate(("train", "dev")):
        write_part(tmp_path / f"{name}.json", 1, seed)
    with pytest.raises(ConfigError, match="1 training articles are too few"):
        read_parts("squad", tmp_path)


def make_task(examples: list[Question], **changes) -> SquadTask:
    recipe = make_task_recipe("squad", {**RECIPE, **changes}, "test")
    inputs = Inputs(random_vectors(["Which", "it"], 5), None, None, torch.device("cpu"))
    settings = replace(recipe.input, letters=0)
    tokens = inputs.make_module(settings)
    return SquadTask(recipe.model, {}, inputs, tokens, examples, examples, recipe.batch)


def test_long_contexts_are_left_out_of_training_alone(data):
    examples = asked(data)
    task = make_task(examples, batch={"size": 4, "max_length": 8})
    assert 0 < len(task.train) < len(examples)
    assert max(map(task.length, task.train)) <= 8
    assert len(task.dev) == len(task.predict(task.dev)) == len(examples)


@pytest.mark.parametrize(("everywhere", "num_spans"), [(True, 2), (False, 1)])
def test_all_places_of_an_answer_are_learned_from_where_asked_for(tmp_path, everywhere, num_spans):
    context = "it saw York and York saw it"
    answers = [{"text": "York", "answer_start": 7}]
    qas = [{"id": "a", "question": "Which?", "answers": answers}]
    articles = [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]}]
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"data": articles}))
    examples = SquadTask.read(path, "train")
    model = {**RECIPE["model"], "all_occurrences": everywhere}
    spans, is_span = make_task(examples, model=model).targets(examples)
    assert is_span.tolist() == [[True] * num_spans]
    assert spans.tolist() == [[[2, 2], [4, 4]][:num_spans]]


def test_the_recipe_of_the_package_is_the_papers():
    recipe = load_task_recipe("squad")
    assert (recipe.model.cell_width, recipe.model.hidden_width) == (90, 180)
    assert (recipe.input.place, recipe.input.l2, recipe.input.tune_static) == ("both", 0.0, False)
    assert recipe.batch.max_length == 400


# ── exact match and F1, computed by hand ────────────────────────────────────────────────────────

NOWHERE = Context("", (), np.zeros(0, np.int32), np.zeros(0, np.int32))


def question(name, *answers):
    return Question(name, "", NOWHERE, (), tuple(Answer(text, 0, 0) for text in answers))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  U.S.!", ["us"]),
        ("a cat, an owl and the\tant", ["cat", "owl", "and", "ant"]),
        ("Athe theatre", ["athe", "theatre"]),
        ("«Ünïcode» 🐈", ["«ünïcode»", "🐈"]),  # only ASCII punctuation goes
        ("well-known", ["wellknown"]),
        ("the a-team", ["ateam"]),  # punctuation goes first, so that "a-" is no article
        ("The", []),
        ("", []),
    ],
)
def test_case_punctuation_articles_and_spaces_do_not_count(text, words):
    assert normalize(text) == words


def test_f1_is_that_of_bags_of_words():
    exact_match, f1 = best_scores("red red cat", ["the red cat sat down"])
    assert exact_match == 0
    assert f1 == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_a_word_counts_as_often_as_both_have_it():
    assert best_scores("no no no", ["no no"])[1] == pytest.approx(80)


def test_each_measure_takes_the_answer_that_fits_best():
    assert best_scores("in 1843", ["1843", "In 1843.", "the year 1843"]) == (100, 100)
    assert best_scores("1843 or 1844", ["1843", "in 1843 or so"])[1] == pytest.approx(400 / 7)


def test_order_matters_for_exact_match_alone():
    assert best_scores("b c", ["c b"]) == (0, 100)


def test_texts_without_words_match_exactly_and_share_nothing():
    assert best_scores("the", ["."]) == (100, 0)  # as the official script has it
    assert best_scores("", ["cat"]) == (0, 0)


def test_scores_are_means_over_questions():
    questions = [question("a", "x"), question("b", "y z"), question("c", "w")]
    exact_match, f1 = evaluate(questions, ["x", "y", "v"])
    assert exact_match == pytest.approx(100 / 3)
    assert f1 == pytest.approx((100 + 200 / 3 + 0) / 3)


def test_each_question_needs_a_prediction():
    with pytest.raises(ValueError, match="shorter"):
        evaluate([question("a", "cat"), question("b", "owl")], ["a cat"])


def test_no_questions_score_nothing():
    assert evaluate([], []) == (0, 0)
