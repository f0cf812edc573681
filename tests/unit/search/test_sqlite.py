"""An SQLite index: damage is noticed, earlier versions are read, and no write access is needed."""

import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from relmo.errors import OutputError, RelmoError
from relmo.search.filters import conditions
from relmo.search.sqlite import SqliteStore
from relmo.search.sqlite_file import JOURNAL_MARK, RawFile
from relmo.search.store import SearchTimeout
from tests.support.toy_search import entry, many, query

SETTINGS = '{"width": 16, "version": 2}'


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "i.relmo"
    store = SqliteStore(path, create=True)
    store.write_header(SETTINGS, b"\0" * 200)
    store.replace(many(20))
    store.replace(many(5, seed=3), ["d7"])
    store.optimize()
    store.close()
    assert [each.name for each in tmp_path.iterdir()] == ["i.relmo"]
    return path


def version(path):
    db = sqlite3.connect(path)
    (number,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return number


def everything(path):
    """What searches of an index return."""
    store = SqliteStore(path)
    try:
        where = conditions({"year": {">=": 1952}, "lang": ["en", "de"]})
        return [
            store.read_header(),
            store.counts(),
            store.sources(),
            store.meta_keys(),
            store.hits(store.nearest(query(1), 9)),
            store.hits(store.nearest(query(2), 99, where)),
            store.hits(store.matching(["river", "loan", "rate"], 20)),
            store.hits(store.matching(["boat"], 20, where)),
        ]
    finally:
        store.close()


def flip(path, bit):
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def test_a_changed_bit_is_noticed_or_changes_nothing(made):
    wanted, copy = everything(made), made.with_name("damaged.relmo")
    bits = random.Random(0).sample(range(made.stat().st_size * 8), 200)
    noticed = 0
    for bit in [*bits, *range(0, 800, 3)]:  # anywhere, and in the header
        shutil.copy(made, copy)
        flip(copy, bit)
        try:
            assert everything(copy) == wanted, bit
        except RelmoError:
            noticed += 1
    assert noticed >= 200 + 200  # 16 bytes of the header are of no consequence


def test_damage_is_named_and_what_to_do(made):
    flip(made, made.stat().st_size * 4)
    for create in (False, True):
        with pytest.raises(OutputError, match=r"damaged \(.*checksum\).*relmo index") as error:
            SqliteStore(made, create=create)
        assert str(made) in str(error.value)


def test_a_change_clears_the_checksum_and_closing_writes_it(made):
    assert version(made)
    store = SqliteStore(made)
    store.replace([entry("new", ["river"])])
    reader = SqliteStore(made)  # there is none to compare with
    assert version(made) == 0
    reader.close()
    store.close()
    assert version(made)
    assert len(everything(made)[4]) == 9


def test_the_header_is_a_change_like_others(tmp_path):
    path = tmp_path / "i.relmo"
    for header in (None, SETTINGS):
        store = SqliteStore(path, create=True)
        if header is not None:
            store.write_header(header, b"fit")
        store.close()
    store = SqliteStore(path)
    assert store.read_header() == (SETTINGS, b"fit")
    store.close()


def test_reading_does_not_write(made):
    before = made.read_bytes()
    everything(made)
    assert made.read_bytes() == before


def test_an_index_of_version_1_is_read_and_becomes_2_when_it_changes(made):
    wanted = everything(made)
    db = sqlite3.connect(made)
    db.executescript("UPDATE about SET settings = '{\"version\": 1}'; PRAGMA user_version = 0")
    db.close()
    assert everything(made)[1:] == wanted[1:]
    assert version(made) == 0
    store = SqliteStore(made)
    store.replace([], ["nothing"])
    store.close()
    assert everything(made) == [('{"version":2}', wanted[0][1]), *wanted[1:]]
    assert version(made)


def test_a_damaged_index_without_a_checksum_is_not_written_to(made):
    db = sqlite3.connect(made)
    db.execute("PRAGMA user_version = 0")
    db.close()
    size = made.stat().st_size
    with made.open("r+b") as file:
        file.seek(size - 4096)
        file.write(b"\x55" * 4096)
    store = SqliteStore(made)
    with pytest.raises(OutputError, match="damaged"):
        store.replace([entry("new", ["river"])])
    store.close()
    assert version(made) == 0


def test_stored_data_of_the_wrong_form_are_damage(made):
    db = sqlite3.connect(made)
    db.executescript("UPDATE segments SET vectors = x'00'; PRAGMA user_version = 0")
    db.close()
    with pytest.raises(OutputError, match="damaged"):
        everything(made)


def test_a_process_keeps_its_locks_while_it_has_the_file_open(made):
    first, second = SqliteStore(made), SqliteStore(made)
    second.close()
    held = subprocess.run(
        [sys.executable, "-c", HELD_LOCKS, str(made)], capture_output=True, text=True, check=True
    )
    assert held.stdout.strip() == "held"
    first.close()
    assert not RawFile._open
    assert not RawFile._waiting


HELD_LOCKS = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:  # SQLite's shared lock, which every connection of a WAL file holds
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
        print("free")
    except OSError:
        print("held")
"""

# ── without write access ─────────────────────────────────────────────────────────────────────────


READING = """
import sys
from relmo.errors import RelmoError
from relmo.search.sqlite import SqliteStore
from tests.support.toy_search import entry, query
for path in sys.argv[1:]:
    try:
        store = SqliteStore(path)
        print([hit.document for hit in store.hits(store.nearest(query(1), 5))])
        store.replace([entry("new", ["river"])])
    except RelmoError as error:
        print(error)
"""


def test_an_index_on_a_read_only_disk_is_searched_and_not_written(made, tmp_path):
    wanted = [hit.document for hit in everything(made)[4][:5]]
    damaged, unmerged = tmp_path / "damaged.relmo", tmp_path / "unmerged.relmo"
    shutil.copy(made, damaged)
    flip(damaged, made.stat().st_size * 4)
    shutil.copy(made, tmp_path / "writer.relmo")
    writer = SqliteStore(tmp_path / "writer.relmo")
    writer.replace([entry("new", ["river"])])
    for suffix in ("", "-wal"):
        shutil.copy(f"{writer.path}{suffix}", f"{unmerged}{suffix}")
    writer.close()

    mounted = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    start = ["unshare", "-m", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*start, mounted], check=False).returncode:
        pytest.skip("no right to mount a folder read-only")
    found = subprocess.run(
        [*start, f'{mounted} && exec "$0" "$@"', sys.executable, "-c", READING]
        + [str(path) for path in (made, damaged, unmerged)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert found.returncode == 0, found.stderr
    hits, not_written, is_damaged, has_log = found.stdout.splitlines()
    assert hits == str(wanted)
    assert "readonly database; is the file writable" in not_written
    assert "damaged" in is_damaged
    assert "its latest changes are in unmerged.relmo-wal" in has_log


def test_a_file_opened_without_write_access_is_read_again_after_it_changed(made):
    reader = SqliteStore(made)
    reader._open_read_only()
    before = reader.counts()
    writer = SqliteStore(made)
    writer.replace([entry("new", ["river"])])
    writer.close()
    assert reader.counts().documents == before.documents + 1
    assert len(reader.nearest(query(1), 99)) == before.passages + 1
    reader.close()


def changed(path, *statements):
    """The index, changed by another program than relmo."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA user_version = 0")
    for statement in statements:
        db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)
    db.close()
    return path


@pytest.mark.parametrize("create", [False, True])
def test_a_journal_that_names_another_file_deletes_nothing(made, tmp_path, create):
    db = sqlite3.connect(made)
    db.execute("PRAGMA journal_mode = DELETE")
    (pages,), (size,) = (db.execute(f"PRAGMA page_{of}").fetchone() for of in ("count", "size"))
    db.close()
    victim = tmp_path / "letter.txt"
    victim.write_text("dear")
    name = str(victim).encode()
    head = (JOURNAL_MARK + struct.pack(">IIIII", 0, 1234, pages, 512, size)).ljust(512, b"\0")
    tail = struct.pack(">I", 2**30 // size + 1) + name + struct.pack(">II", len(name), sum(name))
    (tmp_path / "i.relmo-journal").write_bytes(head + tail + JOURNAL_MARK)
    (tmp_path / "link.relmo").symlink_to(made)
    for path in (made, tmp_path / "link.relmo"):
        with pytest.raises(OutputError, match=r"i.relmo-journal beside it was not written"):
            SqliteStore(path, create=create)
    assert victim.read_text() == "dear"


def test_an_interrupted_write_is_completed_by_writers_alone(made, tmp_path):
    journal = tmp_path / "i.relmo-journal"
    journal.write_bytes(JOURNAL_MARK + b"\0" * 600)
    with pytest.raises(OutputError, match="interrupted.*run relmo index again"):
        SqliteStore(made)
    assert journal.exists()
    SqliteStore(made, create=True).close()


ENDLESS = "(WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c)"


@pytest.mark.parametrize(
    "statements",
    [
        [
            "ALTER TABLE segments RENAME TO other",
            f"CREATE VIEW segments AS SELECT * FROM other WHERE {ENDLESS}",
        ],
        [f"CREATE TRIGGER t AFTER DELETE ON passages BEGIN SELECT {ENDLESS}; END"],
        ["CREATE VIRTUAL TABLE more USING fts5(text)"],
        ["ALTER TABLE documents ADD COLUMN more AS (key || key)"],
        ["CREATE INDEX more ON passages (length(text))"],
        ["DROP INDEX passages_document"],
    ],
)
def test_only_the_tables_of_an_index_are_accepted(made, statements):
    with pytest.raises(OutputError, match="damaged.*its tables are not those of an index"):
        SqliteStore(changed(made, *statements))


def test_a_query_ends_at_its_deadline_and_by_interruption(made):
    store = SqliteStore(made)

    def endless():
        with store._session():
            store._run(f"SELECT {ENDLESS}").fetchone()

    with pytest.raises(SearchTimeout, match="took too long"), store.deadline(0.05):
        endless()
    timer = threading.Timer(0.05, store.interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        endless()
    timer.join()

    def stop(*_):
        raise KeyboardInterrupt("ended")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            endless()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(store.nearest(query(1), 3)) == 3
    store.close()


def test_a_filter_and_the_rows_are_of_one_state(made):
    reader, writer = SqliteStore(made), SqliteStore(made)
    stop = time.monotonic() + 1.0

    def write():
        number = 0
        while time.monotonic() < stop:
            number += 1
            documents = [entry(f"d{each}", ["river"], number, lang="en") for each in range(9)]
            writer.replace(documents, [f"d{10 + number % 9}"])

    thread = threading.Thread(target=write)
    thread.start()
    while time.monotonic() < stop:
        for where in (conditions({"lang": "en"}), conditions({"lang": "de"})):
            scored = [*reader.nearest(query(1), 99, where), *reader.matching(["river"], 9, where)]
            assert {hit.meta["lang"] for hit in reader.hits(scored)} <= set(where[0].values)
    thread.join()
    reader.close()
    writer.close()


def first_segment(path):
    db = sqlite3.connect(path)
    number, *blobs = db.execute("SELECT * FROM segments ORDER BY id").fetchone()
    db.close()
    kinds = zip(blobs, ("<i8", "<u4", "<f2"), strict=True)
    return number, [np.frombuffer(blob, kind).copy() for blob, kind in kinds]


def wrong_vectors(ids, lengths, vectors):
    vectors[3] = np.nan


def wrong_order(ids, lengths, vectors):
    ids[:] = ids[::-1].copy()


@pytest.mark.parametrize("change", [wrong_vectors, wrong_order])
def test_segments_that_do_not_fit_together_are_damage(made, change):
    number, arrays = first_segment(made)
    change(*arrays)
    blobs = [each.tobytes() for each in arrays]
    query_text = "UPDATE segments SET ids = ?, lengths = ?, vectors = ? WHERE id = ?"
    changed(made, (query_text, (*blobs, number)))
    with pytest.raises(OutputError, match="damaged"):
        everything(made)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE segments SET lengths = substr(lengths, 1, 4)",
        "UPDATE segments SET vectors = substr(vectors, 1, length(ids))",
        "UPDATE passages SET text = x'ff00'",
        "UPDATE passages SET text = CAST(x'ff80' AS text)",
        "UPDATE passages SET line = 'x'",
        "UPDATE documents SET meta = '[1]'",
        "UPDATE documents SET source = x'ff'",
        f"UPDATE documents SET meta = '{'[' * 99_999}'",
        "UPDATE about SET settings = x'ff'",
    ],
)
def test_values_of_a_wrong_kind_are_damage(made, statement):
    with pytest.raises(OutputError, match="damaged"):
        everything(changed(made, statement))
