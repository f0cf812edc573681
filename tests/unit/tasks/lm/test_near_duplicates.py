"""How much of a held-out document the training part holds, too."""

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.tasks.lm import near_duplicates
from relmo.tasks.lm.near_duplicates import copied_shares
from relmo.tasks.lm.token_cache import Part

RNG = np.random.default_rng(0)


def words(count: int, first: int = 3) -> list[int]:
    """Distinct words, so that no run occurs twice by chance."""
    return list(range(first, first + count))


def sentences(ids: list[int], length: int = 5) -> list[int]:
    """The words with sentence boundaries among them."""
    parts = [ids[i : i + length] for i in range(0, len(ids), length)]
    return [each for part in parts for each in (0, *part, 1)]


def part(*documents: list[int]) -> Part:
    """Documents of words as a cache holds them."""
    bounded = [sentences(document) for document in documents]
    ends = np.cumsum([0, *map(len, bounded)])
    flat = [each for document in bounded for each in document]
    return Part(np.array(flat, dtype=np.uint32), ends.astype(np.int64))


def by_hand(train: list[list[int]], held_out: list[list[int]], width: int) -> list[float]:
    def runs(document: list[int]) -> list[tuple[int, ...]]:
        return [tuple(document[i : i + width]) for i in range(len(document) - width + 1)]

    seen = {run for document in train for run in runs(document)}
    found = [[run in seen for run in runs(document)] for document in held_out]
    return [sum(each) / len(each) if each else 0.0 for each in found]


def test_a_document_copied_whole_shares_all():
    copy = words(40)
    assert copied_shares(part(words(30, 100), copy), part(copy)).tolist() == [1.0]


def test_an_unrelated_document_shares_nothing():
    assert copied_shares(part(words(50)), part(words(50, 100))).tolist() == [0.0]


def test_a_document_copied_by_half_shares_about_half():
    train, half = words(200), words(50, 20) + words(50, 1000)
    assert copied_shares(part(train), part(half)).tolist() == [43 / 93]  # (50 - 7) of 100 - 7 runs


def test_the_order_of_words_counts():
    assert copied_shares(part(words(40)), part(words(40)[::-1])).tolist() == [0.0]


def test_sentence_boundaries_do_not_matter():
    ids = words(40)
    train = Part(np.array(sentences(ids, 3), dtype=np.uint32), np.array([0, 68]))
    held_out = Part(np.array(sentences(ids, 9), dtype=np.uint32), np.array([0, 50]))
    assert copied_shares(train, held_out).tolist() == [1.0]


def test_a_run_ends_with_its_document():
    ids = words(14)
    together, apart = part(ids), part(ids[:7], ids[7:])
    assert copied_shares(together, apart).tolist() == [0.0, 0.0]  # seven words each: no run
    assert copied_shares(apart, together).tolist() == [0.0]
    assert copied_shares(together, together).tolist() == [1.0]


def test_documents_without_a_run_have_a_share_of_zero():
    train = part(words(40))
    held_out = part([], words(7), words(8), [], words(3))
    assert copied_shares(train, held_out).tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_nothing_held_out_and_nothing_trained_on():
    assert copied_shares(part(words(9)), part()).tolist() == []
    assert copied_shares(part(), part(words(9))).tolist() == [0.0]
    assert copied_shares(part([]), part([], words(2))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("piece", [1, 50, 1 << 20])
def test_pieces_of_any_size_give_what_is_found_by_hand(piece, width, monkeypatch):
    monkeypatch.setattr(near_duplicates, "PIECE", piece)
    train, held_out = (
        [RNG.integers(2, 12, size=RNG.integers(0, 30)).tolist() for _ in range(count)]
        for count in (60, 20)
    )
    found = copied_shares(part(*train), part(*held_out), width)
    assert found == pytest.approx(by_hand(train, held_out, width))
    assert width == 1 or 0 < found.mean() < 1


@pytest.mark.parametrize("bits", [1, 8])
def test_a_crowded_filter_changes_nothing(bits, monkeypatch):
    monkeypatch.setattr(near_duplicates, "FILTER_BITS", bits)
    train, held_out = ([RNG.integers(2, 6, size=400).tolist()] for _ in range(2))
    found = copied_shares(part(*train), part(*held_out), 4)
    assert found == pytest.approx(by_hand(train, held_out, 4))


def test_large_ids_are_told_apart():
    top = 2**32 - 50
    train, held_out = words(40, top), words(40, top)
    held_out[20] = 3
    assert copied_shares(part(train), part(held_out)).tolist() == [25 / 33]


def test_a_run_of_no_words_is_refused():
    with pytest.raises(ConfigError, match="width is 0; a run has 1 word or more"):
        copied_shares(part(words(9)), part(words(9)), 0)
