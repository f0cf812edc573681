"""Limits and access are checked before anything is served."""

import pytest

from relmo.errors import ConfigError
from relmo.serve.settings import Access, Limits, hosts_for, is_loopback


def test_limits_are_changed_by_name():
    assert Limits().changed(["texts=3", " tokens = 9 "]) == Limits(texts=3, tokens=9)


@pytest.mark.parametrize(
    ("change", "said"),
    [("text=3", "did you mean 'texts'"), ("texts", "name=number"), ("texts=-1", "name=number"),
     ("texts=0", "from 1"), ("texts=x", "name=number")],
)  # fmt: skip
def test_a_wrong_limit_is_named(change, said):
    with pytest.raises(ConfigError, match=said):
        Limits().changed([change])


def test_an_empty_key_is_refused_and_no_key_is_shown():
    with pytest.raises(ConfigError, match="empty"):
        Access(api_key=" ")
    assert "secret" not in repr(Access(api_key="secret"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2"])
def test_loopback_goes_by_its_own_names(host):
    assert is_loopback(host)
    assert {"localhost", "127.0.0.1", "::1", host} <= set(hosts_for(host))


def test_elsewhere_any_name_goes_unless_some_are_given():
    assert hosts_for("0.0.0.0") == ()
    assert hosts_for("0.0.0.0", ["relmo.example"]) == ("relmo.example",)
    assert "relmo.example" in hosts_for("127.0.0.1", ["relmo.example"])
    assert not is_loopback("example.org")
