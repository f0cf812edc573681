"""A file that one process holds at a time."""

import errno

import pytest

from relmo.errors import OutputError
from relmo.vectors import lock


def test_a_locked_file_is_held_by_one(tmp_path):
    with (
        lock.open_locked(tmp_path / "a"),
        pytest.raises(OutputError, match="another process is writing it; wait"),
    ):
        lock.open_locked(tmp_path / "a")


def test_a_lock_ends_with_its_holder(tmp_path):
    lock.open_locked(tmp_path / "a").close()
    lock.open_locked(tmp_path / "a").close()


def test_a_file_deleted_while_it_was_being_locked_is_opened_anew(tmp_path, monkeypatch):
    path, take, calls = tmp_path / "a", lock._lock, []

    def lock_after_deletion(file, where):
        calls.append(file)
        if len(calls) == 1:
            path.unlink()
        take(file, where)

    monkeypatch.setattr(lock, "_lock", lock_after_deletion)
    with lock.open_locked(path) as file:
        file.write(b"x")
    assert len(calls) == 2
    assert path.read_bytes() == b"x"


def test_a_file_system_without_locks_is_accepted(tmp_path, monkeypatch):
    def no_locks(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    lock.open_locked(tmp_path / "a").close()
