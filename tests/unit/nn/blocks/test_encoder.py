"""The biLSTM that task models stack."""

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from relmo.nn.blocks.encoder import RecurrentEncoder


def make(kind="lstm"):
    torch.manual_seed(0)
    return RecurrentEncoder(5, 4, num_layers=2, kind=kind).eval()


def test_padding_and_neighbours_do_not_change_a_sentence():
    for kind in ("lstm", "gru"):
        encoder = make(kind)
        x = torch.randn(2, 6, 5)
        together = encoder(x, torch.tensor([6, 3]))
        alone = encoder(x[1:, :3], torch.tensor([3]))
        torch.testing.assert_close(together[1:, :3], alone, atol=1e-6, rtol=0)
        assert not together[1, 3:].any()
        assert together.shape == (2, 6, encoder.width)


def test_packing_is_torch_s_own_with_its_gradient():
    encoder = make()
    x, lengths = torch.randn(4, 7, 5, requires_grad=True), torch.tensor([2, 7, 1, 7])
    found = encoder(x, lengths)
    y = x
    for layer in encoder.layers:
        packed = pack_padded_sequence(y, lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=7)
    torch.testing.assert_close(found, y, atol=1e-6, rtol=0)
    weights = torch.randn_like(y)
    ours, theirs = (torch.autograd.grad((z * weights).sum(), x)[0] for z in (found, y))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_a_sentence_without_words_is_allowed():
    found = make()(torch.zeros(2, 3, 5), torch.tensor([3, 0]))
    assert found.shape == (2, 3, 8)


def test_the_recurrence_is_float32_under_bfloat16():
    encoder, x = make(), torch.randn(2, 6, 5)
    lengths = torch.tensor([6, 3])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = encoder(x, lengths)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, encoder(x, lengths))
