"""Pairs for a text encoder from open text: which texts belong together, and in which part."""

import importlib.util
import json
import random
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "search_pairs.py"
spec = importlib.util.spec_from_file_location("search_pairs", SCRIPT)
script = importlib.util.module_from_spec(spec)
sys.modules["search_pairs"] = script
spec.loader.exec_module(script)
LONG = "A {0} is a thing of some length that many people in the north have seen more than once. "
PARAGRAPHS = {
    name: f"{LONG.format(name)}It was made of {name} wood by two old men from a far town . {rest}"
    for name, rest in {
        "boat": "Nobody has ever asked them why they had begun with such a work in winter.",
        "bell": "When it was rung for the first time the whole town came to hear its sound.",
        "lamp": "Its light was seen from all ships that came near to the stones of the bay.",
    }.items()
}
ARTICLE = [
    "Old things", "See also", PARAGRAPHS["boat"], "Bells .", PARAGRAPHS["bell"], "Lamps",
    "a line too long for any heading and short for text", PARAGRAPHS["lamp"],
]  # fmt: skip


def made(maker, lines, seeds=40):
    """All pairs that chance makes of some lines."""
    return {pair for seed in range(seeds) for pair in maker(lines, random.Random(seed))}


def of_kind(pairs, kind):
    return {(pair.query, pair.positive) for pair in pairs if pair.kind == kind}


# ── an encyclopedia ─────────────────────────────────────────────────────────────────────────


def test_a_title_finds_the_first_paragraph():
    assert of_kind(made(script.of_article, ARTICLE), "title") == {
        ("Old things", PARAGRAPHS["boat"])
    }


def test_title_and_heading_find_a_paragraph_of_the_section():
    found = of_kind(made(script.of_article, ARTICLE), "section")
    assert found == {
        ("Old things Bells", PARAGRAPHS["bell"]),
        ("Bells of Old things", PARAGRAPHS["bell"]),
        ("Old things Lamps", PARAGRAPHS["lamp"]),
        ("Lamps of Old things", PARAGRAPHS["lamp"]),
    }


def test_a_paragraph_finds_the_next_one():
    found = of_kind(made(script.of_article, ARTICLE), "next")
    assert found == {(PARAGRAPHS["bell"], PARAGRAPHS["lamp"])}


def test_a_sentence_finds_the_rest_of_its_paragraph_and_sometimes_all_of_it():
    found = of_kind(made(script.of_article, ARTICLE), "sentence")
    whole = [pair for pair in found if pair[0] in pair[1]]
    assert whole
    assert len(whole) < len(found) / 2
    for query, positive in found:
        (paragraph,) = (text for text in PARAGRAPHS.values() if query in text)
        assert sorted((query + " " + positive).split()) in (
            sorted(paragraph.split()), sorted((paragraph + " " + query).split())
        )  # fmt: skip


def test_a_span_finds_its_paragraph_with_or_without_it():
    found = of_kind(made(script.of_article, ARTICLE), "span")
    assert {query in positive for query, positive in found} == {True, False}
    assert {positive.startswith("Old things. ") for _, positive in found} == {True, False}
    for query, _ in found:
        assert 3 <= len(query.split()) <= 8
        assert any(query in text for text in PARAGRAPHS.values())


@pytest.mark.parametrize("lines", [["Old things"], ["Old things", "too short"], ["", "😀"]])
def test_articles_without_paragraphs_have_no_pairs(lines):
    assert not made(script.of_article, lines)


def test_an_article_need_not_have_a_title():
    found = made(script.of_article, [PARAGRAPHS["boat"], "Bells", PARAGRAPHS["bell"]])
    assert {pair.kind for pair in found} == {"sentence", "span"}


# ── other sources ───────────────────────────────────────────────────────────────────────────


def test_headlines_and_paragraphs_of_news():
    lines = ["Town hears an old bell", PARAGRAPHS["bell"], PARAGRAPHS["boat"], "short"]
    found = list(script.of_news(lines))
    assert found == [
        script.Pair("news", lines[0], lines[1]),
        script.Pair("newsnext", script.cut(lines[1], 50), lines[2]),
    ]
    assert list(script.of_news(["A headline alone"])) == []
    assert [pair.kind for pair in script.of_news(["word " * 17, lines[1]])] == []


def test_entailed_sentences_are_read_line_by_line(tmp_path):
    rows = [("entailment", "Mira\u2028sings", "Somebody sings"), ("neutral", "a", "b")]
    names = ("gold_label", "sentence1", "sentence2")
    text = "".join(
        json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n" for row in rows
    )
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    found = list(script.entailed(tmp_path / "a.jsonl"))
    assert found == [script.Pair("entailed", "Mira\u2028sings", "Somebody sings")]


def squad(number):
    def paragraph(i):
        return {"context": f"Town {i} " * 200, "qas": [{"question": f" Who of {i}? "}]}

    return {"data": [{"paragraphs": [paragraph(i)]} for i in range(number)]}


def test_questions_of_held_out_articles_are_the_dev_part_s(tmp_path):
    (tmp_path / "squad.json").write_text(json.dumps(squad(90)))
    kept, others = script.questions(tmp_path / "squad.json")
    assert (len(kept), len(others)) == (50, 40)
    assert not {pair.positive for pair in kept} & {pair.positive for pair in others}
    assert all(pair.kind == "question" and pair.query.startswith("Who") for pair in kept)
    assert all(len(pair.positive.split()) == script.MAX_WORDS for pair in kept + others)


@pytest.mark.parametrize(
    ("line", "answer"),
    [("Old things", True), ("a b c d e f g h", True), ("a b c d e f g h i", False), ("| a", False),
     ("<ref>", False), ("* a", False)],
)  # fmt: skip
def test_a_heading_is_short(line, answer):
    assert script.is_heading(line) is answer


def test_documents_go_to_parts_by_their_words():
    parts = Counter(script.part_of([f"Document {i}", "שלום"]) for i in range(3000))
    assert parts["train"] > 2880
    assert min(parts["dev"], parts["test"]) > 10
    assert script.part_of(["a", "b"]) == script.part_of(["a", "b"])


def test_the_command_writes_three_files(tmp_path):
    (tmp_path / "squad.json").write_text(json.dumps(squad(4)))
    row = {"gold_label": "entailment", "sentence1": "Mira sings", "sentence2": "She sings"}
    (tmp_path / "nli.jsonl").write_text(json.dumps(row) + "\n")
    articles = ["\n".join([f"Things {i}", *ARTICLE[2:]]) for i in range(300)]
    (tmp_path / "articles.txt").write_text("\n\n".join(articles))
    (tmp_path / "news.txt").write_text(f"A headline\n{PARAGRAPHS['bell']}\n{PARAGRAPHS['boat']}\n")
    out = tmp_path / "out"
    command = [sys.executable, SCRIPT, "--squad", tmp_path / "squad.json", "--entailment",
               tmp_path / "nli.jsonl", "--encyclopedia", tmp_path / "articles.txt", "--news",
               tmp_path / "news.txt", "--articles", "250", "--output", out]  # fmt: skip
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = {
        part: list(map(json.loads, (out / f"{part}.jsonl").read_text("utf-8").splitlines()))
        for part in ("train", "dev", "test")
    }
    assert all(row.keys() == {"kind", "query", "positive"} for row in chain(*rows.values()))
    kinds = {part: Counter(row["kind"] for row in found) for part, found in rows.items()}
    assert sum(found["title"] for found in kinds.values()) == 250
    assert min(kinds["dev"]["title"], kinds["test"]["title"]) >= 1
    assert (kinds["train"]["question"], kinds["dev"]["question"]) == (2, 2)
    assert (kinds["train"]["entailed"], sum(k["newsnext"] for k in kinds.values())) == (1, 1)
    counted = {tuple(line.split()[:2]): int(line.split()[2]) for line in shown.splitlines()}
    assert counted == {(part, kind): n for part in kinds for kind, n in kinds[part].items()}
