"""relmo index and relmo search, as a user calls them."""

import json
import signal
import subprocess
import sys

import pytest

from relmo.search.settings import IndexSettings
from tests.support.toy_search import postgres_address

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")


@pytest.fixture
def notes(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny.save_pretrained("model")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("The bank raised rates.\n\nWe sat by the river.\n")
    rows = "id,title,body,year\nx,Cats,Cats chase mice.,1950\ny,Dogs,Dogs chase cats.,1960\n"
    (tmp_path / "notes" / "t.csv").write_text(rows + "z,short\n")
    return tmp_path


ARGS = ("index", "notes", "--out", "i.relmo", "--text", "title", "--text", "body", "--id", "id")


def test_index_then_search(run, notes):
    made = run(*ARGS, "--model", "model", "--passages", "sentence", "--json")
    assert made.returncode == 0, made.stderr
    report = json.loads(made.stdout)
    assert (report["documents"], report["bad"], report["passages"]) == (3, 1, 4)
    assert (
        made.stderr.decode()
        == "relmo: notes/t.csv, line 4: expected 4 cells as in the header, got 2\n"
    )

    found = run("search", "i.relmo", "Cats chase mice.", "-k", "2", "--json")
    for same in (("--by", "hybrid"), ("--hybrid",), ("--hybrid", "--by", "hybrid")):
        again = run("search", "i.relmo", "Cats chase mice.", "-k", "2", "--json", *same)
        assert again.stdout == found.stdout
    hits = json.loads(found.stdout)["hits"]
    assert len(hits) == 2
    assert hits[0]["document"] == "notes/t.csv#x"
    assert hits[0]["meta"] == {"id": "x", "year": 1950}

    shown = run("search", "i.relmo", "We sat by the river.", "-k", "1").stdout.decode()
    assert "notes/a.md:3  We sat by the river." in shown

    again = run(*ARGS, "--json")
    assert json.loads(again.stdout)["unchanged"] == 3
    lines = dict(line.split("  ", 1) for line in run(*ARGS).stdout.decode().splitlines())
    assert lines["documents"].strip() == "3 unchanged"
    assert lines["left out"].strip() == "1 row, 0 paths"
    assert lines["next"].strip() == 'relmo search i.relmo "QUERY"'

    removed = run("index", "--remove", "notes/t.csv", "--out", "i.relmo", "--json")
    report = json.loads(removed.stdout)
    assert (report["deleted"], report["passages"]) == (2, 2)


def test_filters_documents_and_queries_from_standard_input(run, notes):
    run(*ARGS, "--model", "model", "--passages", "sentence")
    found = run("search", "i.relmo", "-", "--documents", "--json", stdin=b"cats\nrates\n")
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert [each["query"] for each in answers] == ["cats", "rates"]
    assert all(len({hit["document"] for hit in each["hits"]}) == 3 for each in answers)
    late = run("search", "i.relmo", "cats", "--where", "year>=1955", "--json")
    assert [hit["document"] for hit in json.loads(late.stdout)["hits"]] == ["notes/t.csv#y"]
    plain = run("search", "i.relmo", "-", stdin=b"cats\n").stdout.decode()
    assert plain.startswith("# cats\n")


def test_near_copies_are_left_out_unless_they_are_asked_for(run, notes):
    (notes / "notes" / "b.md").write_text("The bank raised rates.\n")
    run(*ARGS, "--model", "model")
    query = ("search", "i.relmo", "bank rates", "--by", "words", "--json")
    (hit,) = json.loads(run(*query).stdout)["hits"]
    assert (hit["document"], hit["copies"]) == ("notes/a.md", 1)
    both = json.loads(run(*query, "--copies").stdout)["hits"]
    assert [(hit["document"], hit["copies"]) for hit in both] == [
        ("notes/a.md", 0),
        ("notes/b.md", 0),
    ]


TOWN = " ".join(f"The street number {i} is long and straight." for i in range(30))


def test_a_long_text_is_shown_near_the_sentence_that_matches(run, notes):
    (notes / "notes" / "town.md").write_text(f"{TOWN} A miller sells flour. {TOWN}\n")
    run(*ARGS, "--model", "model")
    query = ("search", "i.relmo", "miller flour", "-k", "1")
    shown = run(*query).stdout.decode()
    assert "  notes/town.md:1  …A miller sells flour. The street" in shown
    assert (shown.count("\n"), "\x1b" in shown) == (1, False)
    plain = json.loads(run(*query, "--json").stdout)["hits"][0]
    assert not plain.keys() & {"sentence", "why"}
    hit = json.loads(run(*query, "--json", "--explain").stdout)["hits"][0]
    text, (start, end) = hit["text"], hit.pop("sentence")
    assert text[start:end] == "A miller sells flour."
    found = hit.pop("why")
    assert [text[start:end] for start, end in found["spans"]] == ["miller", "flour"]
    assert found["words"] + found["meaning"] == pytest.approx(1)
    assert found["words"] == 1 - found["meaning"] > 0
    assert hit == plain


def test_on_a_terminal_hits_are_shown_with_their_reasons(run, notes, monkeypatch):
    run(*ARGS, "--model", "model")
    monkeypatch.setattr("relmo.cli.search._is_terminal", lambda: True)
    shown = run("search", "i.relmo", "rates of a bank", "-k", "1", "--by", "words").stdout.decode()
    assert "  notes/a.md:1  words 100 %, meaning 0 %\n" in shown
    assert "\n        The bank raised rates.\n" in shown


def test_a_filter_on_what_no_document_has_is_said_to_be_so(run, notes):
    run(*ARGS, "--model", "model")
    none = run("search", "i.relmo", "cats", "--where", "yaer>=1955")
    assert (none.returncode, none.stdout) == (0, b"")
    existing = "id, path, suffix, year"
    said = f"relmo: nothing found: no document has 'yaer'; known keys: {existing}\n"
    assert none.stderr.decode() == said
    words = run("search", "i.relmo", "nowhere", "--by", "words")
    assert words.stderr == b"relmo: nothing found: no passage contains a word of the query\n"
    late = run("search", "i.relmo", "cats", "--where", "year>=1999")
    assert b"nothing found: no document meets all conditions; numbers compare" in late.stderr


def test_a_database_gives_the_hits_that_a_file_gives(run, notes):
    address = postgres_address()
    store = f"{address}{'&' if '?' in address else '?'}relmo_index=cli"
    columns = ("--text", "title", "--text", "body", "--id", "id")
    for where in (("--out", "i.relmo"), ("--store", store), ("--store", store)):
        made = run("index", "notes", *where, *columns, "--model", "model", "--json")
        assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["unchanged"] == 3
    for more in ((), ("--by", "vectors"), ("--by", "words"), ("--where", "year<1955")):
        mine, theirs = (
            json.loads(run("search", where, "cats chase", "--json", *more).stdout)["hits"]
            for where in ("i.relmo", store)
        )
        scores = [pytest.approx(hit.pop("score"), abs=1e-4) for hit in theirs]
        assert [hit.pop("score") for hit in mine] == scores
        assert mine == theirs
        assert mine


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("index", "notes"), 2, "--out INDEX or --store"),
        (("index", "notes", "--store", "x.relmo"), 2, "postgresql://"),
        (("index", "nowhere", "--out", "i"), 2, "no such file"),
        (("index", "--out", "i"), 2, "--remove PATH"),
        (("index", "--remove", "notes", "--out", "i"), 2, "no such index"),
        (
            ("index", "notes", "--out", "i", "--model", "model", "--layer", "x"),
            2,
            "unknown layers 'x'",
        ),
        (("index", "notes", "--out", "i", "--model", "model"), 2, "columns are: id, title, body"),
        (
            ("index", "notes", "--out", "i", "--model", "model", "--text", "body", "--strict"),
            1,
            "t.csv, line 4",
        ),
        (("search", "i.relmo", "cats"), 2, "no such index"),
        (("search", "i.relmo", " "), 2, "the query is empty"),
        (("search", "notes/a.md", "cats"), 2, "not a relmo index"),
        (("search", "notes", "cats"), 2, "no such index"),
        (("index", "notes", "--out", "notes"), 1, "this is a folder, give a file"),
        (("index", "notes", "--store", "mysql://host/x"), 2, "unknown kind of store"),
        (("search", "i.relmo", "x", "--where", "year"), 2, "KEY=VALUE"),
        (("search", "i.relmo", "x", "--explain"), 2, "--explain adds to --json"),
        (("search", "i.relmo", "x", "--by", "bm25"), 2, "choose hybrid, vectors, words"),
        (("search", "i.relmo", "x", "--hybrid", "--by", "words"), 2, "leave it out for --by words"),
        (("search", "i.relmo", "x", "--where", "year>>2020"), 2, "not a condition: 'year>>2020'"),
    ],
)
def test_errors_are_one_line_and_a_code(run, notes, args, code, said):
    failed = run(*args)
    assert failed.returncode == code, failed.stderr
    assert said in failed.stderr.decode()
    assert failed.stderr.count(b"\n") == 1


def test_the_help_of_index_shows_the_defaults_of_the_settings(run):
    shown = " ".join(run("index", "--help").stdout.decode().replace("│", " ").split())
    settings = IndexSettings()
    for name in ("model", "passages", "max_words", "language", "layer", "weighting", "isotropy"):
        option = shown[shown.index(f"--{name.replace('_', '-')} ") :]
        assert option.split("[default: ", 1)[1].startswith(f"{getattr(settings, name)}]")


def test_what_is_printed_of_files_cannot_steer_a_terminal(run, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny.save_pretrained("model")
    name = "a\x1b[31m\n\u202ebc.txt"
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / name).write_text("Cats \x1b]0;title\x07 chase mice.\n")
    (tmp_path / "notes" / f"x{name}").write_bytes(b"\xff")
    made = run("index", "notes", "--out", "i.relmo", "--model", "model")
    assert made.stderr.decode().startswith(r"relmo: notes/xa\x1b[31m\n\u202ebc.txt, line 1: not")
    shown = run("search", "i.relmo", "cats").stdout.decode()
    assert r"notes/a\x1b[31m\n\u202ebc.txt:1  Cats \x1b]0;title\x07 chase mice." in shown
    assert shown.count("\n") == 1
    hits = json.loads(run("search", "i.relmo", "cats", "--json").stdout)["hits"]
    assert hits[0]["document"] == f"notes/{name}"


def test_interrupted_indexing_names_the_command_to_go_on(run, notes):
    started = subprocess.Popen(
        [sys.executable, "-c", SLOW, "index", "notes", "--out", "i b.relmo", "--text", "body"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "fitting\n"
    started.send_signal(signal.SIGINT)
    _, said = started.communicate()
    assert started.returncode == 130
    again = "relmo index notes --out 'i b.relmo' --text body"
    said_last = said.splitlines()[-1]
    assert said_last == f"relmo: interrupted; nothing was stored. Start again with: {again}"
    assert not list(notes.glob("i b.relmo*"))


SLOW = """
import sys, time
from relmo import Elmo
from relmo.cli.main import main
from relmo.search import index

def fit(*args):
    print("fitting", flush=True)
    time.sleep(60)

index.fit_encoder = fit
index.open_model = lambda name: Elmo.from_pretrained("model")
main()
"""
