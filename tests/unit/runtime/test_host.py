"""The host's threads and memory: work in parallel, pages released without losing their numbers."""

import gc
import mmap
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from relmo.runtime.host import (
    MOST_THREADS,
    in_threads,
    no_collection,
    one_thread,
    release_pages,
    trim_memory,
)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1000])
def test_results_come_in_order_and_once(count):
    assert in_threads(lambda rows: [b * b for b in rows], count) == [b * b for b in range(count)]


def test_parts_are_done_side_by_side(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: MOST_THREADS)
    together = threading.Barrier(MOST_THREADS, timeout=10)

    def work(rows: range) -> list[int]:
        together.wait()  # passes only when all parts have begun
        return list(rows)

    assert in_threads(work, 100) == list(range(100))


def test_an_error_in_a_part_is_an_error_of_the_whole():
    def work(rows: range) -> list[int]:
        raise MemoryError(f"{len(rows)} are too many")

    with pytest.raises(MemoryError, match="are too many"):
        in_threads(work, 3)


def test_one_thread_works_and_the_others_are_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


PAGES = Path("/proc/self/statm")
linux = pytest.mark.skipif(sys.platform != "linux", reason="pages are told apart on Linux alone")


def resident_file_bytes() -> int:
    """Memory of this process that files have, too."""
    return int(PAGES.read_text().split()[2]) * mmap.PAGESIZE


@linux
def test_a_tensor_of_a_file_is_release_pages_and_has_its_numbers_again(tmp_path):
    wanted = torch.arange(300_000, dtype=torch.float32)
    save_file({"weight": wanted}, tmp_path / "x.safetensors")
    found = load_file(tmp_path / "x.safetensors")["weight"]
    assert torch.equal(found, wanted)
    release_pages(found)  # whether the file is mapped is safetensors' affair
    assert torch.equal(found, wanted)


@linux
def test_memory_that_was_written_to_stays():
    tensor = torch.full((300_000,), 3.0)
    assert not release_pages(tensor)
    assert (tensor == 3).all()


@linux
def test_a_tensor_of_a_file_that_was_written_to_in_part_stays(tmp_path):
    save_file({"weight": torch.zeros(300_000)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        found = file.get_tensor("weight")
    found[150_000] = 5.0
    assert not release_pages(found)
    assert found.sum() == 5


@linux
def test_pages_of_a_file_leave_memory(tmp_path):
    save_file({"weight": torch.zeros(3_000_000)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        found = file.get_tensor("weight")
    before = resident_file_bytes()
    found.sum()
    assert resident_file_bytes() - before > found.nbytes / 2
    assert release_pages(found)
    assert resident_file_bytes() - before < found.nbytes / 2


def test_small_and_strided_tensors_are_left_alone():
    assert not release_pages(torch.ones(3))
    assert not release_pages(torch.ones(4000, 400).t())


def test_giving_back_is_safe_at_any_time():
    trim_memory()


FORK = """
import os, sys, time, torch
from relmo import Elmo

torch.set_num_threads(2)
elmo = Elmo.untrained(seed=1)
torch.randn(10**6).sin()  # starts OpenMP's threads
sentences = [["The", "bank", "of", "the", "river"]] * 40
wanted = elmo.embed(sentences)
child = os.fork()
if child == 0:
    found = elmo.embed(sentences)
    torch.randn(10**6).sin()
    same = all(abs(one - two).max() <= 1e-5 for one, two in zip(found, wanted))
    os._exit(0 if same and torch.get_num_threads() == 1 else 3)
status = os.waitpid(child, 0)[1]
sys.exit(status >> 8 if torch.get_num_threads() == 2 else 4)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_embeds_with_one_thread():
    """OpenMP would wait forever for threads that only the parent has."""
    child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", FORK], start_new_session=True)
    try:
        assert child.wait(timeout=60) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # the child's child, if it hangs
        child.wait()


def test_the_collector_is_as_before_after_a_block_without_it():
    with suppress(KeyError), no_collection():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    with no_collection():
        with no_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
