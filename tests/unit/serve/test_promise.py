"""Our promise through the server: a vector does not depend on what was read with it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.serving import live

TEXTS = [" ".join(f"w{(i * j) % 17}" for j in range(1 + i % 23)) + "." for i in range(60)]


def test_a_vector_does_not_depend_on_its_neighbours(make_app, tiny):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    alone = np.stack([tiny.encode([text], normalize_embeddings=True)[0] for text in TEXTS])
    app = make_app()
    sizes: list[int] = []
    batcher = app.state.service.batcher
    read = batcher._embed
    batcher._embed = lambda sentences: (sizes.append(len(sentences)), read(sentences))[1]
    with live(app) as url, httpx.Client(base_url=url, timeout=60) as client:

        def ask(number: int) -> np.ndarray:
            answer = client.post("/v1/embeddings", json={"input": TEXTS[number]})
            return np.array(answer.json()["data"][0]["embedding"], np.float32)

        with ThreadPoolExecutor(16) as pool:
            found = np.stack(list(pool.map(ask, range(len(TEXTS)))))
        together = client.post("/v1/embeddings", json={"input": TEXTS[::-1]}).json()["data"]
    np.testing.assert_allclose(found, alone, atol=1e-5)
    many = np.array([each["embedding"] for each in together])[::-1]
    np.testing.assert_allclose(many, alone, atol=1e-5)
    assert max(sizes[: len(sizes)]) > 1  # they were read together
