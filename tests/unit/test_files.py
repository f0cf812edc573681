"""The old file or the new one, never half of one."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relmo import files
from relmo.errors import OutputError
from relmo.files import (
    explain,
    locked,
    locked_folder,
    open_locked,
    replacing,
    replacing_folder,
    tidy,
)
from tests.support.leftovers import leftover


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
        if self.suffix == ".tmp":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OutputError, match="Input/output error"), replacing_folder(path) as new:
        fill(new, "new")
    assert texts(path) == {"a": "old", "b": "old"}
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_a_crash_are_deleted(tmp_path):
    for end in ("tmp", "old"):
        (tmp_path / leftover("folder", end)).mkdir()
        fill(tmp_path / leftover("folder", end), "torn")
    (tmp_path / "folder").mkdir()
    with replacing_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("new")
    assert texts(tmp_path / "folder") == {"a": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_leftovers_of_others_stay(tmp_path):
    kept = {
        "file.tmp",
        "file.old.tmp",
        leftover("another"),
        leftover("file", pid=os.getppid()),
        leftover("file", host="00000000"),
    }
    for name in kept:
        (tmp_path / name).write_text("mine")
    (tmp_path / leftover("file")).write_text("half")
    (tmp_path / leftover("file", pid=os.getpid())).write_text("of a process with our number")
    with replacing(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert {path.name for path in tmp_path.iterdir()} == kept | {"file"}
    assert all((tmp_path / name).read_text() == "mine" for name in kept)


KILLED = """
import os, sys
from pathlib import Path
from relmo.files import replacing_folder

rename, path, left = Path.rename, Path(sys.argv[1]), int(sys.argv[2])

def rename_or_die(self, target):
    global left
    if left == 0:
        os._exit(9)  # as kill -9 would end it
    left -= 1
    return rename(self, target)

Path.rename = rename_or_die
with replacing_folder(path) as new:
    (new / "a").write_text("new")
"""


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_between_two_renames_loses_nothing(tmp_path, renames):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "a").write_text("old")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), str(renames)], check=False)
    assert ended.returncode == 9
    assert path.exists() == (renames == 0)
    tidy(tmp_path)
    assert texts(path) == {"a": "old"}
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_kill_between_two_renames_is_mended_by_the_next_writer(tmp_path):
    old = tmp_path / leftover("folder", "old")
    old.mkdir()
    fill(old, "old")
    with pytest.raises(KeyboardInterrupt), replacing_folder(tmp_path / "folder"):
        raise KeyboardInterrupt
    assert texts(tmp_path / "folder") == {"a": "old", "b": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_file_that_only_looks_like_ours_is_not_written_over(tmp_path):
    (tmp_path / "out.h5.tmp").write_text("mine")
    with replacing(tmp_path / "out.h5") as temporary:
        temporary.write_text("new")
    assert texts(tmp_path) == {"out.h5": "new", "out.h5.tmp": "mine"}


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link(tmp_path, exists):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "real", tmp_path / "link"
    if exists:
        target.write_text("old")
    link.symlink_to(target)
    with replacing(link, follow=True) as temporary:
        assert temporary.parent == target.parent
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["real"]


def test_a_link_to_itself_is_an_error(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "link")
    link = tmp_path / "link"
    with pytest.raises(OutputError, match="symbolic links"), replacing(link, follow=True):
        pass


def test_a_link_that_nobody_named_is_not_followed(tmp_path):
    """A folder from elsewhere may hold links to anything; writing into it leaves those alone."""
    real, folder = tmp_path / "real", tmp_path / "folder"
    folder.mkdir()
    real.write_text("precious")
    for name in ("file", "folder", "lock"):
        (folder / name).symlink_to(real)
    with replacing(folder / "file") as temporary:
        temporary.write_text("new")
    with replacing_folder(folder / "folder") as temporary:
        (temporary / "a").write_text("new")
    with pytest.raises(OSError, match="a link, a pipe or a device"):
        open_locked(folder / "lock")
    assert real.read_text() == "precious"
    assert (folder / "file").read_text() == "new"
    assert texts(folder / "folder") == {"a": "new"}
    assert {path.name for path in folder.iterdir()} == {"file", "folder", "lock"}


@pytest.mark.parametrize("read", [False, True])
def test_a_pipe_in_place_of_a_lock_is_refused_at_once(tmp_path, read):
    path = tmp_path / "lock"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if read else None
    with pytest.raises(OSError, match="a link, a pipe or a device"):
        open_locked(path)
    if reader is not None:
        os.close(reader)


def test_a_long_name_can_be_replaced(tmp_path):
    name = "é" * 125  # 250 bytes; 255 are allowed
    for text in ("old", "new"):
        with replacing(tmp_path / name) as temporary:
            temporary.write_text(text)
    assert texts(tmp_path) == {name: "new"}


# ── one process at a time ───────────────────────────────────────────────────────────────────


def test_a_locked_file_is_held_by_one(tmp_path):
    with (
        open_locked(tmp_path / "a"),
        pytest.raises(OutputError, match="another process is writing it; wait until it ends"),
    ):
        open_locked(tmp_path / "a")


def test_a_lock_ends_with_its_holder(tmp_path):
    open_locked(tmp_path / "a").close()
    open_locked(tmp_path / "a").close()


def test_a_file_deleted_while_it_was_being_locked_is_opened_anew(tmp_path, monkeypatch):
    path, take, calls = tmp_path / "a", files._lock, []

    def lock_after_deletion(file, where):
        calls.append(file)
        if len(calls) == 1:
            path.unlink()
        take(file, where)

    monkeypatch.setattr(files, "_lock", lock_after_deletion)
    with open_locked(path) as file:
        file.write(b"x")
    assert len(calls) == 2
    assert path.read_bytes() == b"x"


def test_a_file_system_without_locks_is_accepted(tmp_path, monkeypatch):
    def no_locks(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    open_locked(tmp_path / "a").close()


HOLD = """
import sys, time
from pathlib import Path
from relmo.files import locked_folder

with locked_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_locked_until_its_process_ends_however_it_ends(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "locked\n"
        who = f"run: process {holder.pid} is writing to this folder; wait until it ends"
        with pytest.raises(OutputError, match=who), locked_folder(folder):
            pass
        holder.kill()
    with locked_folder(folder):
        assert (folder / ".lock").read_text() == f"{os.getpid()}\n"
    assert list(folder.iterdir()) == []


def test_a_process_does_not_wait_for_the_one_that_started_it(tmp_path):
    wait = "import sys; from pathlib import Path; from relmo.files import *\n"
    wait += "with locked(Path(sys.argv[1])): pass"
    with locked(tmp_path / "a.lock"):
        command = [sys.executable, "-c", wait, str(tmp_path / "a.lock")]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert "InUse" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path):
    with locked_folder(tmp_path / "a" / "b"):
        pass
    assert list((tmp_path / "a").iterdir()) == []
    with locked_folder(tmp_path / "c"):
        (tmp_path / "c" / "file").touch()
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["file"]


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"), locked_folder(tmp_path / "file"):
        pass
