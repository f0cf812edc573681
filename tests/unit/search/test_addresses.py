"""Addresses of databases name an index, and are shown without their passwords."""

import pytest

from relmo.errors import ConfigError
from relmo.search.addresses import take_schema, without_password
from relmo.search.open_store import open_store


def test_an_address_may_name_one_of_several_indexes():
    address = "postgresql://me@host/data?relmo_index=notes&sslmode=require"
    assert take_schema(address) == ("postgresql://me@host/data?sslmode=require", "relmo_notes")
    assert take_schema("postgresql:///data")[1] == "relmo_index"
    with pytest.raises(ConfigError, match="lower-case"):
        take_schema("postgresql:///data?relmo_index=My")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@host/data", "postgresql://me:…@host/data"),
        ("postgresql://me:s/e@cret@host/data", "postgresql://me:…@host/data"),
        ("postgresql://host/data?user=me&password=secret&a=b", None),
        ("postgresql://me@host/data", "postgresql://me@host/data"),
        ("notes/a:b@c.relmo", "notes/a:b@c.relmo"),
    ],
)
def test_a_password_is_not_shown(address, shown):
    assert "cret" not in without_password(address)
    assert without_password(address) == (shown or address.replace("secret", "…"))


def test_another_kind_of_address_is_a_wrong_call():
    with pytest.raises(ConfigError, match="mysql://me:…@host: no such kind of store") as error:
        open_store("mysql://me:secret@host", create=True)
    assert "secret" not in str(error.value)
