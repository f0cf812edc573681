"""The old file or the new one, never half of one."""

import os

import pytest

from relmo.errors import OutputError
from relmo.files import explain, replacing


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
