"""A damaged model gives an error that names the tensor and says what to do."""

import json
import pickle
from contextlib import suppress

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from relmo import Elmo
from relmo.errors import ModelNotFound, RelmoError, WeightError
from relmo.weights.native import Native
from tests.conftest import tiny_config
from tests.support.official import options_of

CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


@pytest.fixture
def native(tmp_path):
    Elmo.untrained(tiny_config()).save_pretrained(tmp_path / "native")
    return tmp_path / "native"


def change(folder, name, values):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        if name in file:
            del file[name]
        if values is not None:
            file[name] = values


def test_a_truncated_hdf5_file(official):
    path = official / "weights.hdf5"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(WeightError, match=r"weights.hdf5: not a complete HDF5 file"):
        Elmo.from_pretrained(official)


def test_a_wrong_shape(official):
    change(official, f"{CELL}/W_0", np.zeros((16, 100), "f4"))
    wanted = rf"'{CELL}/W_0' has the shape \(16, 100\), expected \(16, 96\); is options.json"
    with pytest.raises(WeightError, match=wanted):
        Elmo.from_pretrained(official)


def test_a_missing_tensor(official):
    change(official, f"{CELL}/B", None)
    with pytest.raises(WeightError, match=f"lacks '{CELL}/B'"):
        Elmo.from_pretrained(official)


def test_a_missing_projection_of_one_cell(official):
    change(official, f"{CELL}/W_P_0", None)
    with pytest.raises(WeightError, match=f"lacks '{CELL}/W_P_0'"):
        Elmo.from_pretrained(official)


def test_a_missing_group_of_tensors(official):
    for name in ("CNN_proj/W_proj", "CNN_proj/b_proj"):
        change(official, name, None)
    with pytest.raises(WeightError, match="lacks 'CNN_proj/W_proj', 'CNN_proj/b_proj'"):
        Elmo.from_pretrained(official)


def test_an_extra_tensor(official):
    change(official, "CNN_high_1/W_carry", np.zeros((18, 18), "f4"))
    with pytest.raises(WeightError, match="has the unexpected 'CNN_high_1/W_carry'; is options"):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_tensor_that_is_not_finite(official, value):
    with h5py.File(official / "weights.hdf5", "a") as file:
        file["char_embed"][7, 1] = value
    with pytest.raises(WeightError, match="'char_embed' contains 1 values that are NaN"):
        Elmo.from_pretrained(official)


def test_a_tensor_of_whole_numbers(official):
    change(official, "CNN/b_cnn_0", np.zeros(4, "i4"))
    with pytest.raises(WeightError, match="'CNN/b_cnn_0' must be float32, got int32"):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": 48}, "'RNN_0/.*W_0' has the shape"),
        ({"projection": 16}, "has the shape .*, expected"),
        ({"layers": 3}, "lacks 'RNN_0/RNN/MultiRNNCell/Cell2"),
        ({"layers": 1}, "has the unexpected 'RNN_0/RNN/MultiRNNCell/Cell1"),
        ({"highways": 2}, "lacks 'CNN_high_1/"),
        ({"filters": [[1, 4], [2, 6]]}, "has the unexpected 'CNN/W_cnn_2'"),
        ({"filters": [[1, 4], [2, 6], [3, 9]]}, "'CNN/W_cnn_2' has the shape"),
        ({"character_width": 5}, "'char_embed' has the shape"),
        ({"characters": 300}, "n_characters must be 261, or 262 .*; got 300"),
        ({"cell": 4}, "output_width 8 exceeds cell_width 4"),
        ({"activation": "gelu"}, "activation must be one of relu, tanh, got 'gelu'"),
    ],
)
def test_options_of_another_model(official, changes, message):
    (official / "options.json").write_text(json.dumps(options_of(**changes)))
    with pytest.raises(WeightError, match=message):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "list"),
        ("{}", "lacks 'lstm'"),
        ('{"lstm": 3}', "'lstm' must be an object, got 3"),
        ('{"lstm": {"projection_dim": "8"}}', "'projection_dim' must be an integer, got '8'"),
        ('{"lstm": {"projection_dim": 8}}', "lacks 'dim'"),
        ('{"lstm": {"projection_dim": 8, "dim": 8}}', "lacks 'char_cnn'"),
        (json.dumps(options_of(layers=None)), "options.json"),
        (json.dumps(options_of(cell_clip="3")), "cell_clip must be .*, got '3'"),
        (json.dumps(options_of(filters=[[1]])), "options.json"),
        (json.dumps(options_of(filters=7)), "options.json"),
        (json.dumps(options_of(max_characters="many")), "options.json"),
    ],
)
def test_options_that_are_not_options(official, text, message):
    (official / "options.json").write_text(text)
    with pytest.raises(WeightError, match=message):
        Elmo.from_pretrained(official)


def test_a_truncated_safetensors_file(native):
    path = native / "model.safetensors"
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(WeightError, match=r"has \d+ bytes, config.json recorded"):
        Elmo.from_pretrained(native)
    forget_files(native)
    with pytest.raises(WeightError, match="not a complete safetensors file"):
        Elmo.from_pretrained(native)


def edit(folder, **changes):
    """Edit config.json on purpose: without the checksum of its old content."""
    values = json.loads((folder / "config.json").read_text())
    values.pop("seal", None)
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def forget_files(folder):
    """As a config.json written by hand: nothing recorded of the other files."""
    edit(folder, files={})


def rewrite(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")
    forget_files(folder)


def set_nan(tensors):
    tensors["forward_lstm.layers.1.bias"][3] = float("nan")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.pop("forward_lstm.layers.1.bias"), "lacks 'forward_lstm.layers.1.bias'"),
        (lambda t: t.update(extra=torch.zeros(2)), "has the unexpected 'extra'"),
        (
            lambda t: t.update({"forward_lstm.layers.1.bias": torch.zeros(5)}),
            r"'forward_lstm.layers.1.bias' has the shape \(5,\), expected \(96,\)",
        ),
        (set_nan, "'forward_lstm.layers.1.bias' contains 1 values that are NaN"),
    ],
)
def test_wrong_native_tensors(native, edit, message):
    rewrite(native, edit)
    with pytest.raises(WeightError, match=message):
        Elmo.from_pretrained(native)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_where_safetensors_is_expected(native, protocol):
    (native / "model.safetensors").write_bytes(pickle.dumps({"a": 1}, protocol=protocol))
    forget_files(native)
    with pytest.raises(WeightError, match=r"this is a pickle .* never loaded"):
        Elmo.from_pretrained(native)


def test_a_torch_save_where_safetensors_is_expected(native):
    torch.save({"a": torch.zeros(1)}, native / "model.safetensors")
    forget_files(native)
    with pytest.raises(WeightError, match="is a pickle"):
        Elmo.from_pretrained(native)


def test_settings_of_another_native_model(native):
    values = json.loads((native / "config.json").read_text())
    edit(native, lstm={**values["lstm"], "cell_width": 48})
    with pytest.raises(WeightError, match=r"is config.json from the same model"):
        Elmo.from_pretrained(native)


@pytest.mark.parametrize("files", [None, [], {"model.safetensors": {}}])
def test_settings_with_a_broken_record_of_files(native, files):
    edit(native, files=files)
    with pytest.raises(WeightError, match="'files' must give bytes and sha256"):
        Elmo.from_pretrained(native)


def test_settings_with_an_unknown_key(native):
    values = json.loads((native / "config.json").read_text())
    values["lstm"]["cel_width"] = 48
    (native / "config.json").write_text(json.dumps(values))
    with pytest.raises(WeightError, match="did you mean 'cell_width'"):
        Elmo.from_pretrained(native)


def test_a_missing_shard(tmp_path):
    Native().write(tmp_path / "m", Elmo.untrained(tiny_config())._files(), shard_bytes=5000)
    shard = sorted((tmp_path / "m").glob("model-*"))[1]
    shard.unlink()
    with pytest.raises(WeightError, match=f"{shard.name}.* is missing"):
        Elmo.from_pretrained(tmp_path / "m")
    forget_files(tmp_path / "m")
    with pytest.raises(WeightError, match=f"names '{shard.name}', which is missing"):
        Elmo.from_pretrained(tmp_path / "m")


def test_an_index_that_lies(tmp_path):
    Native().write(tmp_path / "m", Elmo.untrained(tiny_config())._files(), shard_bytes=5000)
    index = tmp_path / "m" / "model.safetensors.index.json"
    values = json.loads(index.read_text())
    shards = sorted(set(values["weight_map"].values()))
    values["weight_map"]["token_layer.embedding.weight"] = shards[-1]
    index.write_text(json.dumps(values))
    forget_files(tmp_path / "m")
    with pytest.raises(WeightError, match="which should be here by the index"):
        Elmo.from_pretrained(tmp_path / "m")
    index.write_text("{}")
    with pytest.raises(WeightError, match="lacks 'weight_map'"):
        Elmo.from_pretrained(tmp_path / "m")


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_native_tensors_of_another_kind(native, dtype):
    rewrite(native, lambda t: t.update({"forward_lstm.layers.1.bias": torch.zeros(96).to(dtype)}))
    with pytest.raises(WeightError, match="'forward_lstm.layers.1.bias' must be float32, got"):
        Elmo.from_pretrained(native)


@pytest.mark.parametrize("where", [0.05, 0.3, 0.5, 0.7, 0.95])
def test_an_hdf5_file_with_a_hole_is_never_a_raw_error(official, where):
    path = official / "weights.hdf5"
    raw = bytearray(path.read_bytes())
    for start in range(int(where * len(raw)), len(raw), 3000):
        raw[start : start + 700] = bytes(len(raw[start : start + 700]))
    path.write_bytes(raw)
    with suppress(RelmoError):  # a hole among the numbers alone cannot be seen
        Elmo.from_pretrained(official)


def test_an_index_that_leads_out_of_the_folder(tmp_path):
    Native().write(tmp_path / "m", Elmo.untrained(tiny_config())._files(), shard_bytes=5000)
    index = tmp_path / "m" / "model.safetensors.index.json"
    values = json.loads(index.read_text())
    values["weight_map"] = dict.fromkeys(values["weight_map"], "../secret.safetensors")
    index.write_text(json.dumps(values))
    forget_files(tmp_path / "m")
    with pytest.raises(WeightError, match="plain file names"):
        Elmo.from_pretrained(tmp_path / "m")


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b"])
def test_names_that_no_model_can_have(name):
    with pytest.raises(ModelNotFound):
        Elmo.from_pretrained(name)


def test_switches_of_options_are_true_or_false(official):
    for changes in ({"skips": "false"}, {"layers": 2.5}, {"cell_clip": True}):
        (official / "options.json").write_text(json.dumps(options_of(**changes)))
        with pytest.raises(WeightError, match="must be"):
            Elmo.from_pretrained(official)


def test_a_folder_of_no_known_layout_lists_what_was_tried(tmp_path):
    (tmp_path / "encoder.pkl").write_bytes(b"")
    wanted = "unknown model layout. Tried native: .*; hdf5: .* The folder contains encoder.pkl"
    with pytest.raises(WeightError, match=wanted):
        Elmo.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["no-such-model", "https://host/model", "user/model"])
def test_a_model_that_is_not_there(name):
    with pytest.raises(ModelNotFound, match="neither a folder nor an installed model"):
        Elmo.from_pretrained(name)


def test_a_file_instead_of_a_folder(official):
    with pytest.raises(ModelNotFound, match="give the folder that contains it"):
        Elmo.from_pretrained(official / "weights.hdf5")
