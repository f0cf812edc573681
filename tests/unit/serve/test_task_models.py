"""Task models are loaded around shared ELMo models, and asked over HTTP like embeddings."""

import copy
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from relmo import Elmo
from relmo.errors import ConfigError, ModelNotFound
from relmo.tasks.predictor import Predictor, load
from relmo.tasks.results import to_json
from relmo.tasks.run import TaskCard
from tests.conftest import tiny_config
from tests.support.serving import EXTRA, live, until
from tests.support.toy_tasks import TOYS, train_toy

pytest.importorskip("fastapi", reason=EXTRA)
from relmo.serve.access import Access
from relmo.serve.limits import Limits
from relmo.serve.task_models import LoadedTask, labels_of, load_tasks

TEXTS = [" ada inc in rome 😀.\n\nThe fox  in oslo", "", "it dan in bonn", "שלום e\u0301!"]


def elmo_of(loaded: LoadedTask) -> Elmo:
    return loaded.predictor.task.inputs.elmo.elmo


def near(results):
    """The same results, whose scores may differ in the last digit by their batch."""
    if isinstance(results, float):
        return pytest.approx(results, abs=1e-5)
    if isinstance(results, dict):
        return {key: near(value) for key, value in results.items()}
    return [near(each) for each in results] if isinstance(results, list) else results


# ── loading ─────────────────────────────────────────────────────────────────────────────────


def test_tasks_share_the_servers_model(tasks, tiny):
    assert [elmo_of(loaded) for loaded in tasks] == [tiny, tiny]
    assert [(loaded.predictor.name, loaded.task, loaded.elmo) for loaded in tasks] == [
        ("ner", "ner", "tiny"), ("squad", "squad", "tiny"),
    ]  # fmt: skip


@pytest.fixture
def moved(task_folders, tiny, tmp_path):
    """Copies of the runs that find their model in a folder."""
    tiny.save_pretrained(tmp_path / "model")
    folders = [tmp_path / folder.name for folder in task_folders]
    for folder, there in zip(task_folders, folders, strict=True):
        shutil.copytree(folder, there)
        card = TaskCard.read(there)
        card.elmo["place"] = str(tmp_path / "model")
        card.write(there)
    return folders


def test_tasks_share_a_model_that_the_server_does_not_use(moved):
    other = Elmo.untrained(tiny_config(name="other"), seed=2)
    first, second = map(elmo_of, load_tasks(moved, other))
    assert first is second
    assert first is not other


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_shared_model_keeps_its_precision(moved, precision):
    elmo = Elmo.from_pretrained(moved[0].parent / "model", precision=precision)
    found = load_tasks(moved, elmo, precision)
    assert [elmo_of(loaded) for loaded in found] == [elmo, elmo]
    assert elmo.precision == precision


def test_a_task_whose_model_is_missing_says_what_to_do(task_folders):
    other = Elmo.untrained(tiny_config(), seed=2)
    with pytest.raises(ModelNotFound, match="needs the ELMo model tiny; install it, or serve it"):
        load_tasks(task_folders, other)


def test_two_models_of_one_name_are_refused_before_loading(tiny):
    said = "a/run and b/run/ are both called 'run'; a model has the name of its folder"
    with pytest.raises(ConfigError, match=said):
        load_tasks(["a/run", "b/run/"], tiny)


@pytest.mark.parametrize("name", ["my run", "naïve", "a%2Fb", "run?", ".hidden", "run\n", ""])
def test_a_name_that_needs_escapes_in_a_url_is_refused(tiny, tasks, make_app, name):
    if name:
        with pytest.raises(ConfigError, match="cannot be a part of a URL; rename"):
            load_tasks([f"runs/{name}"], tiny)
    renamed = LoadedTask(Predictor(tasks[0].predictor.task, name), "ner")
    with pytest.raises(ConfigError, match="cannot be a part of a URL"):
        make_app(tasks=[renamed])


def test_a_run_is_named_by_its_folder_however_it_is_given(task_folders, tiny, monkeypatch):
    monkeypatch.chdir(task_folders[0])
    assert [each.predictor.name for each in load_tasks(["."], tiny)] == ["ner"]
    assert [each.predictor.name for each in load_tasks(["../squad/"], tiny)] == ["squad"]


def test_what_is_no_task_model_is_refused(tiny, tmp_path):
    with pytest.raises(ModelNotFound, match="no task.json"):
        load_tasks([tmp_path], tiny)


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def client(make_client, tasks):
    return make_client(tasks=tasks)


def test_served_tasks_are_listed(client, make_client):
    ner, squad = client.get("/tasks").json()["tasks"]
    assert ner == {"name": "ner", "task": "ner", "texts": ["text"], "result": "entities",
                   "labels": ["LOC", "ORG", "PER"], "elmo": "tiny"}  # fmt: skip
    assert (squad["texts"], squad["result"], squad["labels"]) == (
        ["question", "text"], "answer", [],
    )  # fmt: skip
    assert make_client().get("/tasks").json() == {"tasks": []}


def test_strings_and_objects_are_answered_alike(client, tasks):
    wanted = [to_json(tasks[0].predictor(text)) for text in TEXTS]
    for inputs in (TEXTS, [{"text": text} for text in TEXTS]):
        answer = client.post("/predict/ner", json={"inputs": inputs})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["model"], found["task"]) == ("ner", "ner")
        assert found["results"] == near(wanted)
        assert found["results"][1] == []


def test_offsets_are_code_points_of_the_text_as_given(client):
    (found,) = client.post("/predict/ner", json={"inputs": TEXTS[:1]}).json()["results"]
    assert found
    assert all(TEXTS[0][each["start"] : each["end"]] == each["text"] for each in found)


def test_two_texts_go_by_their_names_in_any_order(client, tasks):
    pairs = [("who ?", text) for text in TEXTS]
    inputs = [{"text": text, "question": question} for question, text in pairs]
    found = client.post("/predict/squad", json={"inputs": inputs}).json()["results"]
    assert found == near([to_json(tasks[1].predictor(*pair)) for pair in pairs])
    assert found[1] is None
    assert found[0]["text"]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/predict/ner", {"inputs": []}, "expected a list of at least 1 input"),
        ("/predict/ner", {"inputs": "a"}, "expected a list of at least 1 input"),
        ("/predict/ner", {"inputs": ["a", 3]}, "input 1: expected a string, or an object with the"),
        ("/predict/ner", {"inputs": [{"txt": "a"}]}, "input 0: expected a string, or an object"),
        ("/predict/ner", {"inputs": [{"text": None}]}, "input 0: expected a string, or an object"),
        ("/predict/squad", {"inputs": ["a"]}, "an object with the strings question and text"),
        ("/predict/squad", {"inputs": [{"text": "a"}]}, "with the strings question and text"),
        ("/predict/squad", {"inputs": [["a", "b"]]}, "with the strings question and text"),
        ("/predict/ner", {"texts": ["a"]}, "inputs: Field required; texts: an unknown field"),
        ("/predict/ner", [], "expected a JSON object"),
    ],
)
def test_a_body_of_another_form_is_422(client, path, body, said):
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"]


def test_an_unknown_name_is_404_with_the_known_ones(client, make_client):
    error = client.post("/predict/nar", json={"inputs": ["a"]})
    assert (error.status_code, error.json()["error"]["code"]) == (404, "task_not_found")
    assert "the server has 'ner', 'squad'" in error.json()["error"]["message"]
    error = make_client().post("/predict/ner", json={"inputs": ["a"]})
    assert error.status_code == 404
    assert "--task NAME" in error.json()["error"]["message"]


def test_the_key_is_needed_and_the_route_counted(make_client, tasks):
    client = make_client(tasks=tasks, access=Access(api_key="right"))
    assert client.get("/tasks").status_code == 401
    body = {"inputs": ["ada in rome"]}
    assert client.post("/predict/ner", json=body).status_code == 401
    client.headers["authorization"] = "Bearer right"
    assert client.post("/predict/ner", json=body).status_code == 200
    client.post("/predict/other", json=body)
    found = client.get("/metrics").text
    assert 'relmo_requests_total{method="POST",route="/predict/ner",status="200"} 1.0' in found
    assert 'route="/predict/{name}",status="404"} 1.0' in found
    assert "relmo_tokens_total 5.0" in found  # with the boundaries


@pytest.mark.parametrize(
    ("path", "inputs", "code"),
    [
        ("/predict/ner", ["a"] * 4, "too_many_texts"),
        ("/predict/ner", ["a " * 200], "too_many_characters"),
        ("/predict/ner", ["a b c d e f g h i"], "sentence_too_long"),
        ("/predict/ner", ["a b c d e f. G h."] * 3, "too_many_tokens"),
        ("/predict/squad", [{"question": "a b c ?", "text": "a b c d."}], "text_too_long"),
    ],
)
def test_too_much_in_one_request(make_client, tasks, path, inputs, code):
    limits = Limits(texts=3, tokens=20, sentence_tokens=8, document_tokens=8, characters=300)
    client = make_client(tasks=tasks, limits=limits)
    answer = client.post(path, json={"inputs": inputs})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)
    assert answer.json()["error"]["param"] == "inputs"
    body = {"inputs": ["a b c d e."] * 3}
    assert client.post("/predict/ner", json=body).status_code == 200


def test_as_many_inputs_as_texts_are_allowed_have_room_for_their_names(client, tasks, monkeypatch):
    monkeypatch.setattr(tasks[1].predictor.task, "answer", lambda examples: [[] for _ in examples])
    inputs = [{"question": "a", "text": "b"}] * Limits().texts
    answer = client.post("/predict/squad", json={"inputs": inputs})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["results"]) == Limits().texts


def test_results_count_as_memory(make_client, tasks):
    client = make_client(tasks=tasks, limits=Limits(memory_bytes=1))
    client.app.state.memory.used = 1  # another request
    body = {"inputs": ["a b c"] * 600}
    answer = client.post("/predict/ner", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "server_busy")
    assert client.post("/predict/ner", json={"inputs": ["a"]}).status_code == 200


# ── batches ─────────────────────────────────────────────────────────────────────────────────


def test_requests_that_come_together_are_read_together_and_answered_as_alone(
    make_app, tasks, monkeypatch
):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    predictor = tasks[0].predictor
    texts = [f"{'the ' * (i % 7)}ada inc in rome. It {i} dan in oslo" for i in range(24)]
    alone = [to_json(predictor(text)) for text in texts]
    sizes, threads, ask_model = [], set(), predictor.task.answer

    def answer(examples):
        sizes.append(len(examples))
        threads.add(threading.current_thread().name)
        return ask_model(examples)

    monkeypatch.setattr(predictor.task, "answer", answer)
    app = make_app(tasks=tasks)
    sizes.clear(), threads.clear()
    batcher, gate = app.state.service.batcher, threading.Event()
    with live(app) as url, httpx.Client(base_url=url, timeout=60) as client:

        def ask(text):
            found = client.post("/predict/ner", json={"inputs": [text]}).json()
            return found["results"][0]

        held = batcher.call(lambda: gate.wait(20), 1)
        with ThreadPoolExecutor(len(texts) + 1) as pool:
            found = pool.map(ask, texts)
            vectors = pool.submit(client.post, "/v1/embeddings", json={"input": "a b"})
            until(lambda: batcher.requests == len(texts) + 2)
            gate.set()
            found = list(found)
        assert vectors.result().status_code == 200
        assert held.result(5)
    assert found == near(alone)
    assert max(sizes) > 2  # more than the sentences of one text
    assert threads == {"relmo-model"}  # where ELMo runs too


def test_others_are_answered_while_a_long_text_is_read(make_client, tasks, monkeypatch):
    client = make_client(tasks=tasks, limits=Limits(batch_tokens=20))
    task, answers = tasks[0].predictor.task, []
    ask_model, batches = task.answer, []

    def answer(examples):
        batches.append(len(examples))
        if len(batches) == 1:
            asker = threading.Thread(
                target=lambda: answers.append(client.post("/v1/embeddings", json={"input": "a"}))
            )
            asker.start()
            until(lambda: client.app.state.service.batcher.requests == 2)
            answers.append(asker)
        elif len(batches) == 3:
            answers[0].join(10)
        return ask_model(examples)

    monkeypatch.setattr(task, "answer", answer)
    body = {"inputs": ["Ada in rome. " * 30]}
    assert client.post("/predict/ner", json=body).status_code == 200
    assert len(batches) > 5
    assert answers[1].status_code == 200


def test_a_task_that_fails_leaves_the_others_alone(make_client, tasks, monkeypatch):
    client = make_client(tasks=tasks)
    monkeypatch.setattr(tasks[0].predictor.task, "answer", lambda examples: 1 / 0)
    assert client.post("/predict/ner", json={"inputs": ["a"]}).status_code == 500
    body = {"inputs": [{"question": "who ?", "text": "ada in rome"}]}
    assert client.post("/predict/squad", json=body).status_code == 200


def test_a_closed_server_refuses(client):
    client.app.state.service.batcher.close()
    answer = client.post("/predict/ner", json={"inputs": ["a"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "going_down")


# ── labels ──────────────────────────────────────────────────────────────────────────────────


def test_labels_are_those_of_results(tasks):
    task = copy.copy(tasks[0].predictor.task)
    task.tags, task.result_name = ["B-A0", "I-A0", "B-V", "O"], "frames"
    assert labels_of(task) == ["A0"]
    task.tags, task.result_name = ["NOUN", "B-X", "O"], "tokens"
    assert labels_of(task) == ["NOUN", "B-X", "O"]


def test_a_fine_tuned_task_reads_with_its_own_copy(tmp_path, tiny):
    data = TOYS["pos"].write_parts(tmp_path / "data")
    changes = ["input.finetune=true", "training.steps=1"]
    train_toy("pos", data, tmp_path / "tuned", tiny, *changes)
    (loaded,) = load_tasks([tmp_path / "tuned"], tiny)
    assert elmo_of(loaded) is not tiny
    wanted = load(tmp_path / "tuned", elmo=tiny, device="cpu")("ada saw the fox")
    assert to_json(loaded.predictor("ada saw the fox")) == near(to_json(wanted))
