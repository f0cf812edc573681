"""Which kernel runs, and where."""

import torch

from relmo.kernels.device import on_its_device


def test_kernels_start_on_the_device_of_their_first_tensor(monkeypatch):
    seen = []

    class DeviceOf:
        def __init__(self, x):
            self.x = x

        def __enter__(self):
            seen.append(self.x)

        def __exit__(self, *_):
            seen.append("left")

    monkeypatch.setattr(torch.cuda, "device_of", DeviceOf)
    x = torch.zeros(2)

    @on_its_device
    def kernel(x, other, *, named):
        seen.append("started")
        return other + named

    assert kernel(x, 1, named=2) == 3
    assert seen[0] is x
    assert seen[1:] == ["started", "left"]
