"""Suites: their rows, and what they refuse."""

from unittest.mock import MagicMock

import pytest

from relmo.errors import ConfigError
from relmo.lab.bench import suites
from relmo.lab.bench.embedding import BenchSettings
from relmo.lab.bench.report import as_text
from relmo.lab.bench.suites import run_suite


@pytest.fixture
def settings(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "model")
    (tmp_path / "in.txt").write_text("The bank raised rates.\nWe sat on the bank.\n")

    def made(**options):
        options = {"device": "cpu", "precisions": ("float32", "int8"), **options}
        text = tmp_path / "in.txt"
        return BenchSettings(model=str(tmp_path / "model"), text=text, seconds=1e-6, **options)

    return made


def test_growth_varies_one_quantity_at_a_time(settings, monkeypatch):
    monkeypatch.setattr(suites, "LENGTHS", (10, 25))
    monkeypatch.setattr(suites, "BATCHES", (1, 4))
    report = run_suite("growth", settings())
    names = [(row["varies"], row["value"]) for row in report["rows"]]
    assert names == [
        ("length", 10), ("length", 25), ("batch", 1), ("batch", 4),
        *(("new words, %", share) for share in (0, 25, 50, 75, 100)),
    ]  # fmt: skip
    assert all(row["ms_per_token"] > 0 for row in report["rows"])
    assert "| batch        | 4     |" in as_text(report)


def test_a_device_is_measured_at_each_precision_it_has(settings, monkeypatch):
    monkeypatch.setattr(suites, "BATCH_TOKENS", (64,))
    report = run_suite("gpu", settings())
    found = [(row["precision"], row["words"], row["output"]) for row in report["rows"]]
    assert found == [
        ("float32", words, output) for words in ("known", "new") for output in ("device", "host")
    ]
    assert report["about"].endswith("11 tokens per pass")


def test_a_trained_bilm_stands_beside_a_frozen_one(settings):
    rows = run_suite("train", settings())["rows"]
    assert [row["biLM"] for row in rows] == ["frozen", "trained"]
    assert all(row["tokens_per_second"] > 0 for row in rows)


def test_queries_are_timed_by_kind(settings, monkeypatch):
    index = MagicMock(__len__=lambda _: 1234)
    index.__enter__.return_value = index
    monkeypatch.setattr(suites, "SemanticIndex", MagicMock(open=MagicMock(return_value=index)))
    report = run_suite("search", settings(index="somewhere"))
    suites.SemanticIndex.open.assert_called_once_with("somewhere")
    assert [row["query"] for row in report["rows"]] == ["embed", "vectors", "hybrid"]
    assert {call.args[0] for call in index.search.call_args_list} == {
        "The bank raised rates .",
        "We sat on the bank .",
    }
    assert report["about"] == "1,234 passages, queries of up to 7 words"


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        ("speed", {}, "unknown suite 'speed'; choose embed, growth, gpu, train, search"),
        ("search", {}, "the search suite needs an index; give one with --index"),
    ],
)
def test_a_suite_that_cannot_run_says_why(settings, suite, options, message):
    with pytest.raises(ConfigError, match=message):
        run_suite(suite, settings(**options))
