"""One safetensors file: its size is predicted, and it is never mistaken for a pickle."""

import pytest
import torch

from relmo.weights.safetensors_files import (
    FIXED_BYTES,
    PICKLE_STARTS,
    bytes_in_file,
    read_tensors,
    save_tensors,
    tensor_shapes,
)


def test_a_file_is_never_larger_than_foretold(tmp_path):
    for count in (1, 2, 30):
        tensors = {f"a.long.name.of.a.tensor.{i}": torch.zeros(3 * i, 2, 1) for i in range(count)}
        save_tensors(tmp_path / "file", tensors)
        size = (tmp_path / "file").stat().st_size
        assert size <= FIXED_BYTES + bytes_in_file(tensors)


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path):
    looked = set()
    for length in range(300, 1600, 4):
        name = "x" * length
        save_tensors(tmp_path / "file", {name: torch.ones(1)})
        start = (tmp_path / "file").read_bytes()[:4]
        if start.startswith(PICKLE_STARTS):
            looked.add(start[:2])
            assert tensor_shapes(tmp_path / "file") == {name: (1,)}
            assert read_tensors(tmp_path / "file", {name: (1,)}, "float32", "")[name] == 1
    assert looked == {b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_become_float32(tmp_path, dtype):
    save_tensors(tmp_path / "file", {"a": torch.ones(3, dtype=dtype)})
    assert read_tensors(tmp_path / "file", {"a": (3,)}, "float32", "")["a"].dtype == torch.float32
