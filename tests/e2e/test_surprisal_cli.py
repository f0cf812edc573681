"""relmo surprisal: the table, its formats, and what it is asked for."""

import csv
import io
import json

import pytest

from relmo.lm.surprisal import WordSurprisal

HEADER = [
    "sentence_id",
    "token_id",
    "token",
    "surprisal",
    "surprisal_backward",
    "surprisal_both",
    "entropy",
    "log_frequency",
    "length",
    "known",
]
TEXT = 'Mira sings. Sol runs, "the bank" sings.\n\nSol runs.\n'
CONLLU = "".join(
    f"{n}\t{word}\t_\tX" + "\t_" * 6 + "\n" for n, word in enumerate(["Mira", "sings", "."], 1)
)


@pytest.fixture(scope="module")
def model(tmp_path_factory, tiny_lm):
    folder = tmp_path_factory.mktemp("model")
    tiny_lm.save_pretrained(folder)
    return folder


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def rows_of(found):
    assert found.returncode == 0, found.stderr
    return list(csv.DictReader(io.StringIO(found.stdout.decode()), delimiter="\t"))


def test_the_header_is_the_one_promised():
    assert list(WordSurprisal._fields) == HEADER


def test_a_row_per_word_is_printed(run, model, tiny_lm, text):
    rows = rows_of(run("surprisal", text, "--model", model))
    assert [row["token"] for row in rows] == (
        [
            "Mira",
            "sings",
            ".",
            "Sol",
            "runs",
            ",",
            '"',
            "the",
            "bank",
            '"',
            "sings",
            ".",
            "Sol",
            "runs",
            ".",
        ]
    )
    assert [int(row["sentence_id"]) for row in rows] == [0] * 3 + [1] * 9 + [2] * 3
    expected = tiny_lm.lm.surprisal(["Mira sings."])[0]
    for row, wanted in zip(rows, expected, strict=False):
        for name in HEADER[3:8]:
            assert float(row[name]) == pytest.approx(getattr(wanted, name), abs=1e-5)
    assert [row["known"] for row in rows[4:7]] == ["True", "False", "False"]


def test_context_is_a_sentence_a_document_or_words(run, model, text):
    found = {
        context: [row["surprisal"] for row in rows_of(
            run("surprisal", text, "--model", model, "--context", context)
        )]
        for context in ("sentence", "document", "1", "50")
    }  # fmt: skip
    assert found["sentence"][:3] == found["document"][:3]
    assert found["sentence"][3:12] != found["document"][3:12]
    assert found["sentence"][12:] == found["document"][12:]  # another document
    assert [*map(float, found["50"])] == pytest.approx([*map(float, found["document"])], abs=1e-4)
    assert found["1"] != found["50"]


def test_words_and_regions_come_as_they_are_given(run, model, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("Mira sings. Sol\nruns,\n")
    words = rows_of(run("surprisal", path, "--model", model, "--tokenized"))
    regions = rows_of(run("surprisal", path, "--model", model, "--regions"))
    assert [row["token"] for row in words] == [row["token"] for row in regions]
    assert [row["token"] for row in regions] == ["Mira", "sings.", "Sol", "runs,"]
    assert [row["known"] for row in words] == ["True", "False", "True", "False"]
    assert [row["known"] for row in regions] == ["True", "True", "True", "False"]
    (tmp_path / "tree.conllu").write_text(CONLLU)
    tree = rows_of(run("surprisal", tmp_path / "tree.conllu", "--model", model))
    assert [row["token"] for row in tree] == ["Mira", "sings", "."]


def test_files_hold_the_same_rows(run, model, text, tmp_path):
    printed = rows_of(run("surprisal", text, "--model", model))
    for suffix in (".tsv", ".csv", ".jsonl", ".parquet"):
        out = tmp_path / f"out{suffix}"
        found = run("surprisal", text, "--model", model, "-o", out)
        assert (found.returncode, found.stdout) == (0, b""), found.stderr
        assert b"15 words of 3 sentences" in found.stderr
        if suffix == ".parquet":
            rows = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
        elif suffix == ".jsonl":
            rows = [json.loads(line) for line in out.read_text().splitlines()]
        else:
            with out.open(newline="") as file:
                rows = list(csv.DictReader(file, delimiter="," if suffix == ".csv" else "\t"))
        assert [list(row) for row in rows[:1]] == [HEADER]
        assert [row["token"] for row in rows] == [row["token"] for row in printed]
        for row, wanted in zip(rows, printed, strict=True):
            assert float(row["surprisal"]) == pytest.approx(float(wanted["surprisal"]), abs=1e-5)
    as_json = run("surprisal", text, "--model", model, "--json").stdout.splitlines()
    assert json.loads(as_json[0])["known"] is True


def test_standard_input_is_read_and_empty_text_is_named(run, model):
    assert len(rows_of(run("surprisal", "-", "--model", model, stdin=b"Sol runs."))) == 3
    empty = run("surprisal", "-", "--model", model, stdin=b"\n \n")
    assert b"contains no words" in empty.stderr
    assert empty.stdout.decode().split() == HEADER


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.txt"], "no such file"),
        (["-", "--context", "0"], "--context must be sentence, document or a number"),
        (["-", "--tokenized", "--regions"], "not both"),
        (["-", "-o", "out.xlsx"], "unknown suffix"),
        (["-", "-o", "missing/out.tsv"], "is not a folder"),
    ],
)
def test_a_wrong_call_is_refused_before_a_model_is_loaded(run, arguments, message):
    found = run("surprisal", *arguments, stdin=b"Sol runs.")
    assert found.returncode == 2
    assert message in found.stderr.decode()
    assert "loading" not in found.stderr.decode()


SPR = """item;word;rt;length
1;Mira;300;
1;sings.;310.50;"a; b"
1;;;
2;"Sol";290;7
2;NA;1e-9;
2;  ;;
1;runs,;305;7
"""


def in_table(run, path, model, *more):
    columns = ("--word", "word", "--sentence", "item")
    return run("surprisal", path, "--model", model, *columns, *more)


def test_a_table_keeps_its_rows_and_columns_and_gets_those_of_surprisal(
    run, model, tiny_lm, tmp_path
):
    path = tmp_path / "spr.csv"
    path.write_text(SPR)
    rows = rows_of(in_table(run, path, model))
    given = list(csv.DictReader(io.StringIO(SPR), delimiter=";"))
    added = [*HEADER[3:8], "relmo_length", "known"]
    assert list(rows[0]) == ["item", "word", "rt", "length", *added]
    assert [{name: row[name] for name in given[0]} for row in rows] == given
    wanted = tiny_lm.lm.surprisal([["Mira", "sings."], ["Sol", "NA"], ["runs,"]], regions=True)
    filled = [row for row in rows if row["word"].strip()]
    for row, words in zip(filled, [word for each in wanted for word in each], strict=True):
        assert float(row["surprisal"]) == pytest.approx(words.surprisal, abs=1e-5)
        assert (row["relmo_length"], row["known"]) == (str(words.length), str(words.known))
    for row in (rows[2], rows[5]):
        assert [row[name] for name in added] == [""] * len(added)


def test_tables_of_all_formats_hold_numbers_and_missing_cells(run, model, tmp_path):
    cells = [
        {"item": 1, "word": "Mira", "rt": None},
        {"item": 1, "word": None, "rt": None},
        {"item": 1, "rt": 1e-9, "more": [1]},
        {"item": 2, "word": 1984, "rt": 3},
    ]
    path = tmp_path / "spr.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in cells))
    rows = [json.loads(line) for line in in_table(run, path, model, "--json").stdout.splitlines()]
    assert [row["surprisal"] is None for row in rows] == [False, True, True, False]
    assert [row["rt"] for row in rows] == [None, None, 1e-9, 3]
    assert [row["rt"] for row in rows_of(in_table(run, path, model))] == ["", "", "1e-09", "3"]
    parquet = pytest.importorskip("pyarrow.parquet")
    refused = in_table(run, path, model, "-o", tmp_path / "out.parquet")
    assert refused.returncode != 0
    assert b"one type per column" in refused.stderr
    path.write_text("".join(json.dumps(row) + "\n" for row in cells[:3]))
    out, again = tmp_path / "out.parquet", tmp_path / "again.parquet"
    assert in_table(run, path, model, "-o", out).returncode == 0
    assert in_table(run, out, model, "-o", again).returncode == 0
    found = parquet.read_table(again).to_pylist()
    assert [row["relmo_surprisal"] for row in found] == [row["surprisal"] for row in found]
    assert [row["word"] for row in found] == ["Mira", None, None]


def test_a_table_has_documents_if_it_says_so(run, model, tmp_path):
    path = tmp_path / "spr.tsv"
    path.write_text("story\titem\tword\n" + "".join(
        f"{story}\t{item}\t{word}\n"
        for story, item in ("a1", "a2", "b1") for word in ("Mira", "runs")
    ))  # fmt: skip
    rows = rows_of(in_table(run, path, model, "--context", "document", "--document", "story"))
    found = [row["surprisal"] for row in rows]
    assert found[:2] == found[4:]
    assert found[:2] != found[2:4]
    both = rows_of(in_table(run, path, model, "--sentence", "story,item"))
    assert len({row["surprisal"] for row in both}) == 2
    path.write_text("story\titem\tword\na\t1\tMira\n\t\t\na\t1\truns\n")
    empty = rows_of(in_table(run, path, model))  # a row of its own, in no sentence
    assert [row["word"] for row in empty] == ["Mira", "", "runs"]


def test_a_table_without_its_columns_is_refused_by_name(run, tmp_path):
    path = tmp_path / "spr.csv"
    path.write_text(SPR)
    (tmp_path / "text.txt").write_text(TEXT)
    word, sentence = ("--word", "word"), ("--sentence", "item")
    for arguments, message in [
        ([path], "is a table: give --word COLUMN"),
        ([path, *word], "needs --sentence COLUMN"),
        ([tmp_path / "text.txt", *sentence], "give --word COLUMN, too"),
        ([path, "--word", "token", *sentence], "no column 'token'; found 'item', 'word'"),
        ([path, *word, "--sentence", "item,list"], "no column 'list'"),
        ([path, path, *word, *sentence], "one table at a time"),
        ([path, *word, *sentence, "--tokenized"], "--tokenized or --word, not both"),
        ([path, *word, *sentence, "--context", "document"], "needs --document COLUMN"),
        ([tmp_path / "text.txt", *word, *sentence], "unknown table format"),
    ]:
        found = run("surprisal", *arguments)
        assert found.returncode == 2
        assert message in found.stderr.decode()
        assert "loading" not in found.stderr.decode()


def test_documents_of_several_files_are_counted_and_never_joined(run, model, text, tmp_path):
    (tmp_path / "b.txt").write_text("Sol runs.\nMira sings.\n")
    more = ("--model", model, "--context", "document")
    rows = rows_of(run("surprisal", text, tmp_path / "b.txt", *more))
    assert list(rows[0]) == [*HEADER, "document_id"]
    assert [int(row["document_id"]) for row in rows] == [0] * 12 + [1] * 3 + [2] * 6
    assert [int(row["sentence_id"]) for row in rows[12:]] == [2] * 3 + [3] * 3 + [4] * 3
    alone = rows_of(run("surprisal", tmp_path / "b.txt", *more))
    assert [row["surprisal"] for row in rows[15:]] == [row["surprisal"] for row in alone]


def test_a_document_of_a_treebank_begins_anew(run, model, tmp_path):
    path = tmp_path / "tree.conllu"
    path.write_text(f"# newdoc\n{CONLLU}\n# newdoc id = 2\n{CONLLU}\n{CONLLU}")
    rows = rows_of(run("surprisal", path, "--model", model, "--context", "document"))
    found = [row["surprisal"] for row in rows]
    assert found[:3] == found[3:6]
    assert found[3:6] != found[6:]


def test_a_treebank_without_tags_is_read_and_one_without_columns_is_not(run, model, tmp_path):
    path = tmp_path / "bare.conllu"
    path.write_text(CONLLU.replace("X", "_"))
    rows = rows_of(run("surprisal", path, "--model", model))
    assert [row["token"] for row in rows] == ["Mira", "sings", "."]
    path.write_text("1\tMira\n")
    found = run("surprisal", path, "--model", model)
    assert found.returncode != 0
    assert b"bare.conllu, line 1: 2 columns separated by tabs, expected the 10" in found.stderr


def test_bytes_that_are_not_utf8_end_the_command_before_a_header(run, model, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"Sol runs.\n\nSol \xe9.\n")
    for source, stdin in ((path, b""), ("-", path.read_bytes())):
        found = run("surprisal", source, "--model", model, stdin=stdin)
        assert found.returncode != 0
        assert found.stdout == b""
        assert b"line 3 is not UTF-8" in found.stderr
        assert b"iconv -f LATIN1 -t UTF-8" in found.stderr
        assert b"relmo embed" not in found.stderr
