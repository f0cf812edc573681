"""The address of a database names an index."""

import pytest

from relmo.errors import ConfigError
from relmo.search.postgres import split_address


def test_an_address_may_name_one_of_several_indexes():
    address = "postgresql://me@host/data?relmo_index=notes&sslmode=require"
    assert split_address(address) == ("postgresql://me@host/data?sslmode=require", "relmo_notes")
    assert split_address("postgresql:///data")[1] == "relmo_index"
    with pytest.raises(ConfigError, match="lower-case"):
        split_address("postgresql:///data?relmo_index=My")


def test_options_in_an_address_keep_their_spaces():
    address = "postgresql://h/d?options=-c%20statement_timeout%3D5000&relmo_index=a"
    assert split_address(address) == (address.removesuffix("&relmo_index=a"), "relmo_a")
