"""An index follows its files: only what changed is embedded, and a killed run loses nothing."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relmo.errors import ConfigError, DataError, OutputError, RelmoError, TextError
from relmo.search import SemanticIndex, encoder, index, sync
from relmo.search.documents import BadRow, TableColumns
from relmo.search.store import open_store
from relmo.search.sync import index_files, remove_files
from tests.support.toy_search import postgres_address

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
openpyxl = pytest.importorskip("openpyxl", reason="pip install 'relmo[search]'")


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"File {name} of the river bank.\n")
    rows = [{"id": i, "text": f"Row {i} on the loan.", "year": 1950 + i} for i in range(5)]
    write_rows(folder / "rows.jsonl", rows)
    return folder


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def follow(tiny, **more):
    return index_files("i.relmo", ["notes"], elmo=tiny, columns=TableColumns(id="id"), **more)


def held(where="i.relmo"):
    store = open_store(where, create=False)
    keys = {key for source in store.sources() for key in store.digests(source)}
    counts = store.counts()
    store.close()
    assert counts.documents == len(keys)
    return keys


def test_only_what_changed_is_embedded_again(tiny, notes):
    first = follow(tiny)
    assert (first.files, first.documents, first.embedded, first.passages) == (4, 8, 8, 8)
    again = follow(tiny)
    assert (again.embedded, again.unchanged, again.deleted) == (0, 8, 0)
    (notes / "a.txt").write_text("Another text.")
    (notes / "d.txt").write_text("A new file.")
    (notes / "b.txt").unlink()
    write_rows(notes / "rows.jsonl", [{"id": i, "text": f"Row {i} on the loan."} for i in (3, 4)])
    third = follow(tiny)
    assert (third.embedded, third.unchanged, third.deleted) == (4, 1, 4)
    assert held() == {
        f"notes/{n}" for n in ("a.txt", "c.txt", "d.txt", "rows.jsonl#3", "rows.jsonl#4")
    }


def test_what_lies_elsewhere_stays(tiny, notes, tmp_path):
    follow(tiny)
    (tmp_path / "other.txt").write_text("Other.")
    index_files("i.relmo", ["other.txt"], elmo=tiny)
    assert len(held()) == 9
    assert follow(tiny).deleted == 0


def test_bad_rows_are_named_counted_and_keep_what_was_there(tiny, notes):
    follow(tiny)
    with (notes / "rows.jsonl").open("a") as file:
        file.write("{broken\n")
    (notes / "a.txt").write_bytes(b"\xff")
    (notes / "empty.txt").write_text(" \n")
    bad: list[BadRow] = []
    report = follow(tiny, on_bad=bad.append)
    assert (report.bad, report.empty, report.deleted) == (2, 1, 0)
    assert [str(row).split(":")[0] for row in bad] == [
        "notes/a.txt, line 1",
        "notes/rows.jsonl, line 6",
    ]
    assert "notes/a.txt" in held()


def test_strict_ends_at_the_first_bad_row(tiny, notes):
    (notes / "a.txt").write_bytes(b"ok\n\xff")
    with pytest.raises(DataError, match=r"notes/a.txt, line 2: not UTF-8"):
        follow(tiny, strict=True)


def test_a_row_and_a_file_of_one_name_are_reported(tiny, notes):
    (notes / "rows.jsonl#1.txt").write_text("A file with the name of a row.\n")
    write_rows(notes / "rows.jsonl", [{"id": "1.txt", "text": "A row."}, {"id": 2, "text": "B."}])
    for embedded in (5, 0, 0):
        bad = []
        report = follow(tiny, on_bad=bad.append)
        assert (report.documents, report.embedded, report.bad) == (5, embedded, 1)
        assert [row.source for row in bad] == ["notes/rows.jsonl#1.txt"]
        assert "is that of a document of notes/rows.jsonl; rename" in bad[0].problem
        assert len(held()) == 5
    with pytest.raises(DataError, match="rename the file"):
        follow(tiny, strict=True)
    (notes / "rows.jsonl").unlink()
    assert follow(tiny).bad == 0
    assert "notes/rows.jsonl#1.txt" in held()


def test_settings_that_contradict_the_index_are_refused(tiny, notes):
    follow(tiny, settings={"max_words": 50})
    follow(tiny, settings={"max_words": 50})
    follow(tiny)
    with pytest.raises(ConfigError, match="max_words 50, not 60"):
        follow(tiny, settings={"max_words": 60})


def test_a_folder_with_nothing_to_index_is_a_wrong_call(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    with pytest.raises(ConfigError, match="no files that can be indexed"):
        follow(tiny)
    assert not (tmp_path / "i.relmo").exists()


def test_fitting_and_indexing_both_show_how_far_they_are(tiny, notes, monkeypatch):
    shown = []

    def note(items, total, what, show):
        shown.append((what, total, show))
        yield from items

    monkeypatch.setattr(encoder, "progress", note)
    monkeypatch.setattr(sync, "progress", note)
    follow(tiny, show_progress_bar=True)
    assert [each for each in shown if each[2]] == [
        ("passages read to fit the index", 8, True),
        ("documents", 8, True),
    ]


def test_files_are_taken_out_though_they_are_gone(tiny, notes):
    follow(tiny)
    (notes / "a.txt").unlink()
    with pytest.raises(ConfigError, match="nothing from elsewhere"):
        remove_files("i.relmo", ["notes/a.txt", "elsewhere"])
    assert len(held()) == 8
    report = remove_files("i.relmo", ["./notes/a.txt", "notes/rows.jsonl"])
    assert (report.files, report.deleted, report.passages) == (2, 6, 2)
    assert held() == {"notes/b.txt", "notes/c.txt"}


def test_a_first_run_that_fails_leaves_no_index(notes):
    for wrong in ({"passages": "page"}, {"model": "nowhere"}, {"language": "klingon"}):
        with pytest.raises(RelmoError):
            index_files("i.relmo", ["notes"], settings=wrong)
        assert [path.name for path in Path().iterdir()] == ["notes"]


def test_a_later_run_that_fails_leaves_the_index_alone(tiny, notes):
    follow(tiny)
    with pytest.raises(ConfigError):
        follow(tiny, settings={"max_words": 60})
    assert len(held()) == 8


def test_an_index_is_not_made_of_nothing(tiny, notes):
    bad: list[BadRow] = []
    (notes / "rows.jsonl").write_text('{"text": " "}\n{broken\n')
    with pytest.raises(ConfigError, match=r"no text to index in 1 files \(1 bad rows, 1 empty"):
        index_files("i.relmo", ["notes/rows.jsonl"], elmo=tiny, on_bad=bad.append)
    assert len(bad) == 1
    assert not Path("i.relmo").exists()


@pytest.mark.parametrize("name", ["rows.jsonl", "t.csv"])
def test_a_table_without_the_text_column_ends_the_run_with_the_columns_found(tiny, notes, name):
    (notes / "t.csv").write_text("id,text,year\n1,One.,1950\n")
    wrong = TableColumns(text=("body",))
    said = f"notes/{name}, line 1: no column 'body'; columns are: id, text, year; choose .*--text"
    with pytest.raises(ConfigError, match=said):
        index_files("i.relmo", [f"notes/{name}", "notes/a.txt"], elmo=tiny, columns=wrong)
    assert not Path("i.relmo").exists()


def test_a_row_without_the_column_is_a_bad_row_of_a_table_that_has_it(tiny, notes):
    with (notes / "rows.jsonl").open("a") as file:
        file.write('{"id": 9, "title": "no text"}\n')
    assert follow(tiny).bad == 1
    with pytest.raises(DataError, match="line 6: no column 'text'"):
        follow(tiny, strict=True)


def test_two_columns_of_one_name_end_the_run(tiny, notes):
    (notes / "t.csv").write_text("text,year,text\nfirst,1950,second\n")
    with pytest.raises(ConfigError, match="t.csv, line 1: two columns are named 'text'; rename"):
        follow(tiny)


def test_what_is_left_out_is_said_and_the_rest_indexed(tiny, notes, tmp_path):
    (tmp_path / "id_rsa").write_text("secret key\n")
    (notes / "key.txt").symlink_to(tmp_path / "id_rsa")
    (notes / "inside.txt").symlink_to("a.txt")
    os.mkfifo(notes / "pipe.txt")
    (notes / os.fsdecode(b"caf\xe9.txt")).write_text("A name in Latin-1.")
    bad: list[BadRow] = []
    report = follow(tiny, on_bad=bad.append)
    assert (report.documents, report.embedded, report.skipped, report.bad) == (9, 9, 3, 0)
    assert sorted(str(each).split(";")[0] for each in bad) == [
        r"notes/caf\xe9.txt: skipped, its name is not UTF-8",
        f"notes/key.txt: skipped, a link that leaves notes, to {tmp_path / 'id_rsa'}",
        "notes/pipe.txt: skipped, not a regular file",
    ]
    with pytest.raises(TextError, match="skipped"):
        follow(tiny, strict=True)


def test_documents_in_a_folder_that_cannot_be_read_now_stay(tiny, notes, monkeypatch):
    (notes / "sub").mkdir()
    (notes / "sub" / "x.txt").write_text("Below.")
    follow(tiny)
    walk = os.walk

    def denied(root, onerror):
        for folder, inner, names in walk(root):
            if folder.endswith("sub"):
                onerror(PermissionError(errno.EACCES, "Permission denied", folder))
            else:
                yield folder, inner, names

    monkeypatch.setattr("os.walk", denied)
    (notes / "a.txt").unlink()
    bad: list[BadRow] = []
    report = follow(tiny, on_bad=bad.append)
    assert [str(each) for each in bad] == ["notes/sub: skipped, cannot be read (Permission denied)"]
    assert report.deleted == 1
    assert "notes/sub/x.txt" in held()


def test_a_run_that_is_interrupted_says_what_is_safe_and_loses_nothing_of_another(
    tiny, notes, monkeypatch
):
    """The first run is interrupted while it fits its encoder; the second had come meanwhile."""
    refused = []
    fit = encoder.PassageEncoder.fit

    def interrupted(*args):
        with pytest.raises(OutputError, match=r"i.relmo: process \d+ on .* is writing this index"):
            follow(tiny)
        refused.append(True)
        raise KeyboardInterrupt

    monkeypatch.setattr(encoder.PassageEncoder, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt, match="interrupted; nothing was stored"):
        follow(tiny)
    assert refused
    assert [path.name for path in Path().iterdir()] == ["notes"]

    monkeypatch.setattr(encoder.PassageEncoder, "fit", fit)
    monkeypatch.setattr(index, "BATCH_PASSAGES", 3)
    embed = SemanticIndex._embed
    batches = iter(range(9))

    def some(self, batch):
        if next(batches) == 2:
            raise KeyboardInterrupt
        return embed(self, batch)

    monkeypatch.setattr(SemanticIndex, "_embed", some)
    with pytest.raises(KeyboardInterrupt, match=r"the 6 documents in i.relmo are safe"):
        follow(tiny)
    monkeypatch.setattr(SemanticIndex, "_embed", embed)
    assert follow(tiny).unchanged == 6
    assert len(held()) == 8


def test_a_sheet_that_is_not_read_is_told_once(tiny, notes, capsys):
    book = openpyxl.Workbook()
    for row in (["id", "text"], ["x", "A text."]):
        book.active.append(row)
    book.create_sheet("Old").append(["text"])
    book.save(notes / "t.xlsx")
    assert follow(tiny).documents == 9
    assert capsys.readouterr().err.count("only the sheet 'Sheet' is read, not 'Old'") == 1


def test_a_metadata_column_that_no_row_has_is_a_wrong_call(tiny, notes):
    with pytest.raises(ConfigError, match="'yaer'"):
        index_files("i.relmo", ["notes"], elmo=tiny, columns=TableColumns(meta=("year", "yaer")))
    report = index_files("i.relmo", ["notes"], elmo=tiny, columns=TableColumns(meta=("year",)))
    assert report.documents == 8


KILLED = """
import os, signal, sys, torch
torch.set_num_threads(1)
from relmo import Elmo
from relmo.search import index, postgres, sqlite, sync
from relmo.search.documents import TableColumns

index.BATCH_PASSAGES = 8
where, left = sys.argv[1], int(sys.argv[2])
prepare, run = sqlite.SqliteStore._prepare, postgres.PostgresStore._run

def count(statement):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def traced(self, create):
    self._db.set_trace_callback(count)
    prepare(self, create)

def counted(self, query, values=()):
    count(query)
    return run(self, query, values)

def telling(replace):
    def told(self, entries, delete=()):
        replace(self, entries, delete)
        print(*(entry.document.key for entry in entries), flush=True)
    return told

sqlite.SqliteStore._prepare, postgres.PostgresStore._run = traced, counted
for store in (sqlite.SqliteStore, postgres.PostgresStore):
    store.replace = telling(store.replace)
elmo = Elmo.from_pretrained("model")
sync.index_files(where, ["notes"], elmo=elmo, columns=TableColumns(id="id"))
"""


def run_until_killed(tiny, notes, where, statement):
    """Index 43 documents, killed with kill -9 at a statement; what was acknowledged by then."""
    rows = [{"id": i, "text": f"Row {i} on the loan."} for i in range(40)]
    write_rows(notes / "rows.jsonl", rows)
    tiny.save_pretrained("model")
    command = [sys.executable, "-c", KILLED, where, str(statement)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    return set(killed.stdout.split())


def complete(tiny, where, here):
    """A new run embeds what is not here yet, and the index holds every document once."""
    report = index_files(where, ["notes"], elmo=tiny, columns=TableColumns(id="id"))
    assert report.unchanged == len(here)
    assert report.embedded == 43 - len(here)
    assert len(held(where)) == report.passages == 43
    with SemanticIndex.open(where, elmo=tiny) as resumed:
        hits = resumed.search("Row 7 on the loan.", k=99)
        assert len({hit.document for hit in hits}) == len(hits) == 43
        assert hits[0].document == "notes/rows.jsonl#7"


@pytest.mark.parametrize("statement", [6, 25, 45, 60, 110, 170])
def test_kill_9_loses_nothing_acknowledged_and_a_new_run_goes_on(tiny, notes, statement):
    acknowledged = run_until_killed(tiny, notes, "i.relmo", statement)
    here = held() if Path("i.relmo").stat().st_size and statement > 20 else set()
    assert acknowledged <= here
    complete(tiny, "i.relmo", here)


@pytest.mark.parametrize("statement", [3, 16, 24, 52, 80])
def test_kill_9_loses_nothing_of_a_database_either(tiny, notes, statement):
    address = postgres_address()
    where = f"{address}{'&' if '?' in address else '?'}relmo_index=killed{statement}"
    acknowledged = run_until_killed(tiny, notes, where, statement)
    here = held(where) if statement > 10 else set()
    assert acknowledged <= here
    assert bool(acknowledged) == (statement >= 52)
    complete(tiny, where, here)
