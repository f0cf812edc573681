"""Question answering as a task: the answer is a piece of the paragraph's text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from relmo.errors import ConfigError, TextError
from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part, find_part, need_part
from relmo.tasks.inputs import Inputs, TokenBatch, TokenInput, Words
from relmo.tasks.labelled import BatchSettings, LabelledTask
from relmo.tasks.plain_text import split_text
from relmo.tasks.squad.data import (
    Question,
    answer_spans,
    make_context,
    read_questions,
    split_by_title,
)
from relmo.tasks.squad.metrics import evaluate
from relmo.tasks.squad.model import SquadModel, SquadSettings

HELD_OUT = 0.05
"""Share of training articles by which the best weights are chosen, where there is no test part."""


Span: TypeAlias = tuple[int, int]
"""First and last token of an answer, in its paragraph."""


class SquadTask(LabelledTask[Question, Span | None, SquadSettings]):
    """Answers questions about paragraphs; scored by the answers' texts."""

    score = "dev_f1"
    settings_type = SquadSettings
    suffixes = (".json",)

    def __init__(
        self,
        settings: SquadSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[Question] = (),
        dev: Sequence[Question] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.settings, self.inputs = settings, inputs
        self.net = SquadModel(settings, tokens)
        super().__init__(self.net, train, dev, batches or BatchSettings(), seed, inputs.device)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Question]:
        """Questions of a file of SQuAD 1.1."""
        return list(read_questions(path)[0])

    @classmethod
    def parts(cls, folder: Path) -> dict[Part, list[Question]]:
        """Questions of each part of a folder.

        SQuAD's own test part is not public: where no file is called test, the dev file is the test
        part, and whole articles are held out of the training file to choose the best weights by.
        """
        train = cls.read(need_part(folder, "train", cls.suffixes), "train")
        dev = cls.read(need_part(folder, "dev", cls.suffixes), "dev")
        test = find_part(folder, "test", cls.suffixes)
        if test is not None:
            return {"train": train, "dev": dev, "test": cls.read(test, "test")}
        kept, held_out = split_by_title(train, HELD_OUT)
        if not kept or not held_out:
            raise ConfigError(
                f"{folder}: {len({q.title for q in train})} training articles are too few to hold "
                f"some out; give more, or a file with test in its name beside the dev part"
            )
        return {"train": list(kept), "dev": list(held_out), "test": dev}

    @classmethod
    def facts_of(cls, train: Sequence[Question]) -> dict[str, Any]:
        """Nothing: answers are pieces of the text that is given."""
        return {}

    @classmethod
    def sentences(cls, example: Question) -> list[Words]:
        """What of an example is read as a sentence: the paragraph as a whole, and the question."""
        return [example.context.words, example.words]

    def read_text(self, lines: Iterable[str]) -> Iterator[Question]:
        """A question and its paragraph per line, a tab between them."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            question, _, paragraph = line.partition("\t")
            if not question.strip() or not paragraph.strip():
                what = f"{line[:40]!r}: a question, a tab and its paragraph are needed"
                raise TextError(f"line {number}: {what}")
            words = tuple(split_text(question))
            yield Question(str(number), "", make_context(paragraph), words, ())

    def describe(self, example: Question, prediction: Span | None) -> dict[str, Any]:
        """The question, its answer and the answer's characters, `paragraph[start:end]`."""
        found: dict[str, Any] = {"id": example.id, "question": " ".join(example.words)}
        found["answer"] = self.render(example, prediction)
        if prediction:
            found["start"], found["end"] = example.context.characters(*prediction)
        return found

    def render(self, example: Question, prediction: Span | None) -> str:
        """The answer, as it stands in the paragraph."""
        return example.context.span_text(*prediction) if prediction else ""

    def length(self, example: Question) -> int:
        """Words of the paragraph."""
        return len(example.context.words)

    def batch_loss(self, examples: Sequence[Question]) -> Tensor:
        """The mean loss of a batch."""
        spans, is_span = self._spans(examples)
        return self.net.loss(*self._texts(examples), spans, is_span)

    def predict_batch(self, examples: Sequence[Question]) -> list[Span | None]:
        """The answer to each question; None where the paragraph is empty."""
        asked = [e for e in examples if e.context.words]
        spans = iter(self.net.decode(*self._texts(asked)) if asked else ())
        return [next(spans) if e.context.words else None for e in examples]

    def scores(
        self, examples: Sequence[Question], predictions: Sequence[Span | None]
    ) -> dict[str, float]:
        """F1 and exact match by SQuAD's definition."""
        pairs = zip(examples, predictions, strict=True)
        answers = {e.id: self.render(e, prediction) for e, prediction in pairs}
        found = evaluate(examples, answers)
        return {"f1": found.f1, "exact_match": found.exact_match}

    def _texts(self, examples: Sequence[Question]) -> tuple[TokenBatch, TokenBatch]:
        """Questions and contexts."""
        contexts, questions = zip(*map(self.sentences, examples), strict=True)
        return self.inputs(questions), self.inputs(contexts)

    def _spans(self, examples: Sequence[Question]) -> tuple[Tensor, Tensor]:
        """(B, N, 2) first and last tokens of right answers, and (B, N) which of them are there."""
        found = [answer_spans(e, self.settings.all_occurrences) for e in examples]
        spans = np.zeros((len(found), max(map(len, found)), 2), np.int64)
        is_span = np.zeros(spans.shape[:2], bool)
        for b, each in enumerate(found):
            spans[b, : len(each)] = each
            is_span[b, : len(each)] = True
        return to_device(spans, self.device), to_device(is_span, self.device)
