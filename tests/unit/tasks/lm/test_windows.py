"""Windows of text: running on from step to step, both ways, by seed and step alone."""

from itertools import pairwise

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.tasks.lm.token_cache import CacheSettings, CorpusPart, open_cache
from relmo.tasks.lm.windows import Window, Windows


def part_of(*documents: list[int]) -> CorpusPart:
    ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return CorpusPart(
        np.array([i for document in documents for i in document], dtype=np.uint32), ends
    )


def random_part(num_documents=40, seed=0) -> CorpusPart:
    """Documents of one to four sentences, no word twice: a token's id says where it stands."""
    rng, word = np.random.default_rng(seed), iter(range(2, 10**6))
    documents = [
        [i for _ in range(rng.integers(1, 5)) for i in (0, *words(rng, word), 1)]
        for _ in range(num_documents)
    ]
    return part_of(*documents)


def words(rng, word) -> list[int]:
    return [next(word) for _ in range(rng.integers(1, 6))]


def epoch_of(windows: Windows, epoch: int) -> list[Window]:
    first = epoch * windows.steps_per_epoch
    return [windows[first + k] for k in range(windows.steps_per_epoch)]


def stream_of(windows: Windows, epoch: int) -> np.ndarray:
    """All tokens that the forward model reads or predicts in an epoch, (tokens, R)."""
    found = epoch_of(windows, epoch)
    return np.concatenate([*(w.inputs[0] for w in found), found[-1].targets[0][-1:]])


def same(left: Window, right: Window) -> bool:
    names = ("inputs", "targets", "counts", "keeps")
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def test_windows_of_one_document_are_these():
    rows = [0, 3, 4, 1, 0, 5, 1], [0, 6, 1, 0, 7, 8, 1]
    windows = Windows(part_of([*rows[0], *rows[1], 0]), rows=2, length=3)  # the last finds no place
    assert (windows.row_tokens, windows.steps_per_epoch) == (7, 2)
    first, second = windows[0], windows[1]
    forward, backward = first.inputs
    assert forward.tolist() == [[0, 0], [3, 6], [4, 1]]
    assert backward.tolist() == [[1, 1], [5, 8], [0, 7]]
    assert first.targets[0].tolist() == [[3, 6], [4, 1], [1, 0]]
    assert first.targets[1].tolist() == [[5, 8], [0, 7], [1, 0]]
    assert first.counts[0].tolist() == [[True, True], [True, True], [True, False]]
    assert first.counts[1].tolist() == [[True, True], [True, True], [False, True]]
    assert second.inputs[0].tolist() == [[1, 0], [0, 7], [5, 8]]
    assert second.inputs[1].tolist() == [[1, 0], [4, 1], [3, 6]]
    assert second.targets[0].tolist() == [[0, 7], [5, 8], [1, 1]]
    assert second.targets[1].tolist() == [[4, 1], [3, 6], [0, 0]]
    assert second.counts[0].tolist() == [[False, True], [True, True], [True, True]]
    assert second.counts[1].tolist() == [[True, False], [True, True], [True, True]]


@pytest.mark.parametrize(("rows", "length"), [(1, 1), (3, 4), (4, 7), (5, 2)])
def test_each_row_reads_on_where_its_last_window_ended(rows, length):
    windows = Windows(random_part(), rows, length, seed=3)
    for epoch in range(3):
        found = epoch_of(windows, epoch)
        for before, after in pairwise(found):
            np.testing.assert_array_equal(before.targets[:, -1], after.inputs[:, 0])
        for window in found:
            np.testing.assert_array_equal(window.inputs[:, 1:], window.targets[:, :-1])


def test_an_epoch_is_every_document_once_and_whole():
    part = random_part(num_documents=5)
    windows = Windows(part, 1, 1)
    documents = {tuple(part.document(i).tolist()) for i in range(5)}
    for epoch in range(4):
        read, found = stream_of(windows, epoch)[:, 0].tolist(), set()
        while read:
            document = next(d for d in documents if tuple(read[: len(d)]) == d)
            found.add(document)
            read = read[len(document) :]
        assert found == documents


@pytest.mark.parametrize(("rows", "length"), [(3, 4), (4, 7), (5, 2), (20, 1)])
def test_rows_are_cuts_of_one_stream_and_leave_less_than_a_window(rows, length):
    part = random_part()
    windows = Windows(part, rows, length, seed=3)
    whole = stream_of(Windows(part, 1, 1, seed=3), 2)[:, 0]  # one row reads all tokens
    read = stream_of(windows, 2)  # (tokens of a row that fill windows, R)
    assert len(whole) == len(part.tokens)
    assert 0 <= windows.row_tokens - len(read) < length
    for row in range(rows):
        first = row * windows.row_tokens
        np.testing.assert_array_equal(read[:, row], whole[first : first + len(read)])


@pytest.mark.parametrize(("rows", "length"), [(1, 1), (3, 4), (4, 7), (2, 5)])
def test_the_backward_model_reads_the_same_rows_from_the_right(rows, length):
    windows = Windows(random_part(), rows, length)
    found = epoch_of(windows, 1)
    forward = stream_of(windows, 1)  # (n, R)
    backward = np.concatenate([*(w.inputs[1] for w in found), found[-1].targets[1][-1:]])
    rest = windows.row_tokens - len(forward)  # what one of the two does not reach
    shared = slice(rest, None)
    np.testing.assert_array_equal(backward[::-1][: len(forward) - rest], forward[shared])


def test_a_target_counts_unless_it_is_the_boundary_after_a_boundary():
    windows = Windows(random_part(), 3, 5, seed=1)
    for window in epoch_of(windows, 0):
        forward = (window.inputs[0] == 1) & (window.targets[0] == 0)
        backward = (window.inputs[1] == 0) & (window.targets[1] == 1)
        np.testing.assert_array_equal(window.counts, ~np.stack([forward, backward]))
        np.testing.assert_array_equal(window.inputs[0] == 1, forward)


def test_shapes_and_kinds_are_those_that_torch_wants():
    window = Windows(random_part(), 3, 5)[0]
    for array, kind in (
        (window.inputs, np.int64),
        (window.targets, np.int64),
        (window.counts, bool),
    ):
        assert (array.shape, array.dtype) == ((2, 5, 3), kind)


def test_a_window_follows_from_seed_and_step_alone():
    part = random_part()
    windows = Windows(part, 3, 4, seed=5)
    last = 3 * windows.steps_per_epoch
    in_order = [windows[step] for step in range(last)]
    for step in (last - 1, 0, windows.steps_per_epoch, 1, last - 1):
        assert same(windows[step], in_order[step])
        assert same(Windows(part, 3, 4, seed=5)[step], in_order[step])


def test_epochs_and_seeds_differ_in_order():
    part = random_part()
    orders = [stream_of(Windows(part, 2, 3, seed), epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert len({order.tobytes() for order in orders}) == 6


@pytest.mark.parametrize("world_size", [2, 3])
def test_processes_together_read_the_rows_of_one(world_size):
    part = random_part()
    whole = Windows(part, 6, 4, seed=2, spans=(4, 2, 1))
    shares = [Windows(part, 6, 4, 2, rank, world_size, (4, 2, 1)) for rank in range(world_size)]
    assert {share.steps_per_epoch for share in shares} == {whole.steps_per_epoch}
    for step in (0, 1, whole.steps_per_epoch):
        for name in ("inputs", "targets", "counts", "keeps"):
            together = np.concatenate([getattr(share[step], name) for share in shares], -1)
            np.testing.assert_array_equal(together, getattr(whole[step], name))


SPANS = (5, 3, 1)


def anew(part: CorpusPart | None = None, rows=9, length=8, seed=4) -> Windows:
    return Windows(part or random_part(300), rows, length, seed, spans=SPANS)


def test_a_row_begins_anew_after_its_span_of_windows():
    windows = anew()
    for epoch in range(2):
        keeps = np.stack([w.keeps for w in epoch_of(windows, epoch)])  # (steps, 2, R)
        assert not keeps[0].any()
        for row in range(9):
            for way in range(2):
                begun = np.flatnonzero(~keeps[:, way, row])
                assert set(np.diff(begun[1:])) <= {SPANS[row % 3]}
                assert begun[1] <= SPANS[row % 3]


def test_rows_of_one_span_do_not_all_begin_at_once():
    windows = Windows(random_part(200), 16, 2, spans=(8,))
    begun = [(~windows[step].keeps).sum() for step in range(1, 9)]
    assert sum(begun) == 32
    assert max(begun) < 16


def test_a_row_begins_at_the_beginning_of_a_sentence():
    for window in epoch_of(anew(), 0)[:-1]:  # no sentence is longer than a window
        assert (window.inputs[0, 0][~window.keeps[0]] == 0).all()
        assert (window.inputs[1, 0][~window.keeps[1]] == 1).all()


def test_a_row_that_restarts_moves_on_by_less_than_a_window():
    windows = Windows(random_part(300), 1, 8, seed=4, spans=(1,))
    stream = stream_of(Windows(windows.part, 1, 1, seed=4), 0)[:, 0].tolist()
    for k, window in enumerate(epoch_of(windows, 0)[:-1]):
        further = stream[8 * k :].index(0)
        assert further < 8
        assert window.inputs[0, :, 0].tolist() == stream[8 * k + further :][:8]


def test_short_and_long_sentences_are_read_from_the_start_alike_often():
    rng = np.random.default_rng(1)
    sentences = [[0, *[2] * (3 if rng.random() < 0.5 else 27), 1] for _ in range(4000)]
    windows = Windows(part_of(*sentences), 50, 32, spans=(1,))
    lengths = [
        int((window.inputs[0, :, row] == 1).argmax())
        for window in epoch_of(windows, 0)
        for row in range(50)
    ]
    assert 0.47 < np.mean(np.array(lengths) == 4) < 0.53


def test_a_row_whose_sentence_begins_out_of_sight_begins_where_it_stands():
    windows = Windows(part_of([0, *range(2, 50), 1]), 1, 8, spans=(2,))
    plain = Windows(windows.part, 1, 8)
    for step in range(2, windows.steps_per_epoch):
        np.testing.assert_array_equal(windows[step].inputs, plain[step].inputs)


def test_a_row_reads_on_until_it_begins_anew():
    found = epoch_of(anew(), 1)
    for before, after in pairwise(found):
        on = after.keeps
        assert (before.targets[:, -1][on] == after.inputs[:, 0][on]).all()
    for window in found:
        np.testing.assert_array_equal(window.inputs[:, 1:], window.targets[:, :-1])


def test_a_window_that_begins_anew_follows_from_seed_and_step_alone():
    windows = anew()
    in_order = [windows[step] for step in range(2 * windows.steps_per_epoch)]
    for step in (17, 3, windows.steps_per_epoch, 4):
        assert same(anew()[step], in_order[step])


def test_a_document_without_words_changes_nothing():
    documents = [0, 3, 4, 1], [0, 5, 1]
    plain, gaps = part_of(*documents), part_of([], documents[0], [], [], documents[1], [])
    assert sorted(stream_of(Windows(gaps, 1, 1), 0)[:, 0]) == sorted(plain.tokens)


def test_a_corpus_on_disk_is_read_the_same(tmp_path):
    (tmp_path / "text").write_text("\n\n".join(f"Document {i} . Its end ." for i in range(30)))
    mapped = open_cache([tmp_path / "text"], tmp_path, CacheSettings(held_out=0.0)).train
    loaded = CorpusPart(np.array(mapped.tokens), mapped.documents)
    assert same(Windows(mapped, 4, 5)[3], Windows(loaded, 4, 5)[3])


def test_a_corpus_that_just_fills_one_window_has_one_step():
    assert Windows(part_of([0, 3, 4, 1]), 1, 3).steps_per_epoch == 1


@pytest.mark.parametrize(
    ("rows", "length", "message"),
    [
        (1, 4, "4 tokens are too few for 1 rows of 4 tokens each; use fewer rows or shorter"),
        (5, 1, "too few"),
        (0, 3, "rows and length must be ≥ 1"),
        (1, 0, "rows and length must be ≥ 1"),
    ],
)
def test_rows_that_the_corpus_cannot_fill_are_refused(rows, length, message):
    with pytest.raises(ConfigError, match=message):
        Windows(part_of([0, 3, 4, 1]), rows, length)


def test_an_empty_corpus_is_refused():
    with pytest.raises(ConfigError, match="0 tokens are too few"):
        Windows(part_of(), 1, 1)


def test_rows_that_do_not_divide_among_processes_are_refused():
    with pytest.raises(ConfigError, match="rows must be a multiple of the"):
        Windows(random_part(), 5, 2, world_size=2)
