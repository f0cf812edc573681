"""Who may come in: keys, names, and what stays open."""

import pytest

pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
KEY = "k" * 20


@pytest.fixture
def locked(make_client):
    from relmo.serve.settings import Access

    return make_client(access=Access(api_key=KEY, hosts=("localhost", "::1", "relmo.example")))


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/openapi.json", "/docs", "/nowhere"])
@pytest.mark.parametrize(
    "sent", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", "ü"]
)
def test_without_the_key_nothing_is_told(locked, path, sent):
    headers = {} if sent is None else {"authorization": sent.encode()}
    answer = locked.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["type"] == "authentication_error"


def test_with_the_key_all_is_open(locked):
    headers = {"authorization": f"bearer {KEY}"}
    assert locked.get("/v1/models", headers=headers).status_code == 200
    assert locked.get("/metrics", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_probes_need_no_key(locked, path):
    assert locked.get(path).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "[::1]:80", "[::1]", "relmo.example"]
)
def test_known_names_are_let_in(locked, host):
    assert locked.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "", "localhost.evil.example"]
)
def test_a_strangers_name_is_refused(locked, host):
    answer = locked.get("/health", headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_host")
