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
