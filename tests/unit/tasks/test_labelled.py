"""Epochs and batches of labelled examples, on a task that counts."""

from collections import Counter

import pytest
import torch
from torch import nn

from relmo.errors import ConfigError, DataError
from relmo.tasks.inputs import Inputs, InputSettings
from relmo.tasks.labelled import BatchSettings, LabelledTask, batches_by_length
from relmo.tasks.static_vectors import random_vectors

NO_VECTORS, CPU = random_vectors([], 1), torch.device("cpu")


class Lengths(LabelledTask):
    """Examples are words; the answer is their length, off by what the model has learned."""

    score = "dev_right"

    def __init__(self, train=(), dev=(), seed=0, **batches):
        settings, inputs = BatchSettings(**batches), Inputs(NO_VECTORS, None, None, CPU)
        tokens = inputs.make_module(InputSettings())
        super().__init__(None, {}, inputs, tokens, train, dev, settings, seed)
        self.seen = []

    def set_up(self, facts, tokens):
        self.net = nn.Linear(1, 1)

    def targets(self, examples):
        return ()

    def batch_loss(self, examples):
        return self.model.weight.sum() * len(examples)

    def predict_batch(self, examples):
        assert not torch.is_grad_enabled()
        assert not self.model.training
        self.seen.append(list(examples))
        return [len(e) for e in examples]

    def scores(self, examples, predictions):
        pairs = zip(examples, predictions, strict=True)
        return {"right": 100 * sum(len(e) == p for e, p in pairs) / max(len(examples), 1)}

    @classmethod
    def read(cls, path, part):
        return path.read_text().split()

    @classmethod
    def facts_of(cls, train):
        return {"longest": max(map(len, train), default=0)}

    @classmethod
    def check(cls, path, examples, facts):
        if max(map(len, examples)) > facts["longest"]:
            raise DataError(path, 1, "too long")

    @classmethod
    def sentences(cls, example):
        return [tuple(example)]

    def read_input(self, *texts):
        return texts[0].split()


WORDS = [chr(97 + i % 26) * (1 + 7 * i % 23) + str(i) for i in range(101)]


def epoch(task, number):
    steps = range(number * task.steps_per_epoch, (number + 1) * task.steps_per_epoch)
    return [task.examples_of(step) for step in steps]


@pytest.mark.parametrize(
    "batches", [{"size": 8}, {"size": 8, "sorted_together": 1}, {"size": 1}, {"size": 500}]
)
def test_every_example_comes_once_in_an_epoch(batches):
    task = Lengths(WORDS, **batches)
    for number in (0, 1, 5):
        found = epoch(task, number)
        assert Counter(word for batch in found for word in batch) == Counter(WORDS)
        assert max(map(len, found)) <= task.batches.size


def test_a_step_s_examples_depend_on_the_seed_and_its_number_alone():
    one, same = Lengths(WORDS, size=8), Lengths(WORDS, size=8)
    there = [one.examples_of(step) for step in range(30)]
    back = [same.examples_of(step) for step in reversed(range(30))]
    assert there == back[::-1]
    assert epoch(one, 0) != epoch(one, 1)
    assert epoch(one, 0) != epoch(Lengths(WORDS, seed=1, size=8), 0)


def test_examples_of_like_length_stand_together():
    def padding(task):
        return sum(max(map(len, b)) * len(b) - sum(map(len, b)) for b in epoch(task, 0))

    near, mixed = Lengths(WORDS, size=8), Lengths(WORDS, size=8, sorted_together=1)
    assert padding(near) < padding(mixed) / 3
    lengths = [max(map(len, batch)) for batch in epoch(near, 0)]
    assert lengths != sorted(lengths)


class Kinds(Lengths):
    """Words are of the kind of their first letter."""

    def kind(self, example):
        return example[0]


@pytest.mark.parametrize("batches", [{"size": 2}, {"size": 3, "sorted_together": 1}, {"size": 99}])
def test_batches_are_of_one_kind(batches):
    task = Kinds(WORDS, **batches)
    sizes = Counter(word[0] for word in WORDS).values()  # 3 or 4 of each letter
    assert task.steps_per_epoch == sum(-(-size // batches["size"]) for size in sizes)
    for number in (0, 3):
        found = epoch(task, number)
        assert all(len({word[0] for word in batch}) == 1 for batch in found)
        assert Counter(word for batch in found for word in batch) == Counter(WORDS)
        assert max(map(len, found)) <= batches["size"]
    assert epoch(task, 0) != epoch(task, 1)
    kinds = [batch[0][0] for batch in epoch(task, 0)]
    assert kinds != sorted(kinds)


def test_examples_read_together_are_of_the_kind_of_the_first():
    class Together(Kinds):
        def read_together(self, example):
            return example[-1]

    task = Together(WORDS, size=2)
    kinds = Counter(group[0] for group in {word[-1]: word for word in WORDS[::-1]}.values())
    assert task.steps_per_epoch == sum(-(-count // 2) for count in kinds.values())
    assert Counter(word for batch in epoch(task, 0) for word in batch) == Counter(WORDS)


def test_without_kinds_an_epoch_is_one_list():
    assert Lengths(WORDS, size=8).steps_per_epoch == -(-len(WORDS) // 8)
    assert Kinds([], size=8).steps_per_epoch == 1


def test_only_training_leaves_long_examples_out():
    task = Lengths(WORDS, WORDS, max_length=9, size=8)
    assert {len(w) for w in task.train} == {len(w) for w in WORDS if len(w) <= 9}
    assert sum(map(len, epoch(task, 0))) == len(task.train) < len(WORDS)
    assert len(task.dev) == len(WORDS)
    assert task.evaluate() == {"dev_right": 100}
    assert Counter(w for batch in task.seen for w in batch) == Counter(WORDS)


def test_answers_come_in_the_order_of_the_examples():
    task = Lengths(size=7)
    assert task.predict(WORDS) == [len(w) for w in WORDS]
    assert task.predict([]) == []
    assert [len(batch) for batch in task.seen] == [7] * 14 + [3]


def test_without_scores_of_results_errors_are_what_the_task_scores_as_wrong():
    class Off(Lengths):
        def predict_batch(self, examples):
            return [len(e) + (e == "odd") for e in examples]

    (error,) = Off(size=2).errors(["a", "bc", "odd", "def"])
    assert (error.example, error.gold, error.predicted, error.score) == (3, "", "4", None)
    assert error.text == "o d d"


def test_the_mean_loss_is_that_since_the_last_look():
    task = Lengths(WORDS[:3], size=2)
    with torch.no_grad():
        task.model.weight.fill_(2.0)
    for step in range(2):
        task.loss(step)
    assert task.measures() == {"mean_loss": pytest.approx(3)}
    assert task.measures() == {"mean_loss": 0}


def test_only_the_sums_of_the_next_log_line_are_carried_from_step_to_step():
    state = Lengths(WORDS).state()
    assert state.keys() == {"loss_sum", "loss_steps"}
    assert not any(state.values())


def write(folder, **parts):
    for part, words in parts.items():
        (folder / f"{part}.txt").write_text(words)
    return folder


def test_parts_are_files_by_their_names(tmp_path):
    write(tmp_path, train="a bcd", dev="ef")
    assert Lengths.parts(tmp_path) == {"train": ["a", "bcd"], "dev": ["ef"], "test": []}
    write(tmp_path, test="gh i")
    assert Lengths.parts(tmp_path)["test"] == ["gh", "i"]


def test_a_part_that_does_not_fit_the_training_part_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"dev.txt, line 1: too long"):
        Lengths.parts(write(tmp_path, train="a bcd", dev="efgh"))
    (tmp_path / "dev.txt").unlink()
    with pytest.raises(ConfigError, match="has no dev part"):
        Lengths.parts(tmp_path)


@pytest.mark.parametrize(
    ("batches", "what"),
    [
        ({"size": 0}, "size must be an integer ≥ 1, got 0"),
        ({"size": 2.5}, "size must be an integer ≥ 1, got 2.5"),
        ({"max_length": -1}, "max_length must be an integer ≥ 0, got -1"),
        ({"sorted_together": "x"}, "sorted_together must be an integer ≥ 1, got 'x'"),
        ({"share": 0.0}, "share must be a number > 0 and ≤ 1, got 0.0"),
    ],
)
def test_invalid_settings_are_named(batches, what):
    with pytest.raises(ConfigError, match=what):
        BatchSettings(**batches)


def test_one_long_example_does_not_stretch_a_batch():
    lengths = [3, 2**15, 1, 2, 40_000]
    assert batches_by_length(lengths, 3) == [[2, 3, 0], [1], [4]]
    assert batches_by_length([5, 4], 1) == [[1], [0]]
    assert batches_by_length([], 3) == []
