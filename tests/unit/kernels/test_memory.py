"""Pages that a file has may leave memory; what they hold stays."""

import mmap
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from relmo.kernels.memory import give_back_freed, let_go

PAGES = Path("/proc/self/statm")
linux = pytest.mark.skipif(sys.platform != "linux", reason="pages are told apart on Linux alone")


def resident_file_bytes() -> int:
    """Memory of this process that files have, too."""
    return int(PAGES.read_text().split()[2]) * mmap.PAGESIZE


@linux
def test_a_tensor_of_a_file_is_let_go_and_has_its_numbers_again(tmp_path):
    wanted = torch.arange(300_000, dtype=torch.float32)
    save_file({"weight": wanted}, tmp_path / "x.safetensors")
    found = load_file(tmp_path / "x.safetensors")["weight"]
    assert torch.equal(found, wanted)
    let_go(found)  # whether the file is mapped is safetensors' affair
    assert torch.equal(found, wanted)


@linux
def test_memory_that_was_written_to_stays():
    tensor = torch.full((300_000,), 3.0)
    assert not let_go(tensor)
    assert (tensor == 3).all()


@linux
def test_a_tensor_of_a_file_that_was_written_to_in_part_stays(tmp_path):
    save_file({"weight": torch.zeros(300_000)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        found = file.get_tensor("weight")
    found[150_000] = 5.0
    assert not let_go(found)
    assert found.sum() == 5


@linux
def test_pages_of_a_file_leave_memory(tmp_path):
    save_file({"weight": torch.zeros(3_000_000)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        found = file.get_tensor("weight")
    before = resident_file_bytes()
    found.sum()
    assert resident_file_bytes() - before > found.nbytes / 2
    assert let_go(found)
    assert resident_file_bytes() - before < found.nbytes / 2


def test_small_and_strided_tensors_are_left_alone():
    assert not let_go(torch.ones(3))
    assert not let_go(torch.ones(4000, 400).t())


def test_giving_back_is_safe_at_any_time():
    give_back_freed()
