"""Who may send requests: limits, keys, host names, and what needs no key."""

import pytest

from relmo.errors import ConfigError

pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
from relmo.serve.access import Access, allowed_hosts, is_loopback
from relmo.serve.limits import Limits

KEY = "k" * 20


@pytest.fixture
def locked(make_client):
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


def test_limits_are_changed_by_name():
    assert Limits().changed(["texts=3", " tokens = 9 "]) == Limits(texts=3, tokens=9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("text=3", "did you mean 'texts'"),
        ("texts", "expected NAME=NUMBER"),
        ("texts=-1", "expected NAME=NUMBER"),
        ("texts=x", "expected NAME=NUMBER"),
        ("texts=0", "texts must be an integer ≥ 1, got 0"),
    ],
)
def test_a_wrong_limit_is_named(change, said):
    with pytest.raises(ConfigError, match=said):
        Limits().changed([change])


def test_an_empty_key_is_refused_and_no_key_is_shown():
    with pytest.raises(ConfigError, match="empty"):
        Access(api_key=" ")
    assert "secret" not in repr(Access(api_key="secret"))


@pytest.mark.parametrize("key", ["secret\n", " secret", "two words", "schlüssel", "a\0b", "a\tb"])
def test_a_key_that_no_header_can_match_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError, match="set RELMO_API_KEY to visible ASCII") as found:
        Access(api_key=key)
    assert key.strip() not in str(found.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2"])
def test_loopback_goes_by_its_own_names(host):
    assert is_loopback(host)
    assert {"localhost", "127.0.0.1", "::1", host} <= set(allowed_hosts(host))


def test_elsewhere_any_name_goes_unless_some_are_given():
    assert allowed_hosts("0.0.0.0") == ()
    assert allowed_hosts("0.0.0.0", ["relmo.example"]) == ("relmo.example",)
    assert "relmo.example" in allowed_hosts("127.0.0.1", ["relmo.example"])
    assert not is_loopback("example.org")
