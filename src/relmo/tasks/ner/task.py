"""Sequence labeling as a task: named entities, or any tag per word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from relmo.errors import DataError
from relmo.tasks.chunk_tags import CHUNK_TAG_HELP, OUTSIDE, Tags, is_chunked, stray_tags, to_bioes
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenInput
from relmo.tasks.metrics import entity_scores, token_accuracy
from relmo.tasks.model_task import TaggingTask
from relmo.tasks.ner.data import (
    TaggedSentence,
    line_of_tag,
    read_columns,
    read_conllu,
    read_tagged_table,
)
from relmo.tasks.ner.model import NerModel, NerSettings
from relmo.tasks.plain_text import sentences_of_lines
from relmo.tasks.tables import NO_COLUMNS, Columns

WORDS_NAMES = ("tokens", "words", "text", "sentence", "content")
TAGS_NAMES = (
    "tags", "ner_tags", "pos_tags", "ner", "upos", "pos", "labels", "label", "entities", "spans",
)  # fmt: skip
STRAY_HELP = f"{CHUNK_TAG_HELP}; for tags that mark no entities, use the task pos"


class NerTask(TaggingTask[TaggedSentence, NerSettings]):
    """Tags words; scored by entities."""

    score = "dev_f1"
    answers_lines = True
    noun = "sentences"
    settings_type = NerSettings
    tables = (".jsonl", ".parquet")
    usual_columns: ClassVar = {"text": WORDS_NAMES, "label": TAGS_NAMES}
    net: NerModel

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over the tags and build the model."""
        self.tags = facts["tags"]
        if not is_chunked(self.tags):
            self.score = "dev_accuracy"  # there are no entities to count
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

    def read_text(self, lines: Iterable[str]) -> Iterator[TaggedSentence]:
        """The sentences of each line."""
        return (TaggedSentence(words, (), places) for words, places in sentences_of_lines(lines))

    @classmethod
    def facts_of(cls, train: Sequence[TaggedSentence]) -> dict[str, Any]:
        """The set of tags."""
        return {"tags": sorted({tag for sentence in train for tag in sentence.tags})}

    def describe(self, example: TaggedSentence, prediction: Tags) -> dict[str, Any]:
        """Words, tags and, if the tags mark them, entities."""
        found: dict[str, Any] = {"words": example.words, "tags": prediction}
        if is_chunked(self.tags):
            found["entities"] = self.describe_spans(example, prediction)
        return found

    def render(self, example: TaggedSentence, prediction: Tags) -> str:
        """`[PER Ada Lovelace] wrote …`, or `word/TAG` if the tags do not mark entities."""
        if is_chunked(self.tags):
            return super().render(example, prediction)
        return " ".join(f"{w}/{t}" for w, t in zip(example.words, prediction, strict=True))

    def scores(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[Tags]
    ) -> dict[str, float]:
        """Precision, recall and F1 of entities, and the accuracy of tags."""
        gold = [e.tags for e in examples]
        accuracy = 100 * token_accuracy(gold, predictions)
        if not is_chunked(self.tags):
            return {"accuracy": accuracy}
        return {**entity_scores(gold, predictions).overall.percent(), "accuracy": accuracy}


class PosTask(NerTask):
    """Tags words; scored word by word. Reads CoNLL-U or a file of columns."""

    score = "dev_accuracy"

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
