"""A model folder of someone else: reading it writes nothing, hangs nowhere and allocates little."""

import json
import os
import socket
import time
import zlib

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from relmo import Elmo
from relmo.errors import RelmoError, WeightError
from relmo.files import checksum
from relmo.text.lexicon import Lexicon
from relmo.weights import native, tensors
from relmo.weights.find import convert_model, describe_model, find_model, read_model
from tests.conftest import tiny_config
from tests.support.official import options_of

SENTENCES = [["The", "bank"]]
CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"
needs_fifo = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")


@pytest.fixture
def folder(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def edit(folder, change):
    """Change config.json and its own checksum, as whoever makes a hostile folder does."""
    values = json.loads((folder / "config.json").read_text())
    change(values)
    values["seal"] = checksum(values)
    (folder / "config.json").write_text(json.dumps(values))


def seconds_until_refused(folder, message):
    """The shorter of two tries: in one of them Python may collect the garbage of other tests."""
    seconds = []
    for _ in range(2):
        started = time.process_time()  # of this process alone, whatever else the machine does
        with pytest.raises(WeightError, match=message):
            Elmo.from_pretrained(folder)
        seconds.append(time.process_time() - started)
    return min(seconds)


# ── reading does not write ──────────────────────────────────────────────────────────────────


def make_stage(folder, names, stage=None):
    """A stopped move that claims these files, with content for them."""
    stage = stage or folder / native.COMMITTED
    stage.mkdir()
    values = json.loads((folder / "config.json").read_text())
    files = {name: {"bytes": 4, "sha256": "0" * 64} for name in names}
    values = {**values, "files": files}
    values["seal"] = checksum(values)
    (stage / "config.json").write_text(json.dumps(values))


@pytest.mark.parametrize("name", ["../precious.txt", "inner/precious.txt", "/tmp/x", "..", ""])
def test_a_stage_with_paths_moves_nothing(folder, tmp_path, name):
    (tmp_path / "precious.txt").write_text("years")
    (folder / "inner").symlink_to(tmp_path, target_is_directory=True)
    make_stage(folder, [name])
    (folder / native.COMMITTED / "inner").mkdir()
    for evil in (folder / "precious.txt", folder / native.COMMITTED / "inner" / "precious.txt"):
        evil.write_text("evil")
    with pytest.raises(WeightError, match="must be the plain name of a file beside it"):
        Elmo.from_pretrained(folder)
    with pytest.raises(WeightError, match="must be the plain name of a file beside it"):
        Elmo.untrained(tiny_config()).save_pretrained(folder)
    assert (tmp_path / "precious.txt").read_text() == "years"


def test_a_stage_that_is_a_link_is_neither_read_nor_emptied(tiny, folder, tmp_path):
    make_stage(folder, ["model.safetensors"], tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "model.safetensors").write_text("evil")
    (folder / native.COMMITTED).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    found = Elmo.from_pretrained(folder)
    assert found.fingerprint() == tiny.fingerprint()
    with pytest.raises(WeightError, match="is a link, which relmo never makes; delete it"):
        tiny.save_pretrained(folder)
    assert (tmp_path / "elsewhere" / "model.safetensors").read_text() == "evil"


def test_a_link_in_a_stage_is_not_moved(tiny, folder, tmp_path):
    make_stage(folder, ["model.safetensors"])
    (tmp_path / "precious.txt").write_text("years")
    (folder / native.COMMITTED / "model.safetensors").symlink_to(tmp_path / "precious.txt")
    with pytest.raises(WeightError, match="is a link, which relmo never makes"):
        tiny.save_pretrained(folder)
    assert (tmp_path / "precious.txt").read_text() == "years"


def test_a_model_on_a_read_only_disk_loads(tiny, folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(30, "Read-only file system")

    for name in ("replace", "rename", "unlink", "mkdir", "rmdir", "remove"):
        monkeypatch.setattr(os, name, refuse)
    assert Elmo.from_pretrained(folder).fingerprint() == tiny.fingerprint()
    assert describe_model(folder)["format"] == "native"


def test_files_that_a_foreign_config_claims_are_not_deleted(tiny, folder):
    (folder / "thesis.txt").write_text("years")
    facts = {"bytes": 5, "sha256": "0" * 64}
    edit(folder, lambda values: values["files"].update({"thesis.txt": facts}))
    tiny.save_pretrained(folder)
    assert (folder / "thesis.txt").read_text() == "years"


@pytest.mark.parametrize("name", ["../m/model.safetensors", "..", "a\\b", "C:x", ""])
def test_recorded_files_have_plain_names(folder, name):
    facts = {"bytes": 5, "sha256": "0" * 64}
    edit(folder, lambda values: values["files"].update({name: facts}))
    with pytest.raises(WeightError, match="must be the plain name of a file beside it"):
        Elmo.from_pretrained(folder)


# ── what is not a file ──────────────────────────────────────────────────────────────────────


@needs_fifo
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "device", "socket", "folder"])
def test_what_is_no_file_is_refused_at_once(folder, tmp_path, monkeypatch, name, kind):
    edit(folder, lambda values: values.update(files={}))
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link to a fifo":
        os.mkfifo(tmp_path / "fifo")
        path.symlink_to(tmp_path / "fifo")
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        monkeypatch.chdir(folder)  # a socket's path must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    if name == "vocab.txt":
        assert read_model(folder).lexicon is None  # not recorded, and no file
        return
    with pytest.raises(WeightError, match="unknown model layout"):
        Elmo.from_pretrained(folder)


@needs_fifo
@pytest.mark.parametrize("name", ["options.json", "weights.hdf5", "SHA256SUMS"])
def test_a_fifo_in_an_official_folder_is_refused_at_once(official, name):
    for path in (official / name, official / f"x_{name}"):
        (official / name).unlink(missing_ok=True)
        os.mkfifo(path)
        if name == "SHA256SUMS":
            assert read_model(official)
            return
        with pytest.raises(WeightError):
            Elmo.from_pretrained(official)
        path.unlink()


@needs_fifo
def test_a_word_list_that_is_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "vocab.txt")
    with pytest.raises(RelmoError, match="not a regular file"):
        Lexicon.read(tmp_path / "vocab.txt")


# ── declared and stored: settings ───────────────────────────────────────────────────────────

HUGE = [10**6, 10**9, 10**15, 2**70, 10**400]
COUNTS = [
    ("lstm", "num_layers"), ("lstm", "cell_width"), ("lstm", "output_width"),
    ("char_cnn", "width"), ("char_cnn", "num_highways"), ("char_cnn", "character_width"),
    ("char_cnn", "max_characters"),
]  # fmt: skip


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize(("section", "key"), COUNTS)
def test_a_huge_count_in_config_is_refused_at_once(folder, section, key, value):
    edit(folder, lambda values: values[section].update({key: value}))
    assert seconds_until_refused(folder, "config.json") < 1


@pytest.mark.parametrize("filters", [[[1, n] for n in HUGE], [[1, 1]] * 10**4, [[1, 10**6]] * 100])
def test_huge_filters_in_config_are_refused_at_once(folder, filters):
    edit(folder, lambda values: values["char_cnn"].update(filters=filters))
    assert seconds_until_refused(folder, "config.json") < 1


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize(
    "key", ["layers", "highways", "cell", "projection", "character_width", "max_characters"]
)
def test_a_huge_count_in_options_is_refused_at_once(official, key, value):
    (official / "options.json").write_text(json.dumps(options_of(**{key: value})))
    assert seconds_until_refused(official, "options.json") < 1


@pytest.mark.parametrize(
    "filters", [[[1, 10**15]], [[10**9, 1]], [[1, 1]] * 10**4, [[float("inf"), 1]], [[1, 1, 1]]]
)
def test_huge_filters_in_options_are_refused_at_once(official, filters):
    (official / "options.json").write_text(json.dumps(options_of(filters=filters)))
    assert seconds_until_refused(official, "options.json") < 1


@pytest.mark.parametrize("value", [10**400, -(10**400)])
@pytest.mark.parametrize("key", ["cell_clip", "output_clip"])
def test_a_clip_that_is_no_float_is_refused(folder, official, key, value):
    edit(folder, lambda values: values["lstm"].update({key: value}))
    with pytest.raises(WeightError, match=f"{key} must be a number"):
        Elmo.from_pretrained(folder)
    (official / "options.json").write_text(json.dumps(options_of(cell_clip=value)))
    with pytest.raises(WeightError, match="cell_clip must be a number"):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize("depth", [150, 5_000, 500_000])
def test_deeply_nested_json_is_refused(folder, official, depth):
    nested = '{"training": ' + "[" * depth + "]" * depth + "}"
    for path in (folder / "config.json", official / "options.json"):
        path.write_text(nested)
        with pytest.raises(WeightError, match="nested more than 100 deep|not valid JSON"):
            Elmo.from_pretrained(path.parent)


def test_a_message_quotes_only_the_start_of_a_long_value(folder):
    edit(folder, lambda values: values["lstm"].update(has_skips="x" * 10**6))
    with pytest.raises(WeightError, match="has_skips must be true or false") as caught:
        Elmo.from_pretrained(folder)
    assert len(str(caught.value)) < 1000


def test_weights_that_do_not_fit_into_memory_are_refused(folder, official, monkeypatch):
    monkeypatch.setattr(tensors, "total_memory", lambda: 1000)
    for each in (folder, official):
        with pytest.raises(WeightError, match=r"its weights take .* GB in memory, this machine"):
            Elmo.from_pretrained(each)


# ── declared and stored: safetensors and words ──────────────────────────────────────────────


def with_weights(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    edit(folder, lambda values: values.update(files={}))


def header(length, entries):
    return length.to_bytes(8, "little") + json.dumps(entries).encode()


BIAS = "forward_lstm.layers.1.bias"


@pytest.mark.parametrize(
    "content",
    [
        header(2**62, {}),
        header(2**27, {}) + b" " * 2**16,
        header(2**63 + 5, {}),
        b"",
        b"\0" * 7,
        header(100, {BIAS: {"dtype": "F32", "shape": [2**60], "data_offsets": [0, 2**62]}}),
        header(100, {BIAS: {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}),
        header(100, {BIAS: {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}),
    ],
)
def test_a_safetensors_header_that_lies_is_refused(folder, content):
    with_weights(folder, content)
    assert seconds_until_refused(folder, r"model.safetensors: not a") < 1


def test_tensors_that_overlap_are_refused(folder):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    text = json.dumps({"a": entry, "b": entry}).encode()
    with_weights(folder, len(text).to_bytes(8, "little") + text + b"\0" * 8)
    with pytest.raises(WeightError, match="not a complete safetensors file"):
        Elmo.from_pretrained(folder)


def test_tensors_of_another_shape_are_refused_before_they_are_read(folder, monkeypatch):
    stored = load_file(folder / "model.safetensors")
    stored[BIAS] = torch.zeros(97)
    save_file(stored, folder / "model.safetensors")
    edit(folder, lambda values: values.update(files={}))
    monkeypatch.setattr(torch.Tensor, "to", None)
    with pytest.raises(WeightError, match=r"has the shape \(97,\), expected \(96,\)"):
        Elmo.from_pretrained(folder)


@pytest.mark.parametrize("value", [1e7, -1e30])
def test_absurd_weights_are_refused(folder, official, value):
    stored = load_file(folder / "model.safetensors")
    stored[BIAS][5] = value
    save_file(stored, folder / "model.safetensors")
    edit(folder, lambda values: values.update(files={}))
    with h5py.File(official / "weights.hdf5", "a") as file:
        file["char_embed"][7, 1] = value
    for each in (folder, official):
        with pytest.raises(WeightError, match=r"contains values beyond ±1e\+06"):
            Elmo.from_pretrained(each)


def test_more_words_than_rows_are_refused_before_they_are_split(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"a\n" * 10**6)
    with pytest.raises(RelmoError, match="has 1,000,000 words, the model at most 8 rows"):
        Lexicon.read(tmp_path / "vocab.txt", 8)


def test_a_word_list_of_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("relmo.text.lexicon.MAX_BYTES", 1000)
    (tmp_path / "vocab.txt").write_bytes(b"a" * 1001)
    with pytest.raises(RelmoError, match="it has more than 1,000 bytes"):
        Lexicon.read(tmp_path / "vocab.txt")


# ── declared and stored: HDF5 ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_compressed_weights_are_read(official, compression):
    before = Elmo.from_pretrained(official).embed(SENTENCES)[0]
    with h5py.File(official / "weights.hdf5", "a") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        for name in names:
            values = file[name][...]
            del file[name]
            how = {"compression": compression, "shuffle": True, "fletcher32": True}
            file.create_dataset(name, data=values, **how)
    assert np.array_equal(Elmo.from_pretrained(official).embed(SENTENCES)[0], before)


@pytest.mark.parametrize("order", [("deflate", "shuffle"), ("fletcher32", "deflate")])
def test_filters_in_another_order_are_refused(official, order):
    """What gzip did not write last cannot be checked before HDF5 expands it."""
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    created.set_chunk((96,))
    for each in order:
        getattr(created, f"set_{each}")()
    with h5py.File(official / "weights.hdf5", "a") as file:
        values = file[f"{CELL}/B"][...]
        del file[f"{CELL}/B"]
        space = h5py.h5s.create_simple((96,))
        made = h5py.h5d.create(file.id, f"{CELL}/B".encode(), h5py.h5t.IEEE_F32LE, space, created)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    with pytest.raises(WeightError, match="compressed in a way that relmo does not read"):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize("section", ["lstm", "char_cnn"])
def test_unused_settings_that_are_no_object_are_not_converted(folder, tmp_path, section):
    edit(folder, lambda values: values.update(official={section: [1, 2]}))
    with pytest.raises(WeightError, match=f"'official.{section}' must be an object"):
        convert_model(folder, tmp_path / "new", "hdf5")


def test_a_long_unknown_key_takes_no_search(folder):
    edit(folder, lambda values: values.update({"x" * 10_000_000: 1}))
    assert seconds_until_refused(folder, "unknown key 'xxx.*known: ") < 1


def test_a_word_list_without_a_softmax_is_bounded(folder, monkeypatch):
    monkeypatch.setattr("relmo.weights.native.MAX_WORDS", 1000)
    (folder / "vocab.txt").write_text("a\n" * 1001)
    edit(folder, lambda values: values.update(files={}))
    with pytest.raises(RelmoError, match="has 1,001 words, the model at most 1,000"):
        Elmo.from_pretrained(folder)


@pytest.mark.parametrize("how", [{}, {"chunks": True}, {"fillvalue": 0.5}])
def test_values_that_were_never_written_are_refused(official, how):
    with h5py.File(official / "weights.hdf5", "a") as file:
        del file[f"{CELL}/B"]
        file.create_dataset(f"{CELL}/B", shape=(96,), dtype="f4", **how)
    with pytest.raises(WeightError, match=f"'{CELL}/B' has no values"):
        Elmo.from_pretrained(official)


def test_a_file_that_declares_gigabytes_is_refused(official):
    width = 2**16
    options = options_of(cell=width, projection=width)
    (official / "options.json").write_text(json.dumps(options))
    with h5py.File(official / "weights.hdf5", "a") as file:
        for layer in range(2):
            cell = f"RNN_0/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            del file[f"{cell}/W_0"]
            chunked = file.create_dataset(
                f"{cell}/W_0", (2 * width, 4 * width), "f4", chunks=(64, 64), compression="gzip"
            )
            chunked[:64, :64] = 0
    assert (official / "weights.hdf5").stat().st_size < 200_000
    message = r"weights.hdf5: declares 274,[\d,]+ bytes of weights, but the file has"
    assert seconds_until_refused(official, message) < 1


def test_a_chunk_that_is_larger_than_the_file_is_refused(official):
    with h5py.File(official / "weights.hdf5", "a") as file:
        del file[f"{CELL}/B"]
        made = file.create_dataset(
            f"{CELL}/B", (96,), "f4", maxshape=(None,), chunks=(2**24,), compression="gzip"
        )
        made.id.write_direct_chunk((0,), b"x\x9c\x03\x00\x00\x00\x00\x01")
    with pytest.raises(WeightError, match="declares 67,108,864 bytes of weights"):
        Elmo.from_pretrained(official)


def test_a_chunk_that_expands_beyond_its_size_is_refused(official):
    with h5py.File(official / "weights.hdf5", "a") as file:
        del file[f"{CELL}/B"]
        made = file.create_dataset(f"{CELL}/B", (96,), "f4", chunks=(96,), compression="gzip")
        made.id.write_direct_chunk((0,), zlib.compress(bytes(10**7)))
    with pytest.raises(WeightError, match="has a chunk that is too long"):
        Elmo.from_pretrained(official)


def test_an_unknown_compression_is_refused(official):
    with h5py.File(official / "weights.hdf5", "a") as file:
        del file[f"{CELL}/B"]
        made = file.create_dataset(f"{CELL}/B", (96,), "f4", chunks=(96,), scaleoffset=3)
        made[...] = 0
    with pytest.raises(WeightError, match="is compressed in a way that relmo does not read"):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize("source", ["file", "missing", pytest.param("fifo", marks=needs_fifo)])
def test_values_in_another_file_are_never_read(official, tmp_path, source):
    other = tmp_path / "secret"
    if source == "file":
        other.write_bytes(bytes(400))
    elif source == "fifo":
        os.mkfifo(other)
    with h5py.File(official / "weights.hdf5", "a") as file:
        del file[f"{CELL}/B"]
        file.create_dataset(f"{CELL}/B", (96,), "f4", external=[(str(other), 0, 384)])
    with pytest.raises(WeightError, match="takes its values from another file, which is never"):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize("source", ["file", "missing", pytest.param("fifo", marks=needs_fifo)])
@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "growing"])
def test_values_that_are_put_together_from_other_files_are_never_read(
    official, tmp_path, source, is_open
):
    other = tmp_path / "secret.h5"
    if source == "file":
        with h5py.File(other, "w") as file:
            file["d"] = np.zeros(96, "f4")
    elif source == "fifo":
        os.mkfifo(other)
    layout = h5py.VirtualLayout((96,), "f4", maxshape=(None,) if is_open else None)
    layout[:96] = h5py.VirtualSource(other, "d", (96,), maxshape=(None,) if is_open else None)[:96]
    with h5py.File(official / "weights.hdf5", "a") as file:
        del file[f"{CELL}/B"]
        file.create_virtual_dataset(f"{CELL}/B", layout)
    with pytest.raises(WeightError, match="takes its values from another file, which is never"):
        Elmo.from_pretrained(official)


@pytest.mark.parametrize("link", [h5py.SoftLink("/char_embed"), h5py.ExternalLink("x.h5", "/d")])
def test_links_in_a_file_are_never_followed(official, link):
    with h5py.File(official / "weights.hdf5", "a") as file:
        del file[f"{CELL}/B"]
        file[f"{CELL}/B"] = link
    with pytest.raises(WeightError, match=f"lacks '{CELL}/B'"):
        Elmo.from_pretrained(official)


def test_a_word_table_without_rows_is_refused(official):
    with h5py.File(official / "weights.hdf5", "a") as file:
        file["embedding"] = np.float32(1)
    with pytest.raises(WeightError):
        Elmo.from_pretrained(official)


# ── packages ────────────────────────────────────────────────────────────────────────────────


def test_a_model_inside_a_package_is_found_without_importing_the_package(
    tiny, tmp_path, monkeypatch
):
    outer = tmp_path / "relmo_outer_test"
    tiny.save_pretrained(outer / "inner")
    for home in (outer, outer / "inner"):
        (home / "__init__.py").write_text("raise SystemExit('the code of a model package ran')")

    class Entry:
        name, module = "inside", "relmo_outer_test.inner"

    monkeypatch.setattr("relmo.weights.find.entry_points", lambda group, name="": [Entry()])
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_model("inside") == outer / "inner"
    assert Elmo.from_pretrained("inside").fingerprint() == tiny.fingerprint()
