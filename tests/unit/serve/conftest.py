"""A server around the tiny model, in this process."""

import contextlib

import pytest
import torch

from relmo import Elmo
from relmo.nn.bilm import BiLM, initialize
from relmo.text.lexicon import Lexicon
from tests.conftest import tiny_config
from tests.support.serving import EXTRA
from tests.support.toy_tasks import TOYS, train_toy

WORDS = ("the", "bank", "<UNK>", "raised", "</S>", "rates", "river", "<S>", ".", "we", "sat")


@pytest.fixture(scope="session")
def speaking() -> Elmo:
    """A tiny model with a random softmax."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(len(WORDS), 8, generator=generator)
    head = {"weight": weight, "bias": torch.zeros(len(WORDS))}
    return Elmo(initialize(BiLM(tiny_config()), seed=1), Lexicon(WORDS), lambda: head)


@pytest.fixture
def make_app(tiny):
    """Apps that are closed at the end."""
    pytest.importorskip("fastapi", reason=EXTRA)
    from relmo.serve.app import create_app

    apps = []

    def make(elmo=tiny, **settings):
        apps.append(create_app(elmo, **settings))
        return apps[-1]

    yield make
    for app in apps:
        app.state.service.batcher.close()


@pytest.fixture
def make_client(make_app):
    """Clients of apps of their own."""
    pytest.importorskip("httpx", reason=EXTRA)
    from fastapi.testclient import TestClient

    with contextlib.ExitStack() as stack:

        def make(elmo=None, **settings):
            app = make_app(**({} if elmo is None else {"elmo": elmo}), **settings)
            client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
            return stack.enter_context(client)

        yield make


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture(scope="session")
def task_folders(tmp_path_factory, tiny):
    """Toy runs that read with the tiny model: one reads a text, the other two."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("ner", "squad"):
        data = TOYS[name].write_parts(folder / f"{name}-data")
        train_toy(name, data, folder / name, tiny, "training.epochs=1")
    return [folder / "ner", folder / "squad"]


@pytest.fixture(scope="session")
def tasks(task_folders, tiny):
    """The same, loaded; the question answerer always answers."""
    pytest.importorskip("fastapi", reason=EXTRA)
    from relmo.serve.task_models import load_tasks

    found = load_tasks(task_folders, tiny)
    found[1].predictor.task.threshold = 0.0
    return found
