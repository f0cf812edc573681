"""The old file or the new one, never half of one."""

import os
from pathlib import Path

import pytest

from relmo.errors import OutputError
from relmo.files import explain, replacing, replacing_folder


def test_a_crash_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted_write() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208


def test_a_full_disk_is_named_and_leaves_nothing_half_written(tmp_path):
    def write() -> None:
        with replacing(tmp_path / "file") as temporary:
            temporary.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left on device"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_errors_get_path_reason_and_advice(tmp_path):
    with (
        pytest.raises(OutputError, match=r"cannot write .*a/b: No such file or directory; do this"),
        explain(tmp_path / "a/b", "do this"),
    ):
        (tmp_path / "a/b").open("wb")


def test_our_own_errors_pass_unchanged(tmp_path):
    with pytest.raises(OutputError, match=r"^mine$"), explain(tmp_path, "advice"):
        raise OutputError("mine")


def fill(folder, text):
    (folder / "a").write_text(text)
    (folder / "b").write_text(text)


def texts(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_folder_is_replaced_whole(tmp_path):
    path = tmp_path / "more" / "folder"
    for text in ("old", "new"):
        with replacing_folder(path) as temporary:
            assert list(temporary.iterdir()) == []
            fill(temporary, text)
        assert texts(path) == {"a": text, "b": text}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_error_leaves_the_old_folder(tmp_path, error):
    path = tmp_path / "folder"
    path.mkdir()
    fill(path, "old")

    def interrupted_write() -> None:
        with replacing_folder(path) as temporary:
            fill(temporary, "half")
            raise error

    with pytest.raises((KeyboardInterrupt, OutputError)):
        interrupted_write()
    assert texts(path) == {"a": "old", "b": "old"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_rename_that_fails_brings_the_old_folder_back(tmp_path, monkeypatch):
    path = tmp_path / "folder"
    path.mkdir()
    fill(path, "old")
    rename = Path.rename

    def fail(self, target):
        if self.name == "folder.tmp":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OutputError, match="Input/output error"), replacing_folder(path) as new:
        fill(new, "new")
    assert texts(path) == {"a": "old", "b": "old"}
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_a_crash_are_deleted(tmp_path):
    for name in ("folder.tmp", "folder.old.tmp"):
        (tmp_path / name).mkdir()
        fill(tmp_path / name, "torn")
    with replacing_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("new")
    assert texts(tmp_path / "folder") == {"a": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
