"""Pages that a file has may leave memory; what they hold stays."""

import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from relmo.kernels.memory import give_back_freed, let_go

linux = pytest.mark.skipif(sys.platform != "linux", reason="pages are told apart on Linux alone")


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


def test_small_and_strided_tensors_are_left_alone():
    assert not let_go(torch.ones(3))
    assert not let_go(torch.ones(4000, 400).t())


def test_giving_back_is_safe_at_any_time():
    give_back_freed()
