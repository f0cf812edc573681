"""Rows of products: the same to the bit beside any others, where MKL rounds rows alike."""

import torch

from relmo.kernels.cpu_products import has_mkl, rounds_rows_in_groups


def assert_same_rows(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """To the bit; within float32's rounding where MKL has no kernels that round rows alike."""
    if has_mkl() and rounds_rows_in_groups():
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)
    else:
        assert torch.equal(found, wanted)
