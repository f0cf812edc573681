"""One flipped bit anywhere in a model is noticed; `verify=False` loads what can be loaded."""

import json
import random

import pytest

from relmo import Elmo
from relmo.errors import RelmoError, WeightError
from relmo.files import checksum
from relmo.text.lexicon import Lexicon
from relmo.weights.checksums import read_sums
from relmo.weights.find import convert_model, describe_model, find_model, read_model
from tests.conftest import tiny_config

WORDS = ("<S>", "</S>", "<UNK>", "the", "bank", "of", "river", ".")
MATCH = "damaged or changed: its checksum"


@pytest.fixture
def elmo():
    """A tiny model with a softmax."""
    made = Elmo.untrained(tiny_config())
    head = {"weight": made.bilm.state_dict()["forward_lstm.layers.0.projection"].T[:8].clone()}
    head["bias"] = head["weight"][:, 0].clone()
    return Elmo(made.bilm, Lexicon(WORDS), lambda: head)


def flip(path, position, bit):
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1 << bit
    path.write_bytes(raw)


def is_noticed(folder):
    try:
        model = read_model(folder)
        if model.lm_head is not None:
            model.lm_head()
    except RelmoError:
        return True
    return False


@pytest.mark.parametrize("layout", ["native", "shards", "int8", "hdf5"])
def test_every_flipped_bit_is_noticed(elmo, tmp_path, layout):
    how = {"shards": {"shard_bytes": 5000}, "int8": {"storage": "int8"}}.get(layout, {})
    elmo.save_pretrained(tmp_path / "native", **how)
    folder = tmp_path / "native"
    if layout == "hdf5":
        folder = tmp_path / "hdf5"
        convert_model(tmp_path / "native", folder, "hdf5")
    assert not is_noticed(folder)
    draw = random.Random(0)
    for path in sorted(folder.iterdir()):
        if path.name in ("README.md", "SHA256SUMS"):
            continue  # the card affects nothing; the sums see below
        for _ in range(25):
            position, bit = draw.randrange(path.stat().st_size), draw.randrange(8)
            flip(path, position, bit)
            assert is_noticed(folder), f"bit {bit} of byte {position} of {path.name}"
            flip(path, position, bit)
    assert not is_noticed(folder)


def test_our_own_models_record_all_their_checksums():
    folder = find_model("relmo-en-small")
    found = {name: facts["matches"] for name, facts in describe_model(folder)["files"].items()}
    words = {"vocab.txt", "vocab_counts.txt"}
    needed = {"config.json", "model.safetensors", "lm_head.safetensors", *words}
    assert {name for name, matches in found.items() if matches} == needed


def test_a_changed_file_is_named_and_can_be_loaded_nevertheless(elmo, tmp_path):
    elmo.save_pretrained(tmp_path)
    flip(tmp_path / "model.safetensors", -2, 0)
    with pytest.raises(WeightError, match=rf"model.safetensors: {MATCH} is .* verify=False"):
        Elmo.from_pretrained(tmp_path)
    assert Elmo.from_pretrained(tmp_path, verify=False).embed([["the", "bank"]])


def test_a_changed_softmax_is_noticed_when_it_is_read(elmo, tmp_path):
    elmo.save_pretrained(tmp_path)
    flip(tmp_path / "lm_head.safetensors", -2, 0)
    found = Elmo.from_pretrained(tmp_path)
    with pytest.raises(WeightError, match=rf"lm_head.safetensors: {MATCH}"):
        _ = found.lm
    assert Elmo.from_pretrained(tmp_path, verify=False).lm


def test_an_edited_config_is_noticed_and_says_what_to_do(elmo, tmp_path):
    elmo.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    assert values["seal"] == checksum(values)
    path.write_text(json.dumps({**values, "tokenizer": "whitespace"}))
    with pytest.raises(WeightError, match=rf"config.json: {MATCH} .* remove its key 'seal'"):
        Elmo.from_pretrained(tmp_path)
    assert Elmo.from_pretrained(tmp_path, verify=False).config.tokenizer == "whitespace"
    assert describe_model(tmp_path)["files"]["config.json"]["matches"] is False
    del values["seal"]
    path.write_text(json.dumps({**values, "tokenizer": "whitespace"}))
    assert Elmo.from_pretrained(tmp_path).config.tokenizer == "whitespace"


def test_a_model_of_an_earlier_release_without_sums_loads(elmo, tmp_path):
    elmo.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    del values["seal"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert Elmo.from_pretrained(tmp_path).fingerprint() == elmo.fingerprint()
    del values["files"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert Elmo.from_pretrained(tmp_path).fingerprint() == elmo.fingerprint()


# ── the official layout ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def sums(elmo, tmp_path):
    elmo.save_pretrained(tmp_path / "native")
    convert_model(tmp_path / "native", tmp_path / "hdf5", "hdf5")
    return tmp_path / "hdf5" / "SHA256SUMS"


def test_an_official_folder_that_we_wrote_has_its_checksums_beside_it(sums):
    assert {path.name for path in read_sums(sums.parent)} == {"options.json", "weights.hdf5"}
    found = describe_model(sums.parent)["files"]
    assert found["weights.hdf5"]["matches"] is True
    flip(sums.parent / "weights.hdf5", -9, 3)
    with pytest.raises(WeightError, match=f"weights.hdf5: {MATCH}"):
        read_model(sums.parent)
    assert read_model(sums.parent, verify=False)
    assert describe_model(sums.parent)["files"]["weights.hdf5"]["matches"] is False


def test_sums_of_sha256sum_are_understood(sums):
    text = sums.read_text()
    sums.write_text("\n" + text.upper().replace("  OPTIONS.JSON", " *options.json") + "0" * 64)
    with pytest.raises(WeightError, match="each line must be a sha256, two spaces and a file name"):
        read_model(sums.parent)
    sums.write_text(text.replace("  options", " *options") + f"{'0' * 64}  another.bin\n")
    assert read_model(sums.parent)
    sums.unlink()
    assert read_model(sums.parent)


def test_sums_of_other_files_stay(sums):
    other = f"{'0' * 64}  thesis.txt\n"
    sums.write_text(other)
    convert_model("relmo-untrained", sums.parent, "hdf5")
    assert other in sums.read_text()
    assert read_model(sums.parent)


@pytest.mark.parametrize("name", ["/etc/passwd", "../elsewhere.bin", "./bak/weights.hdf5"])
def test_sums_of_files_elsewhere_stay_and_say_nothing_of_the_model(sums, name):
    other = f"{'0' * 64}  {name}\n"
    sums.write_text(sums.read_text() + other + f"{'0' * 64}  ./options.json\n")
    convert_model("relmo-untrained", sums.parent, "hdf5")
    assert other in sums.read_text()
    assert sums.read_text().count("options.json") == 1
    files = describe_model(sums.parent)["files"]
    assert files["weights.hdf5"]["matches"] is files["options.json"]["matches"] is True


def test_sums_that_cannot_be_extended_leave_the_model(sums):
    before = (sums.parent / "weights.hdf5").read_bytes()
    sums.write_text("no sums")
    with pytest.raises(WeightError, match="each line must be a sha256"):
        convert_model("relmo-untrained", sums.parent, "hdf5")
    assert (sums.parent / "weights.hdf5").read_bytes() == before


def test_damaged_sums_never_make_another_model(sums):
    wanted, draw = read_model(sums.parent), random.Random(1)
    for _ in range(60):
        position, bit = draw.randrange(sums.stat().st_size), draw.randrange(8)
        flip(sums, position, bit)
        try:
            found = read_model(sums.parent)
            assert all(found.tensors[name].equal(wanted.tensors[name]) for name in wanted.tensors)
        except RelmoError:
            pass
        flip(sums, position, bit)
