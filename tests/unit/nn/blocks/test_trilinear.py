"""The trilinear similarity is what its formula says."""

import torch

from relmo.nn.blocks.trilinear import Trilinear


def test_each_pair_is_scored_by_the_three_terms():
    torch.manual_seed(0)
    similarity, first, second = Trilinear(5), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    a, b = first[:, :, None].expand(2, 4, 3, 5), second[:, None].expand(2, 4, 3, 5)
    one, two, three = (
        similarity.of_first.weight[0],
        similarity.of_second.weight[0],
        similarity.of_both,
    )
    weight = torch.cat([one, two, three])
    wanted = (torch.cat([a, b, a * b], -1) * weight).sum(-1)
    torch.testing.assert_close(similarity(first, second), wanted, atol=1e-6, rtol=0)


def test_a_sentence_without_tokens_has_no_pair():
    assert Trilinear(5)(torch.randn(2, 4, 5), torch.randn(2, 0, 5)).shape == (2, 4, 0)
