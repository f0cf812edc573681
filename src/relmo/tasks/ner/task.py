"""Sequence labeling as a task: named entities, or any tag per word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from relmo.errors import DataError
from relmo.nn.blocks.crf import Lattice
from relmo.tasks.calibration import Judged
from relmo.tasks.chunk_tags import (
    CHUNK_TAG_HELP,
    OUTSIDE,
    Tags,
    is_chunked,
    spans_of,
    stray_tags,
    to_bioes,
    without_labels,
)
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenInput
from relmo.tasks.metrics import entity_scores, token_accuracy
from relmo.tasks.mistakes import TaskError, span_errors
from relmo.tasks.model_task import TaggingTask, marked_spans, mask_of
from relmo.tasks.ner.data import (
    TaggedSentence,
    line_of_tag,
    read_columns,
    read_conllu,
    read_tagged_table,
)
from relmo.tasks.ner.model import NerModel, NerSettings
from relmo.tasks.plain_text import places_in, sentences_of
from relmo.tasks.results import Entity, TaggedToken
from relmo.tasks.tables import NO_COLUMNS, Columns

WORDS_NAMES = ("tokens", "words", "text", "sentence", "content")
TAGS_NAMES = (
    "tags", "ner_tags", "pos_tags", "ner", "upos", "pos", "labels", "label", "entities", "spans",
)  # fmt: skip
STRAY_HELP = f"{CHUNK_TAG_HELP}; for tags that mark no entities, use the task pos"


class NerTask(TaggingTask[TaggedSentence, NerSettings]):
    """Tags words; scored by entities."""

    score = "dev_f1"
    result_name = "entities"
    noun = "sentences"
    settings_type = NerSettings
    tables = (".jsonl", ".parquet")
    usual_columns: ClassVar = {"text": WORDS_NAMES, "label": TAGS_NAMES}
    net: NerModel

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over the tags and build the model."""
        self.tags, self.uncounted = facts["tags"], self.settings.uncounted
        self.marks_entities = is_chunked(self.tags)
        if not self.marks_entities:
            self.score, self.result_name = "dev_accuracy", "tokens"  # type: ignore[misc]
        self.net = NerModel(self.settings, tokens, self.tags)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[TaggedSentence]:
        """Sentences of a file of columns or of a table, with entities in BIOES."""
        if cls.is_table(path):
            return cls.read_table(path, cls.columns_of(path, NO_COLUMNS))
        return cls._with_entities(path, read_columns(path))

    @classmethod
    def read_table(cls, path: Path, columns: Columns) -> list[TaggedSentence]:
        """Sentences of a table, with entities in BIOES."""
        return cls._with_entities(path, read_tagged_table(path, columns))

    @classmethod
    def _with_entities(cls, path: Path, found: list[TaggedSentence]) -> list[TaggedSentence]:
        """The sentences with tags in BIOES, unless these mark no entities."""
        counts = Counter(tag for s in found for tag in s.tags)
        if strays := stray_tags(counts):
            raise cls._stray(path, found, strays, "most tags of the file are", STRAY_HELP)
        if not is_chunked(counts):
            return found
        return [replace(s, tags=to_bioes(s.tags)) for s in found]

    @classmethod
    def _stray(
        cls,
        path: Path,
        sentences: Sequence[TaggedSentence],
        tags: set[str],
        others: str,
        hint: str,
    ) -> DataError:
        """An error about the first of these tags, which mark no entities."""
        first = ((s.document, tag) for s in sentences for tag in s.tags if tag in tags)
        line, tag = next(first) if cls.is_table(path) else line_of_tag(path, tags)
        return DataError(path, line, f"{tag!r} is not a chunk tag, but {others}; {hint}")

    @classmethod
    def check(
        cls, path: Path, examples: Sequence[TaggedSentence], facts: Mapping[str, Any]
    ) -> None:
        """Raise DataError for a tag that marks no entity if the training part's tags do."""
        found = {tag for s in examples for tag in s.tags} - {OUTSIDE}
        strays = {tag for tag in found if not is_chunked([tag])}
        if strays and is_chunked(facts["tags"]):
            others = "those of the training part are"
            raise cls._stray(path, examples, strays, others, CHUNK_TAG_HELP)

    @classmethod
    def split_by(cls, example: TaggedSentence) -> tuple[str, Any]:
        """Sentences of a document stay together; where there are no documents, equal ones do."""
        return "", example.document or example.words

    def read_input(self, *texts: str) -> list[TaggedSentence]:
        """The sentences of a text."""
        (text,) = texts
        return [TaggedSentence(words, (), places) for words, places in sentences_of(text)]

    @classmethod
    def facts_of(cls, train: Sequence[TaggedSentence]) -> dict[str, Any]:
        """The set of tags."""
        return {"tags": sorted({tag for sentence in train for tag in sentence.tags})}

    def results(
        self, examples: Sequence[TaggedSentence], outputs: Tensor, temperature: float
    ) -> list[list[Any]]:
        """Entities, or tagged tokens if the tags mark none; outputs are (B, T, K)."""
        mask = mask_of(examples, outputs)  # (B, T)
        lattice = self.net.crf.lattice(outputs, mask, temperature)
        paths = self.net.crf.decode(outputs, mask)
        find = self._entities if self.marks_entities else self._tagged
        pairs = enumerate(zip(examples, paths, strict=True))
        return [find(example, path, lattice, row) for row, (example, path) in pairs]

    def _entities(
        self, example: TaggedSentence, path: list[int], lattice: Lattice, row: int
    ) -> list[Entity]:
        places = places_in(example)
        found = []
        for first, last, label in spans_of([self.tags[number] for number in path]):
            text, start, end = places.span(first, last)
            score = lattice.span_probability(row, first, path[first : last + 1])
            found.append(Entity(text, label, start, end, score))
        return found

    def _tagged(
        self, example: TaggedSentence, path: list[int], lattice: Lattice, row: int
    ) -> list[TaggedToken]:
        places = places_in(example)
        shares = lattice.tag_probabilities(row)[range(len(path)), path].tolist()  # T of them
        found = []
        for place, (number, score) in enumerate(zip(path, shares, strict=True)):
            text, start, end = places.span(place, place)
            found.append(TaggedToken(text, self.tags[number], start, end, score))
        return found

    def is_right(self, example: TaggedSentence, result: Entity | TaggedToken) -> bool:
        """Whether an entity, or a tag, is the example's."""
        places = places_in(example)
        if isinstance(result, TaggedToken):
            return example.tags[places.starts.index(result.start)] == result.tag
        return (result.label, result.start, result.end) in marked_spans(example.tags, places)

    def judged(
        self, examples: Sequence[TaggedSentence], outputs: Tensor, temperature: float
    ) -> Judged:
        """Scores of entities or tags that count, and which are right."""
        found = self.results(examples, outputs, temperature)
        return [
            (result.score, self.is_right(example, result))
            for example, each in zip(examples, found, strict=True)
            for result in each
            if getattr(result, "label", None) not in self.uncounted
        ]

    def errors_of(
        self, example: TaggedSentence, found: Sequence[Entity | TaggedToken]
    ) -> Iterator[TaskError]:
        """Entities that differ, or words with another tag."""
        places = places_in(example)
        if self.marks_entities:
            gold = marked_spans(without_labels(example.tags, self.uncounted), places)
            scores = {
                (e.label, e.start, e.end): e.score
                for e in found
                if isinstance(e, Entity) and e.label not in self.uncounted
            }
            yield from span_errors(places.text, gold, scores)
            return
        for tag, word in zip(example.tags, found, strict=True):
            if isinstance(word, TaggedToken) and word.tag != tag:
                yield TaskError(
                    label=tag, gold=tag, predicted=word.tag, score=word.score, text=places.text,
                    start=word.start, end=word.end,
                )  # fmt: skip

    def gold_labels(self, example: TaggedSentence) -> Sequence[str]:
        """The labels of entities, or the tags if they mark none."""
        if not self.marks_entities:
            return example.tags
        return [span.label for span in spans_of(example.tags)]

    def scores(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[Tags]
    ) -> dict[str, float]:
        """Precision, recall and F1 of entities, and the accuracy of tags."""
        gold = [e.tags for e in examples]
        if self.uncounted:
            gold, predictions = (
                [without_labels(tags, self.uncounted) for tags in each]
                for each in (gold, predictions)
            )
        accuracy = 100 * token_accuracy(gold, predictions)
        if not self.marks_entities:
            return {"accuracy": accuracy}
        return {**entity_scores(gold, predictions).overall.percent(), "accuracy": accuracy}


class PosTask(NerTask):
    """Tags words; scored word by word. Reads CoNLL-U or a file of columns."""

    score = "dev_accuracy"
    result_name = "tokens"

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over the tags, each of which is one of a word."""
        super().set_up(facts, tokens)
        self.marks_entities = False

    @classmethod
    def read(cls, path: Path, part: Part) -> list[TaggedSentence]:
        """Sentences with the UPOS of CoNLL-U, or with the tags of a file of columns or a table."""
        if cls.is_table(path):
            return cls.read_table(path, cls.columns_of(path, NO_COLUMNS))
        return read_conllu(path) if ".conllu" in path.name else read_columns(path)

    @classmethod
    def read_table(cls, path: Path, columns: Columns) -> list[TaggedSentence]:
        """Sentences of a table with its tags."""
        return read_tagged_table(path, columns)

    @classmethod
    def check(
        cls, path: Path, examples: Sequence[TaggedSentence], facts: Mapping[str, Any]
    ) -> None:
        """Accept any tag."""

    def scores(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[Tags]
    ) -> dict[str, float]:
        """The accuracy of tags."""
        return {"accuracy": 100 * token_accuracy([e.tags for e in examples], predictions)}
