"""The studies of passages and of small indexes, on data of a few lines."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from relmo import Elmo
from relmo.search.index import Hit
from relmo.text.lexicon import Lexicon
from relmo.train.run import read_record

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
SCRIPTS = Path(__file__).parents[3] / "scripts"
SENTENCES = [
    "A man plays chess.",
    "A cat sleeps all day.",
    "Rates rise.",
    "The bank opens at nine.",
]


@pytest.fixture
def load(tiny, monkeypatch):
    lexicon = Lexicon(["<S>", "</S>", "<UNK>", ".", "a", "the"])
    monkeypatch.setattr(Elmo, "from_pretrained", lambda _: Elmo(tiny.bilm, lexicon))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def data(tmp_path):
    paragraphs = [
        {"context": text, "qas": [{"question": text, "answers": [{"text": text.split()[1]}]}]}
        for text in SENTENCES
    ]
    articles = {"data": [{"title": "First_one", "paragraphs": paragraphs}]}
    for part in ("train", "dev"):
        (tmp_path / f"{part}-v1.1.json").write_text(json.dumps(articles))
    pages = "".join(
        f"<doc>\n<docno>{i}</docno>\n<text>{text}</text></doc>"
        for i, text in enumerate(SENTENCES, start=1)
    )
    (tmp_path / "cran.all.1400.xml").write_text(pages)
    asked = "".join(f"<top><title>\n{text}\n</title></top>" for text in SENTENCES)
    (tmp_path / "cran.qry.xml").write_text(asked)
    (tmp_path / "cranqrel.trec.txt").write_text("".join(f"{i} 0 {i} 1\n" for i in range(1, 5)))
    return tmp_path


def run(script, data, monkeypatch, *args):
    given = ["x", "--squad", str(data), *args, "--output", str(data / "out")]
    monkeypatch.setattr(sys, "argv", given)
    script.main()


def test_passages_are_scored_and_the_record_holds_no_text(load, data, monkeypatch, capsys):
    script = load("choose_passages")
    run(script, data, monkeypatch, "--cranfield", str(data))
    record = read_record(data / "out" / "passages.json")
    assert [(row["passages"], row["max_words"]) for row in record["dev"]] == script.WAYS
    assert [(row["passages"], row["max_words"]) for row in record["results"]] == script.REPORTED
    for row in record["results"]:
        assert row["squad"]["bm25"]["read300"] == row["cranfield"]["bm25"] == 1
    assert not any(text in json.dumps(record) for text in SENTENCES)
    assert "paragraph" in capsys.readouterr().out


def test_an_answer_counts_in_its_own_paragraph_alone(load):
    question = load("choose_passages").Question("?", "a", 10, 30, ("cat",))
    text = "The cat ran. The other cat slept here."

    def before(document: str, start: int) -> int | None:
        end = start + len(text)
        return question.words_before(Hit(document, "a", 1, start, end, 1.0, text, {}))

    assert before("a", 0) == 6  # the second cat: the first stands before the paragraph
    assert before("a", 9) == 2
    assert before("a", 30) is before("b", 9) is None


def test_small_indexes_are_scored_with_and_without_a_background(load, data, monkeypatch):
    script = load("measure_small_indexes")
    monkeypatch.setattr(script.encoder, "ENOUGH", script.ENOUGH)  # which the script changes
    run(script, data, monkeypatch)
    record = read_record(data / "out" / "small.json")
    assert [row["paragraphs"] for row in record["results"]] == [8, 16, 32]
    assert all(row["mrr_without"] == row["mrr_with"] == 1 for row in record["results"])
    assert not any(text in json.dumps(record) for text in SENTENCES)
