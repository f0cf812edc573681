"""The official layout, read and written to the last bit."""

import json

import h5py
import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.errors import WeightError
from relmo.weights.find import convert_model
from relmo.weights.native import Native
from relmo.weights.official_hdf5 import OfficialHdf5, to_options
from tests.conftest import tiny_config
from tests.support.official import VARIANTS, options_of, weights_of, write_official


def datasets(path) -> dict[str, np.ndarray]:
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda n, d: found.update({n: d[...]}) if isinstance(d, h5py.Dataset) else None
        )
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_hdf5_to_native_to_hdf5_is_bit_identical(tmp_path, variant):
    source = write_official(tmp_path / "source", **VARIANTS[variant])
    convert_model(source, tmp_path / "native", "native")
    convert_model(tmp_path / "native", tmp_path / "back", "hdf5")
    before, after = datasets(source / "weights.hdf5"), datasets(tmp_path / "back" / "weights.hdf5")
    assert before.keys() == after.keys()
    for name, values in before.items():
        assert values.dtype == after[name].dtype == np.float32
        assert values.tobytes() == after[name].tobytes(), name


def test_options_come_back_with_262_characters(tmp_path):
    options = options_of(characters=261)
    options["lstm"]["dropout"] = 0.1
    options["n_train_tokens"] = 768648884
    folder = write_official(tmp_path)
    (folder / "options.json").write_text(json.dumps(options))
    found = to_options(OfficialHdf5().read(folder).config)
    assert found["char_cnn"]["n_characters"] == 262
    options["char_cnn"]["n_characters"] = 262
    assert found == options


def test_keys_that_bilm_tf_may_leave_out_have_its_defaults(tmp_path):
    options = options_of(layers=1, highways=0, skips=False, cell_clip=None, proj_clip=None)
    for key in ("n_layers", "use_skip_connections", "cell_clip", "proj_clip"):
        del options["lstm"][key]
    del options["char_cnn"]["n_highway"]
    folder = write_official(tmp_path, layers=1, highways=0)
    (folder / "options.json").write_text(json.dumps(options))
    config = OfficialHdf5().read(folder).config
    assert (config.lstm.num_layers, config.lstm.has_skips, config.lstm.cell_clip) == (
        1,
        False,
        None,
    )
    assert config.tokens.num_highways == 0


def test_published_file_names_are_found(official):
    (official / "options.json").rename(official / "elmo_2x16_8_options.json")
    (official / "weights.hdf5").rename(official / "elmo_2x16_8_weights.hdf5")
    assert OfficialHdf5().detect(official)
    assert OfficialHdf5().read(official).config.width == 16


def test_a_square_projection_is_kept_where_the_file_has_one(tmp_path):
    """AllenNLP's files project even where dim and projection_dim agree; bilm-tf's do not."""
    folder = write_official(tmp_path, cell=8, projection=8)
    assert not OfficialHdf5().read(folder).config.lstm.has_projection
    with h5py.File(folder / "weights.hdf5", "a") as file:
        for r in range(2):
            for layer in range(2):
                file[f"RNN_{r}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/W_P_0"] = np.eye(8, dtype="f4")
    assert OfficialHdf5().read(folder).config.lstm.has_projection


def word_table_folder(folder):
    weights = {n: v for n, v in weights_of().items() if n.startswith("RNN")}
    weights["embedding"] = np.random.default_rng(0).standard_normal((5, 8)).astype("f4")
    options = {"lstm": options_of()["lstm"]}
    (folder / "options.json").write_text(json.dumps(options))
    (folder / "vocab.txt").write_text("</S>\n<S>\n<UNK>\nthe\nbank\n")
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, values in weights.items():
            file[name] = values
    return folder


def test_a_model_over_words_looks_its_vectors_up(tmp_path):
    folder = word_table_folder(tmp_path)
    elmo = Elmo.from_pretrained(folder)
    rows = datasets(folder / "weights.hdf5")["embedding"]
    layers = elmo.embed([["the", "bank", "xyzzy"]])[0]
    np.testing.assert_array_equal(layers[0, :, :8], rows[[3, 4, 2]])
    assert not elmo.runtime.is_cut("x" * 500)


def test_a_model_over_words_survives_both_formats(tmp_path):
    (tmp_path / "source").mkdir()
    source = word_table_folder(tmp_path / "source")
    convert_model(source, tmp_path / "native", "native")
    convert_model(tmp_path / "native", tmp_path / "back", "hdf5")
    before, after = datasets(source / "weights.hdf5"), datasets(tmp_path / "back" / "weights.hdf5")
    assert all(np.array_equal(before[name], after[name]) for name in before)
    wanted, found = Elmo.from_pretrained(source), Elmo.from_pretrained(tmp_path / "native")
    sentence = [["the", "bank"]]
    np.testing.assert_array_equal(wanted.embed(sentence)[0], found.embed(sentence)[0])


def test_a_word_table_needs_its_word_list(tmp_path):
    folder = word_table_folder(tmp_path)
    (folder / "vocab.txt").write_text("</S>\n<S>\n<UNK>\n")
    with pytest.raises(WeightError, match="vocab.txt has 3 words, the word table 5 rows"):
        Elmo.from_pretrained(folder)
    (folder / "vocab.txt").unlink()
    with pytest.raises(WeightError, match="needs its vocabulary"):
        Elmo.from_pretrained(folder)


def test_what_the_format_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    tokens = dict(tiny_config().to_dict()["char_cnn"], scheme="code_points", alphabet="ab")
    config = tiny_config()
    config = type(config).from_dict({**config.to_dict(), "char_cnn": tokens})
    with pytest.raises(WeightError, match="code-point model"):
        OfficialHdf5().write(tmp_path / "out", Elmo.untrained(config)._files(), None, "float32")
    assert not (tmp_path / "out").exists()


def test_a_start_state_is_reported_as_lost(tmp_path):
    Elmo.untrained(tiny_config(start="stored")).save_pretrained(tmp_path / "native")
    report = convert_model(tmp_path / "native", tmp_path / "official", "hdf5")
    assert "no start state" in report.lost[0]
    assert Elmo.from_pretrained(tmp_path / "official").config.start == "zero"


def test_float16_files_are_read_exactly(official):
    with h5py.File(official / "weights.hdf5", "a") as file:
        half = file["CNN_proj/b_proj"][...].astype("f2")
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = half
    found = OfficialHdf5().read(official).tensors["token_layer.projection.bias"]
    assert torch.equal(found, torch.from_numpy(half.astype("f4")))


def test_another_default_dtype_changes_nothing(official):
    wanted = Elmo.from_pretrained(official).embed([["a", "b"]])[0]
    torch.set_default_dtype(torch.float64)
    try:
        found = Elmo.from_pretrained(official).embed([["a", "b"]])[0]
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(found, wanted)


def test_native_and_official_give_the_same_vectors(official, tmp_path):
    convert_model(official, tmp_path / "native", "native")
    assert Native().detect(tmp_path / "native")
    one, two = Elmo.from_pretrained(official), Elmo.from_pretrained(tmp_path / "native")
    sentences = [["The", "bank"], ["of", "the", "river"]]
    for a, b in zip(one.embed(sentences), two.embed(sentences), strict=True):
        np.testing.assert_array_equal(a, b)
