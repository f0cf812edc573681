"""The studies behind the defaults, on data of a few lines, and their measures."""

import importlib.util
import json
import math
import random
import sys
from pathlib import Path

import pytest

from relmo import Elmo
from relmo.search import Hit
from relmo.search.spelling import neighbors
from relmo.text.lexicon import Lexicon
from relmo.training.run import read_record

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
SCRIPTS = Path(__file__).parents[3] / "scripts"
SENTENCES = ["A man plays.", "A cat sleeps.", "Rates rise.", "The bank opens.", "It rains."]


@pytest.fixture
def load(tiny, monkeypatch):
    lexicon = Lexicon(["<S>", "</S>", "<UNK>", ".", "a", "the"])
    monkeypatch.setattr(Elmo, "from_pretrained", lambda _: Elmo(tiny.bilm, lexicon))
    monkeypatch.syspath_prepend(SCRIPTS)

    def load(name):
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        if hasattr(module, "open_model"):
            monkeypatch.setattr(module, "open_model", lambda _: Elmo(tiny.bilm, lexicon))
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
    for part in ("train", "dev", "test"):
        lines = [
            f"g\tf\ty\t{i}\t{i % 6}.0\t{text}\t{SENTENCES[i * 3 % 5]}\n"
            for i, text in enumerate(SENTENCES)
        ]
        (tmp_path / f"sts-{part}.csv").write_text("".join(lines))
    pages = "".join(
        f"<doc>\n<docno>{i}</docno>\n<text>{text}</text></doc>"
        for i, text in enumerate(SENTENCES, start=1)
    )
    (tmp_path / "cran.all.1400.xml").write_text(pages)
    asked = "".join(f"<top><title>\n{text}\n</title></top>" for text in SENTENCES)
    (tmp_path / "cran.qry.xml").write_text(asked)
    (tmp_path / "cranqrel.trec.txt").write_text("".join(f"{i} 0 {i} 1\n" for i in range(1, 6)))
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


def test_small_indexes_are_scored_with_and_without_random_texts(load, data, monkeypatch):
    script = load("measure_small_indexes")
    monkeypatch.setattr(script.encoder, "PRIOR_BELOW", script.PRIOR_BELOW)  # undo its change
    run(script, data, monkeypatch)
    record = read_record(data / "out" / "small.json")
    assert [row["paragraphs"] for row in record["results"]] == [8, 16, 32]
    assert all(row["mrr_without"] == row["mrr_with"] == 1 for row in record["results"])
    assert not any(text in json.dumps(record) for text in SENTENCES)


def test_typing_errors_are_one_wrong_letter_in_each_longer_word(load):
    script = load("measure_typos")
    text = "Who did sell 1800s books, on Élysée's stairs?"
    (wrong,) = script.with_typos([text], 1)
    assert script.with_typos([text], 1) == [wrong] != script.with_typos([text], 2)
    pairs = [each for each in zip(text.split(), wrong.split(), strict=True) if len(set(each)) > 1]
    assert [right for right, _ in pairs] == ["sell", "books,", "Élysée's", "stairs?"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert all(second in neighbors(first, letters) for first, second in pairs)
    assert script.mistype("aaaa", random.Random(0)) != "aaaa"


def test_queries_with_typing_errors_are_scored_and_the_record_holds_no_text(
    load, data, monkeypatch, capsys
):
    script = load("measure_typos")
    run(script, data, monkeypatch, "--cranfield", str(data))
    run(script, data, monkeypatch, "--cranfield", str(data), "--held-out")
    for part, queries in (("dev", 3), ("held_out", 2)):
        record = read_record(data / "out" / f"typos_{part}.json")
        found = record["results"]["cranfield"]
        assert (found["queries"], found["passages"]) == (queries, 5)
        assert [row["way"] for row in found["rows"]] == ["BM25", "vectors", "hybrid"]
        for row in found["rows"]:
            assert row["right"] == row["right_corrected"] == 1
            assert row["wrong_corrected"] > 0.5
        assert record["results"]["squad"]["queries"] == 5
        assert not any(text in json.dumps(record) for text in SENTENCES)
    assert "hybrid" in capsys.readouterr().out


def test_ways_to_search_are_compared(load, data, monkeypatch, capsys):
    script = load("compare_search")
    words = sorted({word.strip(".").lower() for text in SENTENCES for word in text.split()})
    lines = [f"{word} {number} {number**2} {-1}" for number, word in enumerate(words)]
    (data / "glove.txt").write_text("\n".join(lines))
    given = ("--sts", str(data), "--cranfield", str(data), "--glove", str(data / "glove.txt"))
    run(script, data, monkeypatch, *given, "--models", "tiny")
    found = json.loads((data / "out" / "compared.json").read_text())
    assert found.keys() == {"part", "average of GloVe", "BM25", "tiny, vectors", "tiny, hybrid"}
    assert found["part"] == "test"
    assert found["BM25"].keys() == {"cranfield", "squad", "passages_per_second", "ms"}
    assert found["BM25"]["squad"] > 0.9
    assert -1 <= found["tiny, vectors"]["sts"] <= 1
    assert "| tiny, hybrid |" in capsys.readouterr().out


def test_ways_to_pool_are_scored_and_the_record_holds_no_text(load, data, monkeypatch, capsys):
    script = load("choose_pooling")
    monkeypatch.setattr(script, "WEIGHTS", script.WEIGHTS[:2] + script.WEIGHTS[-1:])
    run(script, data, monkeypatch, "--sts", str(data), "--cranfield", str(data))
    record = read_record(data / "out" / "run.json")
    assert set(record["results"]) == {
        "static average (layer 0)",
        "ELMo raw mean",
        "ELMo, chosen",
        "BM25",
        "BM25 over whole documents",
        "hybrid",
    }
    assert record["results"]["BM25"]["cranfield"] > 0.5
    assert record["results"]["BM25"]["squad"] == 1  # the question holds a word of one paragraph
    assert record["results"]["hybrid"]["squad"] == 1
    assert len(record["dev"]["grid"]) == 3 * 6 * 7
    assert len(record["dev_fusions"]) == 2 * 2 * 3 * 3
    assert not any(text in json.dumps(record) for text in SENTENCES)
    assert "| BM25 |" in capsys.readouterr().out


def test_ndcg_of_known_rankings(load):
    ndcg = load("retrieval_scores").ndcg
    assert ndcg(["a", "b"], {"a", "b"}) == 1
    assert ndcg(["x", "a"], {"a"}) == pytest.approx(1 / math.log2(3))
    assert ndcg(["x"] * 10 + ["a"], {"a"}) == 0
    assert ndcg(["a"], set()) == 0


def test_spearman_of_known_orders(load):
    spearman = load("retrieval_scores").spearman
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2], [1, 2, 2]) == pytest.approx(0.5)
