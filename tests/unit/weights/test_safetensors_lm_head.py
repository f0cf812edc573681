"""The softmax on disk: one file or shards of rows, with the same numbers; damage is found."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from relmo import Elmo
from relmo.errors import ConfigError, OutputError, WeightError
from relmo.files import sha256
from relmo.nn.bilm import BiLM, initialize
from relmo.text.lexicon import Lexicon
from relmo.weights.find import convert_model, describe_model, read_model
from relmo.weights.safetensors_files import head_files, read_head, write_head
from tests.conftest import tiny_config

NUM_WORDS = 1000
SHARD_BYTES = 9000


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def head():
    return {"weight": random(NUM_WORDS, 8), "bias": random(NUM_WORDS, seed=1)}


@pytest.fixture(scope="module")
def elmo(head):
    words = ["<S>", "</S>", "<UNK>", *(f"word{i}" for i in range(NUM_WORDS - 3))]
    return Elmo(initialize(BiLM(tiny_config()), seed=1), Lexicon(words), lambda: head)


def same(one, two) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[n], two[n]) for n in one)


def shards_in(folder):
    return sorted(path.name for path in folder.glob("lm_head*"))


# ── there and back ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("storage", ["float32", "int8"])
@pytest.mark.parametrize("shard_bytes", [8000, 9000, 20_001, 30_000])
def test_shards_come_back_to_the_bit(elmo, tmp_path, storage, shard_bytes):
    elmo.save_pretrained(tmp_path / "whole", storage=storage)
    elmo.save_pretrained(tmp_path / "shards", storage=storage, shard_bytes=shard_bytes)
    whole, shards = read_model(tmp_path / "whole"), read_model(tmp_path / "shards")
    assert same(whole.lm_head(), shards.lm_head())
    assert same(whole.tensors, shards.tensors)
    assert shards_in(tmp_path / "whole") == ["lm_head.safetensors"]
    found = shards_in(tmp_path / "shards")
    if len(found) > 1:
        assert found[0] == f"lm_head-00001-of-{len(found):05}.safetensors"
    else:
        assert (storage, found) == ("int8", ["lm_head.safetensors"])


@pytest.mark.parametrize("storage", ["float32", "int8"])
@pytest.mark.parametrize("shard_bytes", [8000, 12_345])
def test_no_file_of_weights_is_larger_than_asked(elmo, tmp_path, storage, shard_bytes):
    elmo.save_pretrained(tmp_path, storage=storage, shard_bytes=shard_bytes)
    sizes = [path.stat().st_size for path in tmp_path.glob("*.safetensors")]
    assert len(sizes) > 3
    assert max(sizes) <= shard_bytes


def test_a_shard_holds_consecutive_rows_with_their_scales(head, tmp_path):
    first, *_, last = write_head(tmp_path, head, "int8", SHARD_BYTES)
    tensors = load_file(tmp_path / first)
    rows = len(tensors["bias"])
    assert {name: tuple(t.shape) for name, t in tensors.items()} == {
        "weight": (rows, 8), "weight.scale": (rows,), "bias": (rows,),
    }  # fmt: skip
    assert torch.equal(tensors["bias"], head["bias"][:rows])
    rest = load_file(tmp_path / last)
    assert torch.equal(rest["bias"], head["bias"][-len(rest["bias"]) :])


def test_a_softmax_that_just_fits_is_one_file(head, tmp_path):
    [whole] = write_head(tmp_path, head, "float32", None)
    size = (tmp_path / whole).stat().st_size
    assert write_head(tmp_path, head, "float32", size + 500) == ["lm_head.safetensors"]
    assert len(write_head(tmp_path, head, "float32", size - 1)) == 2


def test_a_row_is_never_split(head, tmp_path):
    with pytest.raises(OutputError, match="a word of the softmax takes 36 bytes, but a shard may"):
        write_head(tmp_path, head, "float32", 300)
    names = write_head(tmp_path, {n: t[:5] for n, t in head.items()}, "float32", 320)
    assert len(names) == 5


def test_the_files_are_recorded_and_checked(elmo, tmp_path):
    elmo.save_pretrained(tmp_path, shard_bytes=SHARD_BYTES)
    files = describe_model(tmp_path)["files"]
    assert all(files[name]["matches"] for name in shards_in(tmp_path))


def test_saving_whole_over_shards_leaves_no_shard(elmo, tmp_path):
    elmo.save_pretrained(tmp_path, shard_bytes=SHARD_BYTES)
    elmo.save_pretrained(tmp_path, storage="int8")
    assert shards_in(tmp_path) == ["lm_head.safetensors"]
    assert Elmo.from_pretrained(tmp_path).lm


def test_the_softmax_is_read_only_when_it_is_needed(elmo, tmp_path, monkeypatch):
    elmo.save_pretrained(tmp_path, shard_bytes=SHARD_BYTES)
    opened = []
    read = read_head.__globals__["read_tensors"]
    monkeypatch.setattr(
        "relmo.weights.safetensors_files.read_tensors",
        lambda path, *rest: opened.append(path.name) or read(path, *rest),
    )
    found = Elmo.from_pretrained(tmp_path)
    assert opened == []
    assert found.lm
    assert opened == shards_in(tmp_path)


def test_converting_can_round_and_cut(elmo, tmp_path):
    elmo.save_pretrained(tmp_path / "whole")
    report = convert_model(tmp_path / "whole", tmp_path / "small", "native", 1, "int8")
    assert any("8-bit storage rounds" in loss for loss in report.lost)
    elmo.save_pretrained(tmp_path / "own", storage="int8")
    assert same(read_model(tmp_path / "small").lm_head(), read_model(tmp_path / "own").lm_head())
    with pytest.raises(ConfigError, match="the official format stores float32, not int8"):
        convert_model(tmp_path / "whole", tmp_path / "x", "hdf5", storage="int8")


def test_a_storage_that_is_not_known_is_refused(elmo, tmp_path):
    elmo.save_pretrained(tmp_path / "m")
    message = "unknown storage 'int4'; choose float32, int8"
    with pytest.raises(ConfigError, match=message):
        elmo.save_pretrained(tmp_path / "new", storage="int4")
    with pytest.raises(ConfigError, match=message):
        convert_model(tmp_path / "m", tmp_path / "new", "native", storage="int4")
    assert not (tmp_path / "new").exists()


# ── damage ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(elmo, tmp_path):
    elmo.save_pretrained(tmp_path, storage="int8", shard_bytes=SHARD_BYTES)
    assert len(shards_in(tmp_path)) == 2
    return tmp_path


def change_record(folder, change):
    config = json.loads((folder / "config.json").read_text())
    change(config["files"])
    config.pop("seal")
    (folder / "config.json").write_text(json.dumps(config))


def change(folder, file, change_tensors):
    """Rewrite a shard, and what config.json records of it."""
    tensors = load_file(folder / file)
    change_tensors(tensors)
    save_file(tensors, folder / file)
    facts = {"bytes": (folder / file).stat().st_size, "sha256": sha256(folder / file)}
    change_record(folder, lambda files: files[file].update(facts))


def test_a_missing_shard_is_named(folder):
    (folder / "lm_head-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightError, match=r"lm_head-00002-of-00002.safetensors: is missing"):
        read_model(folder)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["lm_head-00002-of-00002.safetensors"], "lack 'lm_head-00001-of-00002.safetensors'"),
        (["lm_head-00001-of-00002.safetensors"], "lack 'lm_head-00002-of-00002.safetensors'"),
        (
            ["lm_head-00001-of-00001.safetensors", "lm_head.safetensors"],
            "have the unexpected 'lm_head-00001-of-00001.safetensors'",
        ),
        (
            ["lm_head-00001-of-00002.safetensors", "lm_head-00001-of-00003.safetensors"],
            "have the unexpected 'lm_head-00001-of-00002.safetensors'",
        ),
        (["lm_head-x.safetensors"], "have the unexpected 'lm_head-x.safetensors'"),
        (["lm_head-../../x-of-00001.safetensors"], "have the unexpected"),
    ],
)
def test_a_record_of_shards_that_do_not_belong_together_is_named(tmp_path, names, message):
    wanted = "config.json: the recorded shards of the softmax " + re.escape(message)
    with pytest.raises(WeightError, match=wanted):
        head_files(names, tmp_path / "config.json")


def test_a_shard_that_was_left_out_of_the_record_is_named(folder):
    change_record(folder, lambda files: files.pop("lm_head-00001-of-00002.safetensors"))
    with pytest.raises(WeightError, match="lack 'lm_head-00001-of-00002.safetensors'"):
        read_model(folder)


def damage_with_nan(tensors):
    tensors["bias"][3] = float("nan")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.pop("bias"), "of-00002.safetensors: lacks 'bias'"),
        (lambda t: t.pop("weight.scale"), "'weight' lacks its 'weight.scale'"),
        (lambda t: t.update(more=torch.zeros(2)), "has the unexpected 'more'"),
        (lambda t: t.update(bias=torch.zeros(3)), r"'bias' has the shape \(3,\)"),
        (
            lambda t: t.update(weight=t["weight"][:, :5].clone()),
            r"'weight' has the shape \(\d+, 5\)",
        ),
        (
            lambda t: t.update(weight=torch.zeros(4), bias=torch.zeros(4)),
            r"'weight' has the shape \(4,\)",
        ),
        (damage_with_nan, "'bias' contains 1 values that are NaN"),
        (
            lambda t: t.update({name: tensor[:-1].clone() for name, tensor in t.items()}),
            r"lm_head-\*: 'weight' has the shape \(999, 8\), expected \(1000, 8\); is vocab.txt",
        ),
    ],
)
def test_an_odd_shard_is_named_when_the_softmax_is_read(folder, damage, message):
    change(folder, "lm_head-00002-of-00002.safetensors", damage)
    found = Elmo.from_pretrained(folder)
    assert found.embed([["embedding", "needs", "no", "softmax"]])
    with pytest.raises(WeightError, match=message):
        _ = found.lm


def test_a_shard_that_is_no_safetensors_file_is_named(folder):
    path = folder / "lm_head-00001-of-00002.safetensors"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(WeightError, match="00001-of-00002.safetensors: damaged or changed"):
        read_model(folder).lm_head()
    with pytest.raises(WeightError, match="00001-of-00002.safetensors: not a .*safetensors file"):
        read_model(folder, verify=False).lm_head()
