"""The contract of a store; and both stores return the same hits with the same scores."""

import itertools
import operator as op
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relmo.errors import ConfigError, OutputError
from relmo.search.filters import Condition, conditions
from relmo.search.store import IndexCounts, Scored, open_store
from tests.support.toy_search import entry, many, postgres_address, query

NAMES = itertools.count()


def make(kind, tmp_path):
    """The address of a store that does not exist yet."""
    if kind == "sqlite":
        return str(tmp_path / "index.relmo")
    address = postgres_address()
    return f"{address}{'&' if '?' in address else '?'}relmo_index=t{next(NAMES)}"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    return make(request.param, tmp_path)


@pytest.fixture
def store(where):
    opened = open_store(where, create=True)
    opened.write_header('{"width": 16}', b"\0\1fit")
    yield opened
    opened.close()


def keys(store, scored):
    return [hit.document for hit in store.hits(scored)]


def test_opening_a_missing_store_is_an_error(where):
    with pytest.raises(ConfigError, match="relmo index"):
        open_store(where, create=False)


def test_a_new_store_can_be_discarded_until_its_header_is_written(where):
    new = open_store(where, create=True)
    new.discard()
    new.close()
    with pytest.raises(ConfigError, match="relmo index"):
        open_store(where, create=False)
    new = open_store(where, create=True)
    new.write_header("{}", b"a")
    new.discard()
    new.close()
    old = open_store(where, create=False)
    old.discard()
    assert old.read_header() == ("{}", b"a")
    old.close()


def test_of_two_that_create_an_index_the_second_is_refused_and_deletes_nothing(where):
    first = open_store(where, create=True)
    with pytest.raises(OutputError, match=f"process {os.getpid()} on .* is writing this index"):
        open_store(where, create=True)
    first.write_header("{}", b"a")
    first.replace([entry("a", ["river"])])
    with pytest.raises(OutputError, match="is writing this index"):
        open_store(where, create=True)
    reader = open_store(where, create=False)
    with pytest.raises(OutputError, match="is writing this index"):
        reader.lock()
    assert reader.counts() == IndexCounts(1, 1)
    reader.close()
    first.close()
    second = open_store(where, create=True)
    assert second.read_header() == ("{}", b"a")
    second.unlock()
    third = open_store(where, create=True)
    third.close()
    second.discard()
    assert second.counts() == IndexCounts(1, 1)
    second.close()


def test_what_a_crash_left_without_a_header_is_taken_over(where):
    crashed = open_store(where, create=True)
    crashed.unlock()
    again = open_store(where, create=True)
    again.discard()
    again.close()
    with pytest.raises(ConfigError, match="relmo index"):
        open_store(where, create=False)
    crashed.close()


def test_the_keys_that_filters_can_ask_for(store):
    assert store.meta_keys() == []
    store.replace([entry("a", ["one"], year=1950, lang="en"), entry("b", ["two"], Zone=None)])
    assert store.meta_keys() == ["Zone", "lang", "year"]


def test_what_was_written_is_there_when_opened_again(where):
    first = open_store(where, create=True)
    assert first.read_header() is None
    first.write_header("{}", b"\0b")
    first.replace([entry("a", ["río Übung", "two"], year=1950)])
    first.close()
    again = open_store(where, create=True)
    assert again.read_header() == ("{}", b"\0b")
    assert again.counts() == IndexCounts(1, 2)
    (hit,) = again.hits(again.nearest(query(0), 5)[:1])
    assert (hit.document, hit.source, hit.meta) == ("a", "notes", {"year": 1950})
    again.close()


def test_an_empty_store_finds_nothing(store):
    assert store.nearest(query(0), 3) == []
    assert store.matching(["river"], 3) == []
    assert store.hits([Scored(1, 0.5)]) == store.hits([]) == []
    assert store.counts() == IndexCounts(0, 0)
    assert store.sources() == []
    store.optimize()


def test_an_entry_of_equal_key_takes_the_place_of_the_old(store):
    store.replace([entry("a", ["river bank", "boat"]), entry("b", ["loan"])])
    store.replace([entry("a", ["credit"], seed=1)])
    assert store.counts() == IndexCounts(2, 2)
    assert store.matching(["river"], 5) == []
    assert keys(store, store.matching(["credit"], 5)) == ["a"]
    assert len(store.nearest(query(0), 5)) == 2


def test_of_equal_keys_in_one_call_the_last_stays(store):
    store.replace([entry("a", ["river"]), entry("a", ["loan"], seed=1)])
    assert store.counts() == IndexCounts(1, 1)
    assert store.matching(["river"], 5) == []
    assert len(store.matching(["loan"], 5)) == 1


def test_one_state_is_read_whatever_others_write(store, where):
    store.replace([entry("a", ["river bank"]), entry("b", ["river"])])
    writer = open_store(where, create=False)
    with store.one_state():
        scored = store.matching(["river"], 9)
        writer.replace([entry("c", ["river"])], ["a", "b"])
        assert store.matching(["river"], 9) == scored
        assert {each.passage for each in store.nearest(query(1), 9)} == {s.passage for s in scored}
        assert sorted(keys(store, scored)) == ["a", "b"]
    assert keys(store, store.matching(["river"], 9)) == ["c"]
    writer.close()


def test_deleting_takes_all_passages_and_other_keys_stay(store):
    store.replace([entry("a", ["river", "bank"], source="x"), entry("b", ["river"], source="y")])
    store.replace([], ["a", "not there"])
    assert store.counts() == IndexCounts(1, 1)
    assert keys(store, store.matching(["river", "bank"], 5)) == ["b"]
    assert store.sources() == ["y"]
    assert store.digests("x") == {}


def test_a_change_that_fails_leaves_nothing(store):
    store.replace([entry("a", ["river"])])
    broken = entry("c", ["bank"])
    object.__setattr__(broken.passages[0], "text", None)
    with pytest.raises(Exception, match=r"(?i)null|None"):
        store.replace([entry("b", ["loan"]), broken], ["a"])
    assert store.counts() == IndexCounts(1, 1)
    assert keys(store, store.nearest(query(0), 5)) == ["a"]
    assert store.matching(["loan"], 5) == []


def test_a_document_without_passages_is_kept_and_known(store):
    store.replace([entry("a", [])])
    assert store.counts() == IndexCounts(1, 0)
    assert list(store.digests("notes")) == ["a"]
    assert store.nearest(query(0), 5) == []


def test_vectors_come_back_as_half_floats(store):
    given = entry("a", ["river", "bank"])
    store.replace([given])
    first = store.matching(["river"], 1)[0].passage
    rows = store.vectors([first, first + 999])
    np.testing.assert_array_equal(rows[0], given.vectors[0].astype(np.float16))
    assert not rows[1].any()


@pytest.mark.parametrize("padding", [0, 99])  # few terms and many may be read in different ways
def test_occurrences_are_passages_that_contain_a_term(store, padding):
    asked = ["river", "bank", "nowhere", *map(str, range(padding))]
    assert store.occurrences(asked) == store.occurrences([]) == {}
    store.replace([entry("a", ["river bank river", "bank"]), entry("b", ["Bank"])])
    assert store.occurrences(asked) == {"river": 1, "bank": 3}
    store.replace([entry("a", ["Río"]), entry("c", ["bank"])])
    assert store.occurrences([*asked, "río"]) == {"bank": 2, "río": 1}
    store.replace([], ["b"])
    with store.one_state():
        assert store.occurrences(asked) == {"bank": 1}
        assert len(store.matching(["bank"], 9)) == 1


def test_occurrences_of_what_another_wrote(store, where):
    asked = ["river", *map(str, range(99))]
    assert store.occurrences(asked) == {}
    writer = open_store(where, create=False)
    writer.replace([entry("a", ["river"])])
    writer.close()
    assert store.occurrences(asked) == {"river": 1}


def test_nul_in_text_is_no_harm(store):
    store.replace([entry("a", ["ri\0ver"])])
    (hit,) = store.hits(store.nearest(query(0), 1))
    assert len(hit.text) == 6


WHERES = [
    {"year": 1951},
    {"year": 1951.0},
    {"lang": ["en", "ko"]},
    {"year": {">=": 1951, "<": 1954}},
    {"lang": {">": "de"}},
    {"lang": {"!=": "en"}},
    {"open": True},
    {"open": {"!=": False}},
    {"note": None},
    {"rate": {"<=": 2.25}},
    {"year": "1951"},
    {"nothing": 1},
    {"nothing": {"!=": 1}},
    {"lang": []},
    {"rate": {">": 1}, "lang": "de"},
]


def open_both(folder):
    """An empty store of each kind."""
    stores = [open_store(make(kind, folder), create=True) for kind in ("sqlite", "postgres")]
    for store in stores:
        store.write_header('{"width": 16}', b"")
    return stores


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Both stores after the same changes."""
    stores = open_both(tmp_path_factory.mktemp("pair"))
    for store in stores:
        entries = many(60)
        for first in range(0, 60, 13):
            store.replace(entries[first : first + 13])
        store.replace(many(5, seed=3), ["d20", "d33"])
        store.optimize()
    yield stores
    for store in stores:
        store.close()


def seen(store, scored):
    """Hits, which have no numbers of passages: these differ between stores."""
    hits = [hit.to_dict() for hit in store.hits(scored)]
    assert len(hits) == len(scored)
    return [hit | {"score": pytest.approx(hit["score"], abs=2.1e-5)} for hit in hits]


@pytest.mark.parametrize("number", range(20))
def test_both_find_the_same_by_vector(pair, number):
    mine, theirs = (seen(store, store.nearest(query(number), 10)) for store in pair)
    assert mine == theirs
    assert len(mine) == 10


@pytest.mark.parametrize("terms", [["river"], ["loan", "rate", "loan"], ["fish", "nowhere"], []])
def test_both_find_the_same_by_words(pair, terms):
    mine, theirs = (seen(store, store.matching(terms, 15)) for store in pair)
    assert mine == theirs


def test_both_find_the_same_by_weighted_words(pair):
    mine, theirs = (seen(s, s.matching({"loan": 2, "rate": 0.25}, 15)) for s in pair)
    assert mine == theirs == seen(pair[0], pair[0].matching({"rate": 0.25, "loan": 2.0}, 15))
    whole, repeated = ({"loan": 2.0, "rate": 1.0}, ["loan", "rate", "loan"])
    assert pair[0].matching(whole, 15) == pair[0].matching(repeated, 15)


@pytest.mark.parametrize("asked", WHERES, ids=str)
def test_both_filter_alike(pair, asked):
    claims = conditions(asked)
    for search in ("nearest", "matching"):
        wanted = query(1) if search == "nearest" else ["river", "bank"]
        mine, theirs = (seen(s, getattr(s, search)(wanted, 200, claims)) for s in pair)
        assert mine == theirs


KEYS = [
    "année",
    "größe (cm)",
    "年",
    "😀",
    "a\\b",
    "\\u0041",
    "tab\there",
    "new\nline",
    'quo"te',
    "it's",
    "a.b",
    "[0]",
    "$",
    "$.x",
    "#-1",
    "?",
    "%s",
    " ",
    "e\u0301",
    "\x7f",
    "true",
    "1",
]
ODD = st.sampled_from(KEYS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6
)
ORDERED = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
    | st.sampled_from([*KEYS, "1950", "", "null"])
    | st.integers(-3, 3)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-(2.0**53), 2.0**53).map(lambda x: x + 0.0)
    | st.sampled_from([0.1, 0.3, -0.0, 1e-300, 1950.0])
)
VALUES = ORDERED | st.booleans() | st.none()


def kind(value):
    return "number" if type(value) in (int, float) else type(value)


def meets(meta, key, operator, values):
    """What a filter means, in plain Python."""
    alike = [v for v in values if key in meta and kind(v) == kind(meta[key])]
    if operator in ("=", "!="):
        return (meta.get(key) in alike) == (operator == "=")
    order = {"<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}[operator]
    return any(order(meta[key], value) for value in alike)


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    stores = open_both(tmp_path_factory.mktemp("filtered"))
    yield stores
    for store in stores:
        store.close()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.dictionaries(ODD, VALUES, max_size=4), min_size=1, max_size=6), st.data())
def test_filters_find_what_plain_python_finds_whatever_the_key(filtered, metas, data):
    known = [(key, value) for meta in metas for key, value in meta.items()]
    keys = st.sampled_from([key for key, _ in known] or ["a"]) | ODD
    values = st.sampled_from([value for _, value in known]) | VALUES if known else VALUES
    stated = [
        (data.draw(keys), "=", data.draw(st.lists(values, max_size=3))),
        (data.draw(keys), "!=", [data.draw(values)]),
        (
            data.draw(keys),
            data.draw(st.sampled_from(["<", "<=", ">", ">="])),
            [data.draw(values.filter(lambda v: not isinstance(v, bool | None)))],
        ),
    ]
    wanted = [{str(i) for i, meta in enumerate(metas) if meets(meta, *each)} for each in stated]
    for store in filtered:
        entries = [entry(str(i), ["river"], **{}) for i in range(len(metas))]
        for each, meta in zip(entries, metas, strict=True):
            object.__setattr__(each.document, "meta", meta)
        store.replace(entries, [str(i) for i in range(6)])
        for (key, operator, values), keys in zip(stated, wanted, strict=True):
            claims = [Condition(key, operator, tuple(values))]
            hits = store.hits(store.nearest(query(0), 9, claims))
            assert {hit.document for hit in hits} == keys, (store, key, operator, values, metas)
        assert store.meta_keys() == sorted({key for key, _ in known})


def test_a_filter_takes_thousands_of_values(pair):
    years = [*range(3000, 8000), 1951]
    for store in pair:
        hits = store.hits(store.nearest(query(0), 200, conditions({"year": years})))
        assert {hit.meta["year"] for hit in hits} == {1951}


def test_both_know_the_same(pair):
    mine, theirs = pair
    assert mine.counts() == theirs.counts()
    assert mine.sources() == theirs.sources()
    assert mine.digests("s2") == theirs.digests("s2")


def test_a_lost_connection_is_opened_again(tmp_path):
    import psycopg

    where = make("postgres", tmp_path)
    store = open_store(where, create=True)
    store.write_header('{"width": 16}', b"fit")
    store.replace(many(3))
    before = store.counts()
    with psycopg.connect(postgres_address(), autocommit=True) as other:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> %s"
        other.execute(query, (other.info.backend_pid,))
    assert store.counts() == before
    store.replace([], ["d0"])
    assert store.counts().documents == before.documents - 1
    store.close()
    with pytest.raises(OutputError, match="closed"):
        store.counts()
