"""Locks and the file system's errors."""

import errno

import pytest

from relmo.errors import OutputError
from relmo.vectors import files


def test_a_locked_file_is_held_by_one(tmp_path):
    with (
        files.open_locked(tmp_path / "a"),
        pytest.raises(OutputError, match="another process is writing it; wait"),
    ):
        files.open_locked(tmp_path / "a")


def test_a_lock_ends_with_its_holder(tmp_path):
    files.open_locked(tmp_path / "a").close()
    files.open_locked(tmp_path / "a").close()


def test_a_file_deleted_while_it_was_being_locked_is_opened_anew(tmp_path, monkeypatch):
    path, lock, calls = tmp_path / "a", files._lock, []

    def lock_after_deletion(file, where):
        calls.append(file)
        if len(calls) == 1:
            path.unlink()
        lock(file, where)

    monkeypatch.setattr(files, "_lock", lock_after_deletion)
    with files.open_locked(path) as file:
        file.write(b"x")
    assert len(calls) == 2
    assert path.read_bytes() == b"x"


def test_a_file_system_without_locks_is_accepted(tmp_path, monkeypatch):
    def no_locks(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    files.open_locked(tmp_path / "a").close()


def test_errors_get_path_reason_and_advice(tmp_path):
    with (
        pytest.raises(OutputError, match=r"cannot write .*a/b: No such file or directory; do this"),
        files.explain(tmp_path / "a/b", "do this"),
    ):
        (tmp_path / "a/b").open("wb")


def test_our_own_errors_pass_unchanged(tmp_path):
    with pytest.raises(OutputError, match="^mine$"), files.explain(tmp_path, "advice"):
        raise OutputError("mine")
