"""relmo senses and relmo change, as a script and as a person sees them."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
import torch

from relmo import Elmo
from relmo.nn.bilm import BiLM, initialize
from relmo.text.lexicon import Lexicon
from tests.conftest import tiny_config

WORDS = ("<S>", "</S>", "<UNK>", "the", "bank", "a", "river", "money", "loan", "boat", ".")
RIVER = [
    f"We sat on the {adjective} bank of a river ."
    for adjective in ["muddy", "steep", "wet", "green"]
]
MONEY = [f"My {adjective} bank lent me money ." for adjective in ["old", "new", "rich", "poor"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    generator = torch.Generator().manual_seed(3)
    shapes = {"weight": (len(WORDS), 8), "bias": (len(WORDS),)}
    head = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    folder = tmp_path_factory.mktemp("model")
    bilm = initialize(BiLM(tiny_config()), seed=1)
    Elmo(bilm, Lexicon(WORDS), lambda: head).save_pretrained(folder)
    return folder


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbered = [f"{line[:-1]}{word} ." for line in RIVER for word in ("here", "there")]
    (tmp_path / "before.txt").write_text("\n".join(numbered))
    (tmp_path / "after.txt").write_text("\n".join([*MONEY, *numbered[:2], "A boat ."]))
    return tmp_path


def test_senses_are_reported_as_json_and_places_as_rows(run, model, corpora):
    texts = ("--corpus", "before.txt", "--corpus", "after.txt")
    found = run("senses", "bank", *texts, "--model", model, "--json", "-o", "places.tsv")
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert (result["word"], result["places"]) == ("bank", 12)  # the repeated ones once
    assert sum(sense["places"] for sense in result["senses"]) == 12
    assert sum(sense["share"] for sense in result["senses"]) == pytest.approx(1, abs=1e-3)
    for sense in result["senses"]:
        assert sense["substitutes"]
        assert not {"bank", "<UNK>", "."} & set(sense["substitutes"])
        for example in sense["examples"]:
            assert example["text"][example["start"] : example["end"]] == "bank"
    with (corpora / "places.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [int(row["sense"]) for row in rows] == sorted(int(row["sense"]) for row in rows)
    assert len(rows) == 12
    for row in rows:
        assert row["form"] == row["text"][int(row["start"]) : int(row["end"])] == "bank"
        lines = (corpora / row["file"]).read_text().splitlines()
        assert row["text"] == lines[int(row["line"]) - 1]
    assert b"12 places say little about the number of senses" in found.stderr


def test_a_person_sees_a_table_of_senses(run, model, corpora):
    found = run("senses", "bank", "--corpus", ".", "--model", model, "--threshold", "-1")
    assert found.returncode == 0, found.stderr
    shown = found.stdout.decode()
    assert "'bank': 1 sense at 12 places" in shown
    assert "[bank]" in shown
    assert "100%" in shown


def test_a_model_without_softmax_shows_senses_without_substitutes(run, corpora, tmp_path):
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(tmp_path / "bare")
    found = run("senses", "bank", "--corpus", "before.txt", "--model", "bare", "--json")
    assert found.returncode == 0, found.stderr
    assert all(sense["substitutes"] == [] for sense in json.loads(found.stdout)["senses"])
    assert b"no softmax: senses are shown without substitutes" in found.stderr


PERIODS = ("--before", "before.txt", "--after", "after.txt")


def test_change_is_reported_with_p_values(run, model, corpora):
    found = run("change", "bank", "boat", *PERIODS, "--model", model, "--json", "-o", "out.jsonl")
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    [bank] = result["words"]
    assert (bank["word"], bank["before"], bank["after"]) == ("bank", 8, 6)
    for name in ("apd", "prt", "jsd"):
        assert bank[name] >= 0
        assert 0 < bank[f"{name}_p"] <= 1
    assert sum(sense["before"] for sense in bank["senses"]) == pytest.approx(1, abs=1e-3)
    assert result["rare"] == ["boat"]
    assert b"skipped, too rare in one of the texts: boat (1 in all)" in found.stderr
    [row] = map(json.loads, (corpora / "out.jsonl").read_text().splitlines())
    assert row["prt"] == pytest.approx(bank["prt"], abs=1e-5)
    again = run("change", "bank", "boat", *PERIODS, "--model", model, "--json")
    assert json.loads(again.stdout) == result


def test_p_values_that_cannot_be_low_are_empty_and_said(run, model, corpora):
    call = ("change", "bank", *PERIODS, "--model", model)
    found = run(*call, "--json", "--permutations", "0", "-o", "out.tsv")
    result = json.loads(found.stdout)
    assert (result["permutations"], result["seed"]) == (0, 0)
    [bank] = result["words"]
    assert (bank["prt_p"], bank["passages_before"], bank["passages_after"]) == (None, 8, 6)
    assert bank["remark"] == "no p-values: 0 permutations cannot give p ≤ 0.05"
    assert b"bank: no p-values: 0 permutations" in found.stderr
    with (corpora / "out.tsv").open() as file:
        [row] = csv.DictReader(file, delimiter="\t")
    assert (row["apd_p"], row["passages_after"]) == ("", "6")
    for name in PERIODS[1::2]:  # a blank line makes two passages of each
        text = (corpora / name).read_text().replace("\n", "\n\n", 1)
        (corpora / name).write_text(text)
    found = run(*call)
    assert b"the places are in 2 passages and 2 passages before and after, too few" in found.stderr
    assert "8 / 6" in found.stdout.decode()
    assert "2 / 2" in found.stdout.decode()


DOCS = Path(__file__).parents[2] / "docs" / "senses.md"


@pytest.mark.parametrize(
    "line", re.findall(r"^    \$ relmo (.*?)(?: +#.*)?$", DOCS.read_text(), re.M)
)
def test_the_commands_of_the_page_are_accepted(run, model, tmp_path, monkeypatch, line):
    """Each gets as far as the text, which is not here."""
    monkeypatch.chdir(tmp_path)
    found = run(*shlex.split(line), "--model", model)
    assert (found.returncode, b"no files found" in found.stderr) == (1, True), found.stderr


def test_vocabularies_are_numbers_or_files(run, model, corpora):
    (corpora / "words.txt").write_text("bank\nriver\n")
    options = ("--model", model, "--json", "--permutations", "9")
    named = json.loads(run("change", *PERIODS, "--vocabulary", "words.txt", *options).stdout)
    assert [word["word"] for word in named["words"]] == ["bank"]
    counted = json.loads(run("change", *PERIODS, "--vocabulary", "1", *options).stdout)
    assert [word["word"] for word in counted["words"]] == ["bank"]


def test_aligned_texts_are_other_distances(run, model, corpora):
    call = ("change", "bank", *PERIODS, "--model", model, "--json", "--permutations", "9")
    plain, aligned = (
        json.loads(run(*call, *more).stdout)["words"][0] for more in ((), ("--align",))
    )
    assert aligned["prt"] != plain["prt"]
    assert aligned["before"] == plain["before"]


def test_a_picture_is_drawn_the_same_each_time(run, model, corpora):
    pytest.importorskip("matplotlib", reason="pip install 'relmo[report]'")
    call = ("change", "bank", *PERIODS, "--model", model, "--picture")
    for name in ("one.svg", "two.svg"):
        found = run(*call, name)
        assert found.returncode == 0, found.stderr
    one, two = ((corpora / name).read_bytes() for name in ("one.svg", "two.svg"))
    assert one == two
    assert b"before (8)" in one
    assert b"after (6)" in one
    assert "bank" in found.stdout.decode()


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("senses", "loan", "--corpus", "before.txt"), 1, "'loan' is not in before.txt; check"),
        (("senses", "bank", "--corpus", "none.txt"), 1, "none.txt: no files found"),
        (("senses", "bank", "--corpus", ".", "-o", "x.doc"), 2, "unknown suffix '.doc'"),
        (("senses", "bank", "--corpus", ".", "--threshold", "nan"), 2, "from -1 to 1, got nan"),
        (("senses", "bank", "--corpus", ".", "--threshold", "5"), 2, "from -1 to 1, got 5.0"),
        (("change", *PERIODS), 2, "give words to compare, or --vocabulary"),
        (("change", "boat", *PERIODS), 1, "at least 5 places in each are needed"),
        (("change", *PERIODS, "--vocabulary", "0"), 2, "a number ≥ 1 or a file of words"),
        (("change", "a", "b", *PERIODS, "--picture", "x.svg"), 2, "--picture shows one word"),
        (("change", "a", *PERIODS, "--picture", "x.png"), 2, "must end in .svg"),
    ],
)
def test_a_wrong_call_is_one_clear_message(run, model, corpora, args, code, message):
    found = run(*args, "--model", model)
    assert found.returncode == code
    assert message in found.stderr.decode()
    assert b"Traceback" not in found.stderr
