"""Roles of all predicates of a sentence from one reading of it."""

from dataclasses import replace

import pytest
import torch

from relmo.tasks.inputs import Inputs, InputSettings, make_elmo_layer
from relmo.tasks.srl.data import Frame
from relmo.tasks.srl.model import SrlSettings
from relmo.tasks.srl.pairs import FARTHEST, PairModel
from relmo.tasks.srl.task import SrlTask
from relmo.tasks.static_vectors import random_vectors

WORDS = ("we", "saw", "her", "cat", "👋🏽", "x" * 400, "नि", "שלום")
TAGS = ("B-ARG0", "B-ARG1", "B-V", "I-ARG0", "I-ARG1", "O")
SHORT, LONG = WORDS[:3], WORDS * 2
SETTINGS = SrlSettings(reads="sentences", cell_width=8, num_layers=2, pair_width=6, finder_width=5)
READS_PAIRS = replace(SETTINGS, pair_cells=4)


def make(elmo=None, place="both", settings=SETTINGS):
    read = InputSettings(place=place)
    layer = None if elmo is None else make_elmo_layer(elmo, read)
    inputs = Inputs(random_vectors(WORDS, 6), None, layer, torch.device("cpu"))
    torch.manual_seed(0)
    return inputs, PairModel(settings, inputs.make_module(read), TAGS).eval()


def task(frames=(), size=1):
    inputs = Inputs(random_vectors(WORDS, 6), None, None, torch.device("cpu"))
    tokens = inputs.make_module(InputSettings())
    found = SrlTask(SETTINGS, {"tags": TAGS, "predicates": []}, inputs, tokens, frames)
    found.batches = found.batches.__class__(size=size)
    return found


def frames_of(words, *positions):
    tags = ("O",) * len(words)
    return [Frame(words, position, tags, predicates=positions) for position in positions]


@pytest.mark.parametrize("settings", [SETTINGS, READS_PAIRS], ids=["once", "pairs"])
@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_padding_and_neighbours_do_not_change_scores(tiny, place, settings):
    inputs, model = make(tiny, place, settings)
    alone = model(inputs([SHORT]), torch.tensor([[0, 1]]))
    together = model(inputs([LONG, SHORT]), torch.tensor([[0, 3], [1, 0], [1, 1]]))
    torch.testing.assert_close(together[2:, : len(SHORT)], alone, atol=2e-5, rtol=0)


def test_each_predicate_of_a_sentence_has_scores_of_its_own():
    inputs, model = make()
    batch = inputs([SHORT])
    both = model(batch, torch.tensor([[0, 0], [0, 2]]))
    assert not torch.equal(both[0], both[1])
    torch.testing.assert_close(both[1:], model(batch, torch.tensor([[0, 2]])))


def test_a_word_is_read_among_the_other_words_of_its_predicate():
    """Alone, a word's scores depend on the predicate and on what the encoder makes of the word."""
    _, model = make(settings=READS_PAIRS)
    reader = model.reader
    pairs = torch.zeros(1, 3, SETTINGS.pair_width)
    pairs[0, 2] = 1
    read = reader(pairs, torch.tensor([3]))[0]  # (T, 2H)
    assert not torch.equal(read[0], reader(pairs[:, :1], torch.tensor([1]))[0, 0])


def test_words_farther_away_than_counted_are_at_one_distance():
    inputs, model = make()
    words = ("we",) * (3 * FARTHEST)
    with torch.no_grad():  # nothing but the distance tells the words apart
        model.of_words.weight.zero_()
    scores = model(inputs([words]), torch.tensor([[0, 0]]))[0]  # (T, K)
    assert torch.equal(scores[FARTHEST], scores[-1])
    assert not torch.equal(scores[FARTHEST - 1], scores[-1])


def test_a_sentence_without_a_predicate_has_no_loss_of_roles():
    inputs, model = make()
    batch, tags = inputs([LONG]), torch.zeros(1, len(LONG), dtype=torch.long)
    assert model.loss(batch, torch.tensor([[0, -1]]), tags) == 0
    assert model.loss(batch, torch.tensor([[0, 1]]), tags) > 0


def test_a_task_reads_a_sentence_once_for_all_of_its_predicates():
    frames = [*frames_of(LONG, 0, 4, 6), *frames_of(SHORT, 1)]
    batch, predicates = task().model_inputs([frames[0], frames[3], frames[2]])
    assert batch.mask.shape == (2, len(LONG))
    assert predicates.tolist() == [[0, 0], [1, 1], [0, 6]]


def test_frames_of_a_sentence_are_in_one_batch():
    frames = [
        frame for n in range(7) for frame in frames_of((*SHORT, *WORDS[: n + 1]), *range(1 + n % 3))
    ]
    learned = task(frames[::-1])
    assert learned.steps_per_epoch == 1
    learned = SrlTask(
        SETTINGS, {"tags": TAGS, "predicates": []}, learned.inputs, learned._tokens, frames[::-1],
        batches=task(size=2).batches,
    )  # fmt: skip
    assert learned.steps_per_epoch == 4
    seen = [learned.examples_of(step) for step in range(4)]
    assert sorted(len({e.words for e in batch}) for batch in seen) == [1, 2, 2, 2]
    where = {frame.words: set() for frame in frames}
    for step, batch in enumerate(seen):
        for frame in batch:
            where[frame.words].add(step)
    assert all(len(steps) == 1 for steps in where.values())
    assert sum(map(len, seen)) == len(frames)


def test_it_learns_a_rule_that_depends_on_the_predicate():
    """The word before the predicate is its ARG0."""
    words = ("we", "saw", "her", "cat")
    frames = [
        Frame(
            words, p, tuple("B-V" if n == p else "B-ARG0" if n == p - 1 else "O" for n in range(4))
        )
        for p in range(1, 4)
    ]
    learned = task(frames)
    optimizer = torch.optim.Adam(learned.net.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        learned.batch_loss(frames).backward()
        optimizer.step()
    assert learned.score_on(frames)["f1"] == 100
