"""VectorWriter: the output is whole or absent, and a run can be taken up."""

import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from relmo.errors import ConfigError, OutputError
from relmo.vectors.formats import Record
from relmo.vectors.journal import pack_entry, pack_header
from relmo.vectors.writer import VectorWriter

SUFFIXES = [".h5", ".npz", ".parquet", ".jsonl"]
FINGERPRINT = {"model": "small"}


@pytest.fixture(params=SUFFIXES)
def path(request, tmp_path):
    return tmp_path / f"out{request.param}"


def open_writer(path, resume=False, **fingerprint):
    return VectorWriter(path, {**FINGERPRINT, **fingerprint}, [0, 1, 2], resume=resume)


def write_all(path, records, resume=False):
    with open_writer(path, resume) as writer:
        for record in records:
            if not writer.is_done(record.line, record.text):
                writer.append(record)
        writer.finish()


def interrupted(records):
    yield from records
    raise KeyboardInterrupt


def files_in(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_run_leaves_the_output_alone(path, make_records, assert_holds):
    write_all(path, make_records())
    assert_holds(path, make_records())
    assert files_in(path.parent) == [path.name]


def test_an_empty_input_gives_a_file_without_vectors(path, read_back):
    write_all(path, [])
    assert read_back(path) == {}


def test_a_resumed_run_gives_the_same_bytes(path, make_records):
    write_all(path, make_records(9))
    whole = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_all(path, interrupted(make_records(5)))
    with open_writer(path, resume=True) as writer:
        assert writer.done == 5
    write_all(path, make_records(9), resume=True)
    assert path.read_bytes() == whole
    assert files_in(path.parent) == [path.name]


def test_the_old_output_stays_until_the_new_one_is_whole(path, make_records):
    path.write_bytes(b"old")
    with open_writer(path) as writer:
        for record in make_records():
            writer.append(record)
    assert path.read_bytes() == b"old"
    write_all(path, make_records(), resume=True)
    assert path.read_bytes() != b"old"


def test_a_full_disk_at_the_end_loses_nothing(path, tmp_path, small_disk, assert_holds):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 3, 5, 50)).astype(np.float32)
    records = [Record(line, "x", ["x"] * 5, vectors[line]) for line in range(40)]
    with open_writer(path) as writer:
        for record in records:
            writer.append(record)
        with small_disk(40_000), pytest.raises(OutputError, match=r"File too large.*resume"):
            writer.finish()
    assert files_in(path.parent) == [f"{path.name}.partial"]
    write_all(path, records, resume=True)
    assert_holds(path, records)


def test_a_failure_while_finishing_leaves_no_half_file(
    path, make_records, assert_holds, monkeypatch
):
    def stop():
        yield from islice(make_records(), 3)
        raise KeyboardInterrupt

    with open_writer(path) as writer:
        for record in make_records():
            writer.append(record)
        monkeypatch.setattr(writer._journal, "records", stop)
        with pytest.raises(KeyboardInterrupt):
            writer.finish()
    assert files_in(path.parent) == [f"{path.name}.partial"]
    write_all(path, make_records(), resume=True)
    assert_holds(path, make_records())


def test_a_journal_damaged_after_it_was_opened_is_reported(path, make_records, assert_holds):
    with open_writer(path) as writer:
        for record in make_records():
            writer.append(record)
        journal = path.with_name(f"{path.name}.partial")
        damaged = bytearray(journal.read_bytes())
        damaged[-1] ^= 1
        journal.write_bytes(damaged)
        with pytest.raises(OutputError, match="record 5 was damaged"):
            writer.finish()
    write_all(path, make_records(), resume=True)
    assert_holds(path, make_records())


def test_a_run_that_made_nothing_leaves_nothing(path):
    with pytest.raises(ValueError, match="the model broke"), open_writer(path):
        raise ValueError("the model broke")
    assert files_in(path.parent) == []


def test_without_resume_an_interrupted_run_is_not_thrown_away(path, make_records, assert_holds):
    with open_writer(path) as writer:
        for record in make_records(3):
            writer.append(record)
    with pytest.raises(OutputError, match="contains 3 lines of an interrupted run; resume it wi"):
        open_writer(path)
    path.with_name(path.name + ".partial").unlink()
    write_all(path, make_records())
    assert_holds(path, make_records())


def test_resume_without_a_journal_just_starts(path, make_records, assert_holds):
    write_all(path, make_records(), resume=True)
    assert_holds(path, make_records())


def test_other_settings_are_not_resumed(path, make_records):
    with open_writer(path) as writer:
        writer.append(next(make_records()))
    with pytest.raises(OutputError, match="model was 'small', now 'large'"):
        open_writer(path, resume=True, model="large")
    with pytest.raises(OutputError, match=r"layer_labels was \[0, 1, 2\], now \[2\]"):
        VectorWriter(path, FINGERPRINT, [2], resume=True)


def test_a_shorter_input_is_not_finished(path, make_records):
    with open_writer(path) as writer:
        for record in make_records(4):
            writer.append(record)
    with pytest.raises(OutputError, match="ended before line 2"):
        write_all(path, make_records(2), resume=True)
    assert files_in(path.parent) == [f"{path.name}.partial"]


def test_two_writers_cannot_share_an_output(path, make_records):
    with open_writer(path) as writer:
        writer.append(next(make_records()))
        with pytest.raises(OutputError, match="another process"):
            open_writer(path, resume=True)
        assert writer.done == 1


@pytest.mark.parametrize("shape", [(2, 1, 4), (1, 4), (3, 1, 5)])
def test_records_of_another_shape_are_refused_at_once(path, make_records, shape):
    with open_writer(path) as writer:
        writer.append(next(make_records()))
        with pytest.raises(OutputError, match=r"line 1: expected 3 layers .*, got "):
            writer.append(Record(1, "x", ["x"], np.zeros(shape, np.float32)))


def test_the_place_is_checked_before_any_work(path):
    with pytest.raises(ConfigError, match="nowhere is not a folder; create it"):
        open_writer(path.parent / "nowhere" / path.name)
    path.write_text("a file")
    with pytest.raises(ConfigError, match="is not a folder"):
        open_writer(path / path.name)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        open_writer(path)


def test_a_folder_that_cannot_be_written_to_is_refused(path, monkeypatch):
    def refuse(*arguments, **settings):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("relmo.files.open_own", refuse)
    with pytest.raises(OutputError, match=r"cannot write .*partial: Permission denied; choose"):
        open_writer(path)


def test_loading_the_writer_loads_no_format():
    heavy = "{'torch', 'h5py', 'pyarrow', 'pandas'}"
    code = f"import relmo.vectors.writer, sys; sys.exit(bool({heavy} & set(sys.modules)))"
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_an_output_that_is_a_link_stays_one(path, make_records, assert_holds):
    target = path.parent / "elsewhere" / path.name
    target.parent.mkdir()
    target.write_bytes(b"old")
    path.symlink_to(target)
    with open_writer(path) as writer:
        assert files_in(target.parent) == [path.name, f"{path.name}.partial"]
        for record in make_records():
            writer.append(record)
        writer.finish()
    assert path.is_symlink()
    assert_holds(target, make_records())
    assert files_in(target.parent) == [path.name]
    assert files_in(path.parent) == ["elsewhere", path.name]


def test_a_link_to_nothing_yet_is_followed(path, make_records, assert_holds):
    path.symlink_to("real")
    write_all(path, make_records())
    assert path.is_symlink()
    assert (path.parent / "real").is_file()
    assert_holds(path, make_records())  # in the format of the link's name


def test_two_names_of_one_output_are_one_output(path, make_records):
    other = path.with_name(f"other{path.suffix}")
    other.symlink_to(path.name)
    with open_writer(path) as writer:
        for record in make_records(3):
            writer.append(record)
        with pytest.raises(OutputError, match="another process is writing"):
            open_writer(other, resume=True)
    with open_writer(other, resume=True) as writer:
        assert writer.done == 3


def test_a_pipe_is_no_output(tmp_path):
    os.mkfifo(tmp_path / "out.npz")
    with pytest.raises(ConfigError, match=r"out.npz is a pipe or a device"):
        open_writer(tmp_path / "out.npz")
    assert files_in(tmp_path) == ["out.npz"]


def test_vectors_of_half_precision_are_stored_so_in_every_format(path, make_records, assert_holds):
    records = list(make_records(9, dtype="float16"))
    with VectorWriter(path, FINGERPRINT, [0, 1, 2], dtype="float16") as writer:
        for record in records:
            writer.append(record)
        writer.finish()
    assert_holds(path, records)


def test_a_record_of_another_dtype_is_refused(path, make_records):
    with open_writer(path) as writer, pytest.raises(OutputError, match="in float32 .* got float16"):
        writer.append(next(make_records(dtype="float16")))


def test_a_run_in_another_dtype_is_not_resumed(path, make_records):
    with open_writer(path) as writer:
        writer.append(next(make_records()))
    with pytest.raises(OutputError, match="dtype was 'float32', now 'float16'"):
        VectorWriter(path, FINGERPRINT, [0, 1, 2], dtype="float16", resume=True)


def test_a_run_that_names_no_dtype_was_in_float32(path, make_records):
    journal = path.with_name(f"{path.name}.partial")
    run = {**FINGERPRINT, "layer_labels": [0, 1, 2]}
    journal.write_bytes(pack_header(run) + b"".join(pack_entry(next(make_records()))))
    with open_writer(path, resume=True) as writer:
        assert writer.done == 1


@pytest.mark.parametrize(
    "other",
    [{"dtype": "float16"}, {"num_layers": 2}, {"width": 3}],
    ids=lambda each: next(iter(each)),
)
def test_records_that_the_run_cannot_have_made_are_not_resumed(path, make_records, other):
    journal = path.with_name(f"{path.name}.partial")
    run = {**FINGERPRINT, "layer_labels": [0, 1, 2], "dtype": "float32"}
    journal.write_bytes(pack_header(run) + b"".join(pack_entry(next(make_records(**other)))))
    before = journal.read_bytes()
    with pytest.raises(OutputError, match="is not from this run: .* delete this file"):
        VectorWriter(path, FINGERPRINT, [0, 1, 2], width=4, resume=True)
    assert journal.read_bytes() == before


def test_values_beyond_float16_are_not_written_as_infinite(path, make_records):
    record = next(each for each in make_records(dtype="float16") if each.tokens)
    record.vectors[0, 0, 0] = np.inf  # what 65,520 and more become
    with (
        VectorWriter(path, FINGERPRINT, [0, 1, 2], dtype="float16") as writer,
        pytest.raises(OutputError, match="beyond ±65,504, the range of float16"),
    ):
        writer.append(record)
