"""Sequence labelling as a task: named entities, or any tag per word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from relmo.errors import DataError
from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import Inputs, TokenInput, Words
from relmo.tasks.labelled import BatchSettings, LabelledTask
from relmo.tasks.ner.data import TaggedSentence, line_of_tag, read_columns, read_conllu
from relmo.tasks.ner.metrics import entity_scores, token_accuracy
from relmo.tasks.ner.model import NerModel, NerSettings
from relmo.tasks.ner.schemes import OUTSIDE, is_chunked, spans_of, stray_tags, to_bioes
from relmo.tasks.plain_text import describe_span, sentences_of_lines

Tags = tuple[str, ...]
CHUNK_TAGS = "write O, or B-, I-, E- or S- and a label"


class NerTask(LabelledTask[TaggedSentence, Tags, NerSettings]):
    """Tags words; scored by entities."""

    score = "dev_f1"
    settings_type = NerSettings

    def __init__(
        self,
        settings: NerSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[TaggedSentence] = (),
        dev: Sequence[TaggedSentence] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.tags: list[str] = facts["tags"]
        self.inputs = inputs
        if not is_chunked(self.tags):
            self.score = "dev_accuracy"  # there are no entities to count
        self._number_of = {tag: i for i, tag in enumerate(self.tags)}
        self.net = NerModel(settings, tokens, self.tags)
        super().__init__(self.net, train, dev, batches or BatchSettings(), seed, inputs.device)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[TaggedSentence]:
        """Sentences of a file of columns, entities brought to BIOES."""
        sentences = read_columns(path)
        counts = Counter(tag for s in sentences for tag in s.tags)
        if strays := stray_tags(counts):
            line, tag = line_of_tag(path, strays)
            raise DataError(
                path,
                line,
                f"{tag!r} is no chunk tag, but most tags here are; {CHUNK_TAGS}; where tags are "
                f"not meant to mark entities, the task pos takes any",
            )
        if not is_chunked(counts):
            return sentences
        return [TaggedSentence(s.words, to_bioes(s.tags)) for s in sentences]

    @classmethod
    def check(
        cls, path: Path, examples: Sequence[TaggedSentence], facts: Mapping[str, Any]
    ) -> None:
        """Raise DataError for a tag that marks no entity where the training part's do."""
        strays = {
            tag for s in examples for tag in s.tags if tag != OUTSIDE and not is_chunked([tag])
        }
        if strays and is_chunked(facts["tags"]):
            line, tag = line_of_tag(path, strays)
            what = f"{tag!r} is no chunk tag, but those of the training part are"
            raise DataError(path, line, f"{what}; {CHUNK_TAGS}")

    def read_text(self, lines: Iterable[str]) -> Iterator[TaggedSentence]:
        """The sentences of each line."""
        return (TaggedSentence(words, (), places) for words, places in sentences_of_lines(lines))

    @classmethod
    def facts_of(cls, train: Sequence[TaggedSentence]) -> dict[str, Any]:
        """The tags there are; what a trained model needs to know besides its weights."""
        return {"tags": sorted({tag for sentence in train for tag in sentence.tags})}

    @classmethod
    def sentences(cls, example: TaggedSentence) -> list[Words]:
        """What of an example is read as a sentence."""
        return [example.words]

    def describe(self, example: TaggedSentence, prediction: Tags) -> dict[str, Any]:
        """Words, tags and, where the tags mark them, entities."""
        found: dict[str, Any] = {"words": example.words, "tags": prediction}
        if is_chunked(self.tags):
            found["entities"] = [
                {
                    "label": span.label,
                    **describe_span(example.words, example.places, span.first, span.last),
                }
                for span in spans_of(prediction)
            ]
        return found

    def render(self, example: TaggedSentence, prediction: Tags) -> str:
        """`[PER Ada Lovelace] wrote …`, or `word/TAG` where tags mark no entities."""
        if not is_chunked(self.tags):
            return " ".join(f"{w}/{t}" for w, t in zip(example.words, prediction, strict=True))
        words = list(example.words)
        for span in spans_of(prediction):
            words[span.first] = f"[{span.label} {words[span.first]}"
            words[span.last] += "]"
        return " ".join(words)

    def length(self, example: TaggedSentence) -> int:
        """Words."""
        return len(example.words)

    def batch_loss(self, examples: Sequence[TaggedSentence]) -> Tensor:
        """The mean loss of a batch."""
        batch = self.inputs([e.words for e in examples])
        numbers = np.zeros(batch.mask.shape, np.int64)  # (B, T)
        for b, example in enumerate(examples):
            numbers[b, : len(example.tags)] = [self._number_of[tag] for tag in example.tags]
        return self.net.loss(batch, to_device(numbers, self.device))

    def predict_batch(self, examples: Sequence[TaggedSentence]) -> list[Tags]:
        """The tags of each sentence."""
        found = self.net.decode(self.inputs([e.words for e in examples]))
        return [tuple(self.tags[i] for i in numbers) for numbers in found]

    def scores(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[Tags]
    ) -> dict[str, float]:
        """Entities' precision, recall and F1, and the share of words with the right tag."""
        wanted = [e.tags for e in examples]
        accuracy = 100 * token_accuracy(wanted, predictions)
        if not is_chunked(self.tags):
            return {"accuracy": accuracy}
        found = entity_scores(wanted, predictions).overall
        return {
            "f1": 100 * found.f1,
            "precision": 100 * found.precision,
            "recall": 100 * found.recall,
            "accuracy": accuracy,
        }


class PosTask(NerTask):
    """Tags words; scored word by word. CoNLL-U, or a file of columns."""

    score = "dev_accuracy"

    @classmethod
    def read(cls, path: Path, part: Part) -> list[TaggedSentence]:
        """Sentences with their UPOS, or of a file of columns."""
        return read_conllu(path) if ".conllu" in path.name else read_columns(path)

    @classmethod
    def check(
        cls, path: Path, examples: Sequence[TaggedSentence], facts: Mapping[str, Any]
    ) -> None:
        """Any tag will do."""

    def scores(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[Tags]
    ) -> dict[str, float]:
        """The share of words with the right tag."""
        return {"accuracy": 100 * token_accuracy([e.tags for e in examples], predictions)}
