"""Reading padding along, as training kernels do, gives the plain biLM's layers and gradients."""

import copy

import pytest
import torch

from relmo import ElmoConfig, LstmConfig, WordTableConfig
from relmo.nn import bilm as bilm_module
from relmo.nn.bilm import BiLM, has_kernels, initialize
from relmo.types import Batch, Layers

LENGTHS = torch.tensor([3, 7, 1, 5])
P = 4


def model_of(clip: float | None = None, num_layers: int = 2, has_start_state: bool = False) -> BiLM:
    config = ElmoConfig(
        tokens=WordTableConfig(width=P, num_words=40),
        lstm=LstmConfig(
            num_layers=num_layers, cell_width=12, output_width=P, cell_clip=clip, output_clip=clip
        ),
        has_start_state=has_start_state,
        start="stored" if has_start_state else "zero",
    )
    bilm = initialize(BiLM(config), seed=3).double()
    if has_start_state:
        for name, buffer in bilm.named_buffers():
            buffer.copy_(torch.full_like(buffer, 0.1 if "forward" in name else -0.2))
    return bilm


def batch_of(device: str = "cpu") -> Batch:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(1, 40, (len(LENGTHS), int(LENGTHS.max())), generator=generator)
    return Batch(torch.arange(40).to(device), index.to(device), LENGTHS)


def read_padded(bilm: BiLM, batch: Batch) -> Layers:
    return bilm.read_padded(bilm.token_layer(batch.words)[batch.index], batch.lengths)


def gradients(bilm: BiLM, values: torch.Tensor) -> dict[str, torch.Tensor]:
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(1))
    (values * weights.to(values)).sum().backward()
    return {name: p.grad for name, p in bilm.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "bilm",
    [model_of(), model_of(clip=0.2), model_of(num_layers=3), model_of(has_start_state=True)],
    ids=["plain", "clips", "three layers", "from a stored state"],
)
def test_layers_and_gradients_are_the_plain_bilms(bilm, monkeypatch):
    monkeypatch.setattr(bilm_module, "has_kernels", lambda _: True)
    batch, other = batch_of(), copy.deepcopy(bilm)
    plain = bilm(batch)[0]
    found = read_padded(other, batch)
    torch.testing.assert_close(found.values, plain.values)
    assert torch.equal(found.mask, plain.mask)
    wanted = gradients(bilm, plain.values)
    for name, gradient in gradients(other, found.values).items():
        torch.testing.assert_close(gradient, wanted.pop(name), msg=name)
    assert not wanted


def test_nothing_comes_from_past_a_sentences_end(monkeypatch):
    monkeypatch.setattr(bilm_module, "has_kernels", lambda _: True)
    bilm = model_of()
    x = torch.randn(4, 7, P, dtype=torch.float64, requires_grad=True)
    bilm.read_padded(x, LENGTHS).values.sum().backward()
    assert x.grad is not None
    past = torch.arange(7) >= LENGTHS.unsqueeze(1)
    assert not x.grad[past].any()
    assert x.grad[~past].any(-1).all()


def test_on_a_cpu_the_plain_bilm_reads():
    bilm, batch = model_of(), batch_of()
    assert not has_kernels(bilm)
    assert torch.equal(read_padded(bilm, batch).values, bilm(batch)[0].values)


@pytest.mark.gpu
def test_on_a_gpu_layers_and_gradients_are_the_plain_bilms():
    bilm, batch = model_of(clip=0.2).float().cuda(), batch_of("cuda")
    other = copy.deepcopy(bilm)
    assert has_kernels(other)
    plain, found = bilm(batch)[0].values, read_padded(other, batch).values
    torch.testing.assert_close(found, plain, rtol=1e-3, atol=1e-4)
    wanted = gradients(bilm, plain)
    for name, gradient in gradients(other, found).items():
        torch.testing.assert_close(gradient, wanted.pop(name), rtol=1e-2, atol=1e-3, msg=name)
    assert not wanted


@pytest.mark.gpu
def test_in_bfloat16_layers_are_near_the_plain_bilms():
    bilm, batch = model_of().float().cuda(), batch_of("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        found = read_padded(bilm, batch).values
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, bilm(batch)[0].values, rtol=0, atol=2e-2)
