"""The study that chooses the defaults, on data of a few lines."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from relmo import Elmo
from relmo.text.lexicon import Lexicon
from relmo.train.run import read_record

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
SCRIPT = Path(__file__).parents[3] / "scripts" / "choose_pooling.py"
SENTENCES = ["A man plays.", "A cat sleeps.", "Rates rise.", "The bank opens.", "It rains."]


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("choose_pooling", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path):
    for part in ("train", "dev", "test"):
        lines = [
            f"g\tf\ty\t{i}\t{i % 6}.0\t{text}\t{SENTENCES[i * 3 % 5]}\n"
            for i, text in enumerate(SENTENCES)
        ]
        (tmp_path / f"sts-{part}.csv").write_text("".join(lines))
    pages = "".join(
        f"<doc>\n<docno>{i}</docno>\n<title>t</title>\n<text>{text} {SENTENCES[i % 5]}</text></doc>"
        for i, text in enumerate(SENTENCES, start=1)
    )
    (tmp_path / "cran.all.1400.xml").write_text(pages)
    asked = "".join(f"<top><title>\n{text}\n</title></top>" for text in SENTENCES[:4])
    (tmp_path / "cran.qry.xml").write_text(asked)
    (tmp_path / "cranqrel.trec.txt").write_text("".join(f"{i} 0 {i} 1\n" for i in range(1, 5)))
    for part in ("train", "dev"):
        paragraphs = [
            {"context": text, "qas": [{"question": f"{text.split()[1]} what?"}]}
            for text in SENTENCES
        ]
        squad = {"data": [{"title": "t", "paragraphs": paragraphs}]}
        (tmp_path / f"{part}-v1.1.json").write_text(json.dumps(squad))
    return tmp_path


def test_the_study_writes_a_sealed_record_without_text(script, data, tiny, monkeypatch, capsys):
    lexicon = Lexicon(["<S>", "</S>", "<UNK>", ".", "a", "the"])
    monkeypatch.setattr(Elmo, "from_pretrained", lambda _: Elmo(tiny.bilm, lexicon))
    monkeypatch.setattr(script, "WEIGHTS", script.WEIGHTS[:2] + script.WEIGHTS[-1:])
    places = {"sts": data, "cranfield": data, "squad": data, "output": data / "out"}
    args = [part for name, place in places.items() for part in (f"--{name}", str(place))]
    monkeypatch.setattr(sys, "argv", ["x", *args])
    script.main()
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
