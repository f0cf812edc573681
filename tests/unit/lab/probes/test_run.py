"""A probe by its name: its scores and its record."""

import json

import pytest

from relmo.errors import ConfigError, WeightError
from relmo.lab.probes.run import PROBES, run_probe
from relmo.training.run import read_record
from tests.support.toy_probes import WRITERS

each_probe = pytest.mark.parametrize("name", PROBES)


@each_probe
def test_a_record_holds_what_the_scores_were_made_from_and_is_sealed(name, tiny_lm, tmp_path):
    data, output = WRITERS[name](tmp_path / "data"), tmp_path / "runs" / "one"
    results = run_probe(name, tiny_lm, data, output=output, seed=3)
    record = read_record(output / "run.json")
    assert record["task"] == f"probe-{name}"
    assert record["elmo"] == {"name": "tiny", "fingerprint": tiny_lm.fingerprint()}
    assert record["results"] == results
    assert record["seed"] == 3
    assert all(len(file["sha256"]) == 64 for file in record["data"]["files"].values())
    assert all(0 <= value <= 100 for n, value in results.items() if "_mcc_" not in n)
    assert {"seconds", "settings", "versions", "hardware", "precision"} <= record.keys()
    text = (output / "run.json").read_text()
    (output / "run.json").write_text(text.replace('"seed": 3', '"seed": 4'))
    with pytest.raises(WeightError, match="its checksum does not match"):
        read_record(output / "run.json")


@each_probe
def test_the_same_call_gives_the_same_scores_with_a_cache_and_without(name, tiny_lm, tmp_path):
    data, cache = WRITERS[name](tmp_path / "data"), tmp_path / "cache"
    first = run_probe(name, tiny_lm, data)
    assert run_probe(name, tiny_lm, data, cache=cache) == first
    assert run_probe(name, tiny_lm, data, cache=cache) == first
    assert json.loads(json.dumps(first)) == first


def test_pairs_are_written_to_a_file(tiny_lm, tmp_path):
    data = WRITERS["blimp"](tmp_path / "data")
    run_probe("blimp", tiny_lm, data / "agreement_1.jsonl", pairs=tmp_path / "pairs.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert rows[0]["nats_both"] == pytest.approx(rows[0]["nats_forward"] + rows[0]["nats_backward"])
    with pytest.raises(ConfigError, match=r"the output must end in \.tsv"):
        run_probe("blimp", None, data, pairs=tmp_path / "pairs.xls")


def test_files_of_one_name_have_their_own_checksums(tiny_lm, tmp_path):
    for name in ("a", "b"):
        WRITERS["blimp"](tmp_path / "data" / name)
    run_probe("blimp", tiny_lm, tmp_path / "data", output=tmp_path / "run")
    files = read_record(tmp_path / "run" / "run.json")["data"]["files"]
    assert {"a/agreement_1.jsonl", "b/agreement_1.jsonl"} <= files.keys()


def test_a_path_may_be_a_string(tiny, tmp_path):
    data = WRITERS["intrinsic"](tmp_path / "data")
    run_probe("intrinsic", tiny, str(data), output=str(tmp_path / "run"))
    assert (tmp_path / "run" / "run.json").is_file()


def test_a_wrong_call_is_named(tiny, tmp_path):
    with pytest.raises(ConfigError, match="no probe 'wsdd'; did you mean 'wsd'"):
        run_probe("wsdd", tiny, tmp_path)
    with pytest.raises(ConfigError, match="is not a folder"):
        run_probe("wsd", tiny, tmp_path / "nothing")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match="contains a finished run"):
        run_probe("wsd", tiny, tmp_path, output=tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "seed must be an integer ≥ 0, got -1"),
        ({"vectors": "nowhere.txt"}, "nowhere.txt: no such file"),
        ({"output": "a-file"}, "a-file is not a folder"),
        ({"cache": "a-file"}, "a-file is not a folder"),
        ({"pairs": "pairs.tsv"}, "only blimp has pairs; leave --pairs out for pos"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_read(wrong, message, tmp_path):
    (tmp_path / "a-file").write_text("")
    given = {k: tmp_path / v if isinstance(v, str) else v for k, v in wrong.items()}
    with pytest.raises(ConfigError, match=message):
        run_probe("pos", None, tmp_path, **given)
