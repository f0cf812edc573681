"""relmo's own layout."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from relmo import Elmo
from relmo.errors import ConfigError, OutputError
from relmo.files import locked_folder
from relmo.weights import native
from relmo.weights.find import convert_model, describe_model, detect
from relmo.weights.native import Native
from tests.conftest import tiny_config

SAVED = {"config.json", "README.md"}
SENTENCES = [["The", "bank", "of", "the", "river"], ["Bank", "account"]]


def same_vectors(one: Elmo, two: Elmo) -> bool:
    pairs = zip(one.embed(SENTENCES), two.embed(SENTENCES), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_model_comes_back_as_it_was(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "model")
    found = Elmo.from_pretrained(tmp_path / "model")
    assert found.config == tiny.config
    assert same_vectors(tiny, found)
    assert found.fingerprint() == tiny.fingerprint()


@pytest.mark.parametrize("shard_bytes", [5000, 10_000])
def test_a_model_in_shards_comes_back_as_it_was(tiny, tmp_path, shard_bytes):
    tiny.save_pretrained(tmp_path, shard_bytes=shard_bytes)
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert not (tmp_path / "model.safetensors").exists()
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {shard.name for shard in shards}
    total = sum(t.nbytes for shard in shards for t in load_file(shard).values())
    assert index["metadata"]["total_size"] == total
    assert same_vectors(tiny, Elmo.from_pretrained(tmp_path))


def test_saving_over_a_model_leaves_no_stale_file(tiny, tmp_path):
    tiny.save_pretrained(tmp_path, shard_bytes=5000)
    tiny.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*SAVED, "model.safetensors"}
    assert same_vectors(tiny, Elmo.from_pretrained(tmp_path))


def test_a_tensor_is_never_split(tiny, tmp_path):
    with pytest.raises(OutputError, match="allow larger shards"):
        tiny.save_pretrained(tmp_path, shard_bytes=100)


def test_names_are_the_module_trees_and_the_start_state_has_its_own(tmp_path):
    elmo = Elmo.untrained(tiny_config(start="stored"))
    with torch.no_grad():
        elmo.bilm.start_forward_h.fill_(0.5)
    elmo.save_pretrained(tmp_path)
    names = set(load_file(tmp_path / "model.safetensors"))
    assert "start_state.forward.h" in names
    assert "start_state.backward.c" in names
    assert "forward_lstm.layers.0.input_weight" in names
    assert "token_layer.convs.0.weight" in names
    found = Elmo.from_pretrained(tmp_path)
    assert same_vectors(elmo, found)
    assert not same_vectors(elmo, Elmo.from_pretrained(tmp_path, start="zero"))


def test_a_model_without_start_state_cannot_be_asked_for_one(tiny, tmp_path):
    tiny.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="unknown start 'stored'; choose zero"):
        Elmo.from_pretrained(tmp_path, start="stored")


def test_biases_are_stored_without_the_forget_gates_one(tiny, tmp_path):
    tiny.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")["forward_lstm.layers.0.bias"]
    assert not stored.any()  # a fresh model's biases are zero; the 1.0 is added at run time


def test_info_checks_every_file_against_its_record(tiny, tmp_path):
    tiny.save_pretrained(tmp_path)
    facts = describe_model(tmp_path)
    assert facts["files"]["model.safetensors"]["matches"] is True
    assert (facts["layers"], facts["width"], facts["format"]) == (3, 16, "native")
    assert facts["parameters"] == sum(p.numel() for p in tiny.bilm.parameters())
    raw = bytearray((tmp_path / "model.safetensors").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(raw)
    assert describe_model(tmp_path)["files"]["model.safetensors"]["matches"] is False


def test_info_has_the_fingerprint_of_the_loaded_model(official, tmp_path):
    started = Elmo.untrained(tiny_config(start="stored"), seed=3)
    started.save_pretrained(tmp_path / "started")
    started.save_pretrained(tmp_path / "rounded", storage="int8")
    for folder in (tmp_path / "started", tmp_path / "rounded", official, "relmo-untrained"):
        loaded = Elmo.from_pretrained(folder, device="cpu")
        assert describe_model(folder)["fingerprint"] == loaded.fingerprint()
    assert describe_model(tmp_path / "started")["fingerprint"] == started.fingerprint()


def test_info_reads_the_official_layout(official):
    facts = describe_model(official)
    assert facts["format"] == "hdf5"
    assert facts["files"]["weights.hdf5"]["matches"] is None
    assert len(facts["files"]["weights.hdf5"]["sha256"]) == 64


def test_the_two_layouts_are_told_apart(tiny, official, tmp_path):
    tiny.save_pretrained(tmp_path / "native")
    assert detect(tmp_path / "native").name == "native"
    assert detect(official).name == "hdf5"


def test_converting_needs_a_known_format_and_another_folder(official, tmp_path):
    with pytest.raises(ConfigError, match="unknown format .*; choose native, hdf5"):
        convert_model(official, tmp_path / "x", "onnx")
    with pytest.raises(ConfigError, match="same folder"):
        convert_model(official, official, "native")
    with pytest.raises(ConfigError, match="only the native format supports shards"):
        convert_model(official, tmp_path / "x", "hdf5", shard_mb=5)
    with pytest.raises(ConfigError, match="shard_mb must be an integer ≥ 1, got 0"):
        convert_model(official, tmp_path / "x", "native", shard_mb=0)


def test_two_formats_do_not_share_a_folder(tiny, official):
    with pytest.raises(ConfigError, match="contains a model in the hdf5 format"):
        convert_model("relmo-untrained", official, "native")


def test_the_untrained_model_can_be_described_and_converted(tmp_path):
    assert describe_model("relmo-untrained")["width"] == 256
    convert_model("relmo-untrained", tmp_path / "m", "hdf5")
    assert detect(tmp_path / "m").name == "hdf5"


def test_other_files_of_the_folder_stay(tiny, tmp_path):
    (tmp_path / "README.md").write_text("card")
    tiny.save_pretrained(tmp_path)
    tiny.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "card"
    assert not tmp_path.with_name(tmp_path.name + ".tmp").exists()


@pytest.mark.parametrize("dies_at", range(1, 5))
def test_a_crash_on_the_way_leaves_the_new_model_whole(tiny, tmp_path, monkeypatch, dies_at):
    tiny.save_pretrained(tmp_path / "m", shard_bytes=5000)
    other = Elmo.untrained(tiny_config(), seed=9)
    moved = []

    def dies(self, target):
        if self.parent.name == native.COMMITTED:
            moved.append(target)
            if len(moved) == dies_at:
                raise KeyboardInterrupt
        return rename(self, target)

    rename = Path.replace
    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        other.save_pretrained(tmp_path / "m", shard_bytes=9000)
    monkeypatch.undo()
    before = content(tmp_path)
    found = Elmo.from_pretrained(tmp_path / "m")
    assert same_vectors(found, other)
    assert describe_model(tmp_path / "m")["parameters"] > 0
    assert content(tmp_path) == before  # reading does not write
    found.save_pretrained(tmp_path / "m", shard_bytes=9000)
    assert same_vectors(Elmo.from_pretrained(tmp_path / "m"), other)
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert names == {*SAVED, *json.loads((tmp_path / "m/config.json").read_text())["files"]}


def test_a_crash_while_writing_leaves_the_old_model_whole(tiny, tmp_path, monkeypatch):
    tiny.save_pretrained(tmp_path / "m")

    def full(path, values):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(native, "write_json", full)
    with pytest.raises(OutputError, match="No space left"):
        Elmo.untrained(tiny_config(), seed=9).save_pretrained(tmp_path / "m")
    monkeypatch.undo()
    assert same_vectors(Elmo.from_pretrained(tmp_path / "m"), tiny)
    assert {p.name for p in (tmp_path / "m").iterdir()} == {*SAVED, "model.safetensors"}


@pytest.mark.parametrize("layout", ["native", "hdf5"])
def test_a_second_writer_of_a_model_is_refused_and_changes_nothing(official, tmp_path, layout):
    folder = tmp_path / "model"
    convert_model(official, folder, to=layout)
    before = content(folder)
    with locked_folder(folder):
        with pytest.raises(OutputError, match=r"process \d+ is writing to this folder; wait"):
            convert_model(official, folder, to=layout)
        assert content(folder).items() >= before.items()
    convert_model(official, folder, to=layout)
    assert content(folder).keys() == before.keys()  # no lock is left


def test_files_of_others_in_and_beside_the_folder_are_not_touched(tiny, tmp_path):
    beside = tmp_path / "m.tmp"
    beside.mkdir()
    (beside / "thesis.txt").write_text("years")
    (tmp_path / "m").mkdir()
    for name in ("vocab.txt", "model_tagger.safetensors", "README.md"):
        (tmp_path / "m" / name).write_text("mine")
    tiny.save_pretrained(tmp_path / "m")
    tiny.save_pretrained(tmp_path / "m")
    assert (beside / "thesis.txt").read_text() == "years"
    for name in ("vocab.txt", "model_tagger.safetensors", "README.md"):
        assert (tmp_path / "m" / name).read_text() == "mine"
    assert same_vectors(Elmo.from_pretrained(tmp_path / "m"), tiny)


def test_a_model_comes_with_a_card_that_is_never_written_over(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "m")
    card = (tmp_path / "m" / "README.md").read_text()
    assert "3 layers of width 16" in card
    assert "licence | not stated" in card
    (tmp_path / "m" / "README.md").write_text("edited")
    tiny.save_pretrained(tmp_path / "m")
    assert (tmp_path / "m" / "README.md").read_text() == "edited"


def test_a_model_can_be_saved_into_the_current_folder(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny.save_pretrained(".")
    assert same_vectors(Elmo.from_pretrained("."), tiny)


def test_stale_weights_beside_recorded_shards_are_not_read(tiny, tmp_path):
    Elmo.untrained(tiny_config(), seed=9).save_pretrained(tmp_path / "old")
    tiny.save_pretrained(tmp_path / "m", shard_bytes=5000)
    stale = (tmp_path / "old" / "model.safetensors").read_bytes()
    (tmp_path / "m" / "model.safetensors").write_bytes(stale)
    assert same_vectors(Elmo.from_pretrained(tmp_path / "m"), tiny)


def test_a_folder_of_links_loads(tiny, tmp_path):
    """As huggingface_hub keeps its files."""
    tiny.save_pretrained(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for path in (tmp_path / "blobs").iterdir():
        (tmp_path / "snapshot" / path.name).symlink_to(Path("../blobs") / path.name)
    assert same_vectors(Elmo.from_pretrained(tmp_path / "snapshot"), tiny)


def test_converting_can_make_shards(official, tmp_path):
    report = convert_model(official, tmp_path / "x", "native", shard_mb=1)
    assert report.parameters > 1000
    assert Native().detect(tmp_path / "x")


def test_a_folder_that_cannot_be_written_is_named(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose a folder that can be created"):
        tiny.save_pretrained(tmp_path / "file" / "model")
