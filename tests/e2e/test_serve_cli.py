"""`relmo serve` as a process: started, asked, restarted under load, stopped."""

import json
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from relmo import Elmo
from tests.conftest import tiny_config
from tests.support.serving import EXTRA, ServerProcess, free_port
from tests.support.toy_tasks import TOYS, train_toy

pytest.importorskip("fastapi", reason=EXTRA)
httpx = pytest.importorskip("httpx", reason="pip install httpx")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tagger(tmp_path_factory, model) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    data = TOYS["pos"].write_parts(folder / "data")
    train_toy("pos", data, folder / "tagger", model, "training.epochs=1")
    return folder / "tagger"


class Asker(threading.Thread):
    """Sends one text after another and keeps what came back for each."""

    def __init__(self, url: str, name: str, stop: threading.Event) -> None:
        super().__init__()
        self.url, self.label, self.stop = url, name, stop
        self.answers: dict[str, list[float]] = {}
        self.refused = 0

    def run(self) -> None:
        number = 0
        with httpx.Client(timeout=30) as client:
            while not self.stop.is_set():
                text = f"{self.label} {number}"
                try:
                    answer = client.post(f"{self.url}/v1/embeddings", json={"input": text})
                except httpx.TransportError:  # nobody there: it was not accepted; ask again
                    self.refused += 1
                    time.sleep(0.02)
                    continue
                if answer.status_code == 503:  # accepted by nobody, and told so
                    self.refused += 1
                    continue
                assert answer.status_code == 200, answer.text
                self.answers[text] = answer.json()["data"][0]["embedding"]
                number += 1


def test_a_graceful_restart_loses_no_accepted_request_and_answers_none_twice(model):
    port, stop = free_port(), threading.Event()
    first = ServerProcess(model, port=port)
    askers = [Asker(first.url, f"asker{i} the bank", stop) for i in range(6)]
    for asker in askers:
        asker.start()
    time.sleep(0.7)
    code = first.stop()
    second = ServerProcess(model, port=port)
    time.sleep(0.7)
    stop.set()
    for asker in askers:
        asker.join()
    assert (code, second.stop()) == (0, 0)
    answered = [
        line for line in first.log + second.log
        if line.get("route") == "/v1/embeddings" and line["status"] == 200
    ]  # fmt: skip
    got = {text: vector for asker in askers for text, vector in asker.answers.items()}
    assert sum(asker.refused for asker in askers) > 0  # there was a gap between the two
    assert len(got) > 20
    assert len(answered) == len(got)  # what was answered arrived, each once
    assert len({line["id"] for line in answered}) == len(answered)
    texts = sorted(got)[::7]
    wanted = Elmo.from_pretrained(model).encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(np.array([got[text] for text in texts]), wanted, atol=1e-5)
    stops = [line for line in first.log if line["event"] == "stop"]
    assert len(stops) == 1


def test_what_was_accepted_before_the_signal_is_answered(model):
    server = ServerProcess(model, port=free_port())
    texts = [" ".join([f"word{i}"] * 200) for i in range(150)]
    found: list[int] = []

    def ask() -> None:
        answer = httpx.post(f"{server.url}/v1/embeddings", json={"input": texts}, timeout=60)
        found.append(len(answer.json()["data"]))

    asker = threading.Thread(target=ask)
    asker.start()
    while "relmo_queue_requests 1.0" not in httpx.get(f"{server.url}/metrics").text:
        assert asker.is_alive(), "it was answered before the signal: make it longer"
    assert server.stop(signal.SIGINT) in (0, 130)
    asker.join()
    assert found == [150]


def test_a_task_model_is_served_until_what_was_accepted_is_answered(model, tagger):
    server = ServerProcess(model, "--task", str(tagger), port=free_port())
    assert httpx.get(f"{server.url}/tasks").json()["tasks"][0]["name"] == "tagger"
    found: list[int] = []

    def ask() -> None:
        body = {"inputs": ["Ada saw the fox. " * 200] * 8}
        answer = httpx.post(f"{server.url}/predict/tagger", json=body, timeout=60)
        found.extend(len(tokens) for tokens in answer.json()["results"])

    asker = threading.Thread(target=ask)
    asker.start()
    while "relmo_queue_requests 1.0" not in httpx.get(f"{server.url}/metrics").text:
        assert asker.is_alive(), "it was answered before the signal: make it longer"
    assert server.stop() == 0
    asker.join()
    assert found == [1000] * 8
    assert server.lines[1] == "relmo: tagger (pos) at /predict/tagger\n"
    start = next(line for line in server.log if line["event"] == "start")
    assert start["tasks"] == ["tagger"]


def test_the_key_comes_from_the_environment(model):
    server = ServerProcess(model, "--api-key", port=free_port(), env={"RELMO_API_KEY": "s3cret"})
    try:
        assert httpx.get(f"{server.url}/health").status_code == 200
        assert httpx.get(f"{server.url}/v1/models").status_code == 401
        headers = {"authorization": "Bearer s3cret"}
        assert httpx.get(f"{server.url}/v1/models", headers=headers).status_code == 200
        stranger = {"host": "evil.example", **headers}
        assert httpx.get(f"{server.url}/v1/models", headers=stranger).status_code == 400
    finally:
        assert server.stop() == 0
    assert "s3cret" not in json.dumps(server.log)
    assert server.lines[0].startswith(f"relmo: serving tiny at {server.url} ")
    assert [line["event"] for line in server.log if line["event"] == "start"] == ["start"]


def test_a_call_that_cannot_work_is_refused_at_once(run, model, monkeypatch):
    monkeypatch.delenv("RELMO_API_KEY", raising=False)
    found = run("serve", "--model", model, "--api-key")
    assert (found.returncode, b"RELMO_API_KEY" in found.stderr) == (2, True)
    monkeypatch.setenv("RELMO_API_KEY", "s3cret\n")
    found = run("serve", "--model", model)
    assert (found.returncode, b"often ends with a newline" in found.stderr) == (2, True)
    monkeypatch.delenv("RELMO_API_KEY")
    monkeypatch.setenv("RELMO_LIMITS", "texts=3 tokens=x")
    found = run("serve", "--model", model)
    assert (found.returncode, b"got 'tokens=x'" in found.stderr) == (2, True)
    monkeypatch.delenv("RELMO_LIMITS")
    found = run("serve", "--model", model, "--set", "textes=3")
    assert (found.returncode, b"did you mean 'texts'" in found.stderr) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = run("serve", "--model", model, "--port", taken.getsockname()[1])
    assert (found.returncode, b"choose another --port" in found.stderr) == (2, True)
    found = run("serve", "--model", "no-such-model", "--port", 0)
    assert found.returncode == 2
    tasks = ["--task", "a/run", "--task", "b/run"]
    found = run("serve", "--model", model, "--port", 0, *tasks)
    assert (found.returncode, b"are both called 'run'" in found.stderr) == (2, True)
    found = run("serve", "--model", model, "--port", 0, "--task", model)
    assert (found.returncode, b"is not the folder of a task's run" in found.stderr) == (2, True)
