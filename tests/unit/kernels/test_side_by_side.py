"""How many threads torch has, and for how long."""

import torch

from relmo.kernels.side_by_side import one_thread


def test_one_thread_works_and_the_others_are_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
