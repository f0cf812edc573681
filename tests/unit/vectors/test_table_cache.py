"""Tables that are computed once: whole or not there at all, by one process at a time."""

import json
import threading

import numpy as np
import pytest

from relmo.errors import OutputError, WeightError
from relmo.files import open_locked
from relmo.vectors.table_cache import cached_table, table_key
from tests.support.leftovers import leftover

SHAPE = (5, 2, 3)
TABLE = np.arange(30, dtype=np.float16).reshape(SHAPE)
KEY = table_key("model", [["a"], ["b"]])


class Compute:
    """Gives the table in blocks, and counts how often it is asked to."""

    def __init__(self, *blocks):
        self.calls, self.blocks = 0, blocks or (TABLE[:2], TABLE[2:2], TABLE[2:])

    def __call__(self):
        self.calls += 1
        yield from self.blocks


def open_table(folder, compute, shape=SHAPE, **facts):
    return cached_table(folder, KEY, shape, compute, facts)


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_table_is_computed_once_and_memory_mapped(tmp_path):
    compute = Compute()
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        table, meta = open_table(folder, compute, model="tiny")
        assert isinstance(table, np.memmap)
        assert table.dtype == np.float16
        assert np.array_equal(table, TABLE)
        assert (meta["shape"], meta["model"]) == ([5, 2, 3], "tiny")
        assert meta["bytes"] == (folder / KEY / "layers.npy").stat().st_size
        assert meta["seconds"] >= 0
    assert compute.calls == 1
    assert entries(folder) == [KEY]
    assert entries(folder / KEY) == ["layers.npy", "meta.json"]
    assert np.array_equal(np.load(folder / KEY / "layers.npy"), TABLE)


def test_a_table_may_have_no_rows(tmp_path):
    compute = Compute(TABLE[:0])
    for _ in range(2):
        table, _ = open_table(tmp_path, compute, (0, 2, 3))
        assert table.shape == (0, 2, 3)
    assert compute.calls == 1


def test_the_key_depends_on_the_model_and_on_each_item():
    items = [["a", "b"], [["a"], ["b"]], [["a\n", "b"]], [["a"], "b"], ["b", "a"], ["a\x00b"], []]
    keys = {table_key(model, each) for model in ("one", "two") for each in items}
    assert len(keys) == 2 * len(items)
    assert table_key("one", iter(["a", "b"])) == table_key("one", ["a", "b"])


def forget(meta, *keys):
    values = json.loads(meta.read_text())
    meta.write_text(json.dumps({key: values[key] for key in values if key not in keys}))


def test_a_table_of_an_earlier_release_is_used(tmp_path):
    compute = Compute()
    open_table(tmp_path, compute)
    forget(tmp_path / KEY / "meta.json", "seal", "sha256")
    assert np.array_equal(open_table(tmp_path, compute)[0], TABLE)
    assert compute.calls == 1


@pytest.mark.parametrize(
    "damage",
    [
        "cut", "longer", "no table", "no meta", "torn meta", "empty", "other shape", "flipped bit",
        "flipped bit of the header", "other facts", "no seal", "no sha256",
    ],
)  # fmt: skip
def test_a_damaged_table_is_computed_again(tmp_path, damage):
    compute = Compute()
    open_table(tmp_path, compute)
    table, meta = tmp_path / KEY / "layers.npy", tmp_path / KEY / "meta.json"
    if damage == "cut":
        table.write_bytes(table.read_bytes()[:-1])
    if damage == "longer":
        table.write_bytes(table.read_bytes() + b"0")
    if damage in ("no table", "empty"):
        table.unlink()
    if damage in ("no meta", "empty"):
        meta.unlink()
    if damage == "torn meta":
        meta.write_text(meta.read_text()[:20])
    if damage.startswith("flipped bit"):
        raw = bytearray(table.read_bytes())
        raw[20 if damage.endswith("header") else -7] ^= 4
        table.write_bytes(raw)
    if damage == "other facts":
        meta.write_text(meta.read_text().replace('"seconds": ', '"seconds": 9'))
    if damage.startswith("no s"):
        forget(meta, damage.removeprefix("no "))
    if damage == "other shape":
        meta.write_text(meta.read_text().replace("5", "4", 1))
    assert np.array_equal(open_table(tmp_path, compute)[0], TABLE)
    assert compute.calls == 2
    assert entries(tmp_path) == [KEY]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_leaves_nothing_behind(tmp_path, error):
    def stop():
        yield TABLE[:2]
        raise error

    with pytest.raises(error):
        open_table(tmp_path, stop)
    assert entries(tmp_path) == []


@pytest.mark.parametrize("blocks", [(TABLE[:4],), (TABLE, TABLE[:1])], ids=["few", "many"])
def test_rows_that_do_not_fit_the_shape_are_our_own_mistake(tmp_path, blocks):
    with pytest.raises(AssertionError, match="rows do not fit the shape"):
        open_table(tmp_path, Compute(*blocks))
    assert entries(tmp_path) == []


def test_leftovers_of_a_killed_process_are_deleted(tmp_path):
    half = tmp_path / leftover(KEY)
    half.mkdir()
    (half / "layers.npy").write_bytes(b"half a table")
    (tmp_path / f"{KEY}.lock").touch()  # the system released it
    assert np.array_equal(open_table(tmp_path, Compute())[0], TABLE)
    assert entries(tmp_path) == [KEY]


def test_a_second_process_waits_for_the_table(tmp_path):
    compute = Compute()
    open_table(tmp_path, compute)
    (tmp_path / KEY).rename(tmp_path / "aside")
    lock = open_locked(tmp_path / f"{KEY}.lock")  # as held by the process that computes it
    found = []
    waiting = threading.Thread(target=lambda: found.append(open_table(tmp_path, compute)[0]))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    (tmp_path / "aside").rename(tmp_path / KEY)
    lock.close()
    waiting.join(20)
    assert np.array_equal(found[0], TABLE)
    assert compute.calls == 1
    assert entries(tmp_path) == [KEY]


def test_a_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose a folder that can be created"):
        open_table(tmp_path / "file" / "cache", Compute())


def test_values_beyond_float16_are_not_kept_as_infinite(tmp_path):
    table = np.full((2, 3), np.inf, np.float16)
    with pytest.raises(WeightError, match="beyond ±65,504"):
        cached_table(tmp_path, KEY, (2, 3), lambda: [table], {})
    assert not (tmp_path / KEY).exists()
