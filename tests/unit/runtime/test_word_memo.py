"""Each distinct word through the token layer once."""

import pickle
import threading
from copy import deepcopy

import torch

from relmo.nn.token_layers import CharCnn, initialize
from relmo.runtime.word_memo import WordMemo, words_that_fit
from relmo.text.characters import ByteCharacters
from tests.conftest import tiny_config
from tests.support.rows import assert_same_rows

WORDS = [f"word{i}" * (i % 7 + 1) for i in range(50)]


class Counting(CharCnn):
    """Counts the words it computes."""

    seen = 0

    def forward(self, words):
        self.seen += len(words)
        return super().forward(words)


def memo(capacity: int) -> WordMemo:
    layer = Counting(tiny_config().tokens)
    initialize(layer, torch.Generator().manual_seed(0))
    layer.requires_grad_(False)
    return WordMemo(layer, spell, capacity)


def spell(words) -> torch.Tensor:
    return torch.from_numpy(ByteCharacters().spell(words))


def test_a_word_is_computed_once_and_found_again_bit_for_bit():
    found = memo(100)
    first = found.vectors(WORDS)
    again = found.vectors(WORDS[::-1])
    assert found.layer.seen == 50
    assert torch.equal(first.flip(0), again)


def test_vectors_are_those_of_the_layer():
    found = memo(100)
    found.vectors(WORDS[:20])
    wanted = found.layer(found.spell(WORDS))
    torch.testing.assert_close(found.vectors(WORDS), wanted, rtol=0, atol=1e-6)


def test_another_bound_holds_from_then_on():
    found = memo(100)
    found.vectors(WORDS)
    found.hold(8)
    found.vectors(WORDS)
    assert len(found) == 8
    found.hold(100)
    found.vectors(WORDS)
    assert len(found) == 50


def test_a_gpu_keeps_more_words_than_a_cpu():
    on = [words_that_fit(torch.device(kind), 512) for kind in ("cpu", "cuda", "mps")]
    assert on == [32_768, 262_144, 32_768]


def test_the_memo_never_outgrows_its_bound():
    found = memo(8)
    reference = memo(1000).vectors(WORDS)
    for start in range(0, 50, 5):
        part = found.vectors(WORDS[start : start + 5])
        torch.testing.assert_close(part, reference[start : start + 5], rtol=0, atol=1e-6)
        assert len(found) <= 8
        assert found._table.shape[0] <= 8
    torch.testing.assert_close(found.vectors(WORDS), reference, rtol=0, atol=1e-6)
    assert len(found) == 8


def test_the_least_recently_used_word_leaves_first():
    found = memo(3)
    found.vectors(["a", "b", "c"])
    found.vectors(["a"])
    found.vectors(["d"])
    before = found.layer.seen
    found.vectors(["a", "c", "d"])
    assert found.layer.seen == before
    found.vectors(["b"])
    assert found.layer.seen == before + 1


def test_more_new_words_than_there_is_room_for_leave_the_last_ones():
    found = memo(3)
    found.vectors(["a", "b"])
    found.vectors(["c", "d", "e", "f", "g"])
    before = found.layer.seen
    found.vectors(["e", "f", "g"])
    assert found.layer.seen == before
    assert len(found) == 3


def test_a_memo_of_no_room_keeps_nothing():
    found = memo(0)
    assert torch.equal(found.vectors(WORDS), found.vectors(WORDS))
    assert len(found) == 0
    assert found.layer.seen == 100


def test_nothing_is_remembered_while_weights_are_trained():
    """A fused optimiser writes without raising a version: only not remembering is safe."""
    found = memo(100)
    before = found.vectors(WORDS)
    found.layer.requires_grad_(True)
    optimizer = torch.optim.Adam(found.layer.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        found.layer(found.spell(WORDS)).sum().backward()
        optimizer.step()
        after = found.vectors(WORDS)
        torch.testing.assert_close(after, found.layer(found.spell(WORDS)), rtol=0, atol=1e-5)
    assert not torch.equal(before, after)
    assert not after.requires_grad


def test_changed_weights_empty_the_memo():
    found = memo(100)
    before = found.vectors(WORDS)
    with torch.no_grad():
        found.layer.projection.bias += 1
    torch.testing.assert_close(found.vectors(WORDS), before + 1)


def test_autocast_and_inference_mode_leave_no_trace():
    found = memo(100)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = found.vectors(WORDS[:10])
    with torch.inference_mode():
        found.vectors(WORDS[10:20])
    assert first.dtype == torch.float32
    wanted = found.layer(found.spell(WORDS))
    torch.testing.assert_close(found.vectors(WORDS), wanted, rtol=0, atol=1e-6)


def test_a_word_twice_in_one_call_is_one_word():
    found = memo(100)
    twice = found.vectors(["a", "a", "b"])
    assert_same_rows(twice[0], twice[1])
    assert_same_rows(found.vectors(["b", "a"]), twice[[2, 0]])


def test_very_long_words_are_not_kept():
    found = memo(100)
    found.vectors(["x" * 1000, "y"])
    assert len(found) == 1


def test_a_memo_can_be_copied():
    found = memo(100)
    first = found.vectors(WORDS)
    copy = pickle.loads(pickle.dumps(deepcopy(found)))
    assert len(copy) == 0
    assert torch.equal(copy.vectors(WORDS), first)


def test_no_words_give_no_vectors():
    assert memo(5).vectors([]).shape == (0, 8)


def test_threads_share_a_memo():
    found, wanted = memo(10), memo(1000).vectors(WORDS)
    failures = []

    def work(offset: int) -> None:
        for i in range(40):
            start = (offset + i) % 45
            part = found.vectors(WORDS[start : start + 5])
            if not torch.allclose(part, wanted[start : start + 5], atol=1e-6):
                failures.append(start)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
