"""What all stores share: the order of hits, and how they are opened."""

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.search.store import open_store, rank, without_password


def test_equal_scores_are_ordered_by_number():
    ids, scores = np.array([5, 3, 9, 1]), np.array([0.5, 0.5000001, 0.9, 0.1])
    assert [each.passage for each in rank(ids, scores, 3)] == [9, 3, 5]
    assert [each.passage for each in rank(ids, scores, 2)] == [9, 3]
    assert len(rank(ids, scores, 99)) == 4


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


def test_another_kind_of_address_is_an_error():
    with pytest.raises(ConfigError, match="mysql://me:…@host: unknown kind of store") as error:
        open_store("mysql://me:secret@host", create=True)
    assert "secret" not in str(error.value)
