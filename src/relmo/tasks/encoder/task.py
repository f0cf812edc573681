"""A text encoder as a task: learns from pairs of texts, finds the one by the other.

It is scored by a search of its own: each query of a part looks for its passage among all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from relmo.errors import ConfigError, TextError
from relmo.kernels.device import to_device
from relmo.tasks.data_files import Part
from relmo.tasks.encoder.data import Text, TextPair, read_pairs, read_text
from relmo.tasks.encoder.model import (
    EncoderModel,
    EncoderSettings,
    Texts,
    contrastive_loss,
    mean_reciprocal_rank,
    search,
)
from relmo.tasks.inputs import InputSettings, TokenInput, Words
from relmo.tasks.labelled import LabelledTask, batches_by_length
from relmo.tasks.mistakes import TaskError
from relmo.tasks.tables import FORMATS, NO_COLUMNS, Columns

QUERY_NAMES = ("query", "question", "anchor", "text", "sentence1", "text1", "title")
POSITIVE_NAMES = (
    "positive", "passage", "paragraph", "document", "answer", "context", "sentence2", "text2",
)  # fmt: skip
DEPTH = 10
"""Ranks that count when a part is scored."""

Vectors = tuple[Tensor, Tensor]
"""Of a query and of its passage, (D,) each."""


class EncoderTask(LabelledTask[TextPair, Vectors, EncoderSettings]):
    """Turns texts into vectors, near to each other where texts belong together."""

    score = "dev_mrr"
    result_name = "vector"
    noun = "pairs"
    settings_type = EncoderSettings
    tables = tuple(FORMATS)
    suffixes = (tuple(FORMATS),)
    usual_columns: ClassVar = {"text": QUERY_NAMES, "label": POSITIVE_NAMES}
    reads_documents = False
    net: EncoderModel

    # ── data ────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def read(cls, path: Path, part: Part) -> list[TextPair]:
        """Pairs of a table, from the columns with common names."""
        return cls.read_table(path, cls.columns_of(path, NO_COLUMNS))

    @classmethod
    def read_table(cls, path: Path, columns: Columns) -> list[TextPair]:
        """Pairs of a table."""
        return read_pairs(path, columns)

    @classmethod
    def facts_of(cls, train: Sequence[TextPair]) -> dict[str, Any]:
        """Nothing: any text has a vector."""
        return {}

    @classmethod
    def check_training(cls, train: Sequence[TextPair]) -> None:
        """Raise TextError if all queries have the same passage."""
        if train and all(pair.positive == train[0].positive for pair in train):
            raise TextError(f"all {len(train):,} pairs have the same passage; expected others, too")

    @classmethod
    def check_input(cls, settings: InputSettings, has_elmo: bool) -> None:
        """Raise ConfigError for what `TextEncoder` does not read."""
        if not has_elmo:
            raise ConfigError("an encoder needs an ELMo model: give one by its name or folder")
        if settings.place != "input":
            raise ConfigError(f"an encoder reads ELMo at its input, got place {settings.place!r}")
        if settings.letters:
            raise ConfigError(
                f"an encoder has no character CNN of its own, got letters {settings.letters}; "
                f"set input.letters=0"
            )

    @classmethod
    def split_by(cls, example: TextPair) -> tuple[str, Any]:
        """Its kind; pairs with the same passage stay together."""
        return example.kind, example.positive

    @classmethod
    def sentences(cls, example: TextPair) -> list[Words]:
        """The sentences of all of its texts."""
        return [*chain(example.query, example.positive, *example.negatives)]

    def length(self, example: TextPair) -> int:
        """Words of the passage."""
        return sum(map(len, example.positive or example.query))

    def kind(self, example: TextPair) -> Hashable:
        """Where the pair comes from."""
        return example.kind

    def read_input(self, *texts: str) -> list[TextPair]:
        """The text, which needs no passage, unless it has no words."""
        query = read_text(texts[0])
        return [TextPair(query)] if query else []

    # ── the model ───────────────────────────────────────────────────────────────────────────────

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Build the model."""
        self.check_input(tokens.settings, tokens.elmo is not None)
        self.net = EncoderModel(self.settings, tokens)

    def targets(self, examples: Sequence[TextPair]) -> tuple[Tensor, ...]:
        """(B, B + M) which of the passages, those that answer none at the end, suit a query.

        A passage suits all queries that are equal to its own.
        """
        queries, own = _numbered([example.query for example in examples])  # U, (B,)
        passages, numbers = _numbered(_passages(examples))  # V, (B + M,)
        suits = np.zeros((queries, passages), bool)  # (U, V)
        suits[own, numbers[: len(examples)]] = True
        return (to_device(suits[own][:, numbers], self.device),)

    def batch_loss(self, examples: Sequence[TextPair]) -> Tensor:
        """The contrastive loss of a batch, plus the penalty of the mix."""
        texts = [*(example.query for example in examples), *_passages(examples)]
        vectors = self.vectors(texts)  # (2B + M, D)
        queries, passages = vectors[: len(examples)], vectors[len(examples) :]
        (right,) = self.targets(examples)
        loss = contrastive_loss(queries, passages, right, self.settings.temperature)
        return loss + self.net.tokens.penalty()

    def vectors(self, texts: Sequence[Text]) -> Tensor:
        """Unit-length vectors of texts, (N, D); equal texts are read once.

        A batch of thousands fits: its activations are computed a second time, chunk by chunk, when
        the gradients are.
        """
        distinct = list(dict.fromkeys(texts))
        lengths = [sum(map(len, text)) for text in distinct]
        limit = self.settings.chunk_tokens
        is_large = torch.is_grad_enabled() and sum(lengths) > limit
        found, order = [], []
        for part in _chunks(lengths, limit):
            some = [distinct[i] for i in part]
            order += part
            found.append(
                checkpoint(self._read, some, use_reentrant=False) if is_large else self._read(some)
            )
        row_of = {distinct[i]: row for row, i in enumerate(order)}
        rows = torch.tensor([row_of[text] for text in texts], device=self.device)  # (N,)
        return torch.cat(found).index_select(0, rows)

    def _read(self, texts: Sequence[Text]) -> Tensor:
        """Unit-length vectors of some texts, read together: (N, D)."""
        owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])  # (S,)
        sentences = list(chain.from_iterable(texts))
        pooled = torch.zeros(len(texts), self.net.pooled_width, device=self.device)  # (N, E)
        for part in batches_by_length(list(map(len, sentences)), len(sentences)):
            batch = self.inputs([sentences[i] for i in part])
            some = Texts(batch, to_device(owner[part], self.device), len(texts))
            pooled = pooled + self.net.pool(some)
        return self.net.finish(pooled)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────

    def predict_batch(self, examples: Sequence[TextPair]) -> list[Vectors]:
        """The vectors of the query and of the passage of each pair."""
        count = len(examples)
        texts = [*(example.query for example in examples), *(e.positive for e in examples)]
        found = self.vectors(texts).float()  # (2B, D)
        return list(zip(found[:count], found[count:], strict=True))

    def answer_batch(self, examples: Sequence[TextPair]) -> list[list[Any]]:
        """The vector of each text, as a list of numbers."""
        return [[row.tolist()] for row in self.vectors([e.query for e in examples])]

    def scores(
        self, examples: Sequence[TextPair], predictions: Sequence[Vectors]
    ) -> dict[str, float]:
        """Mean reciprocal rank of a right passage among all of the part, and how many are first.

        Both in percent; a passage below rank 10 counts nothing.
        """
        ranks, _, _ = _search(examples, predictions)
        return {
            "mrr": 100 * mean_reciprocal_rank(ranks, DEPTH),
            "accuracy": 100 * mean_reciprocal_rank(ranks, 1),
        }

    # ── errors ──────────────────────────────────────────────────────────────────────────────────

    def errors(self, examples: Sequence[TextPair]) -> list[TaskError]:
        """The queries that find another passage first, or one as near as their own."""
        found = self.predict(examples, what=f"{self.noun} compared")
        if not found:
            return []
        ranks, others, first_of = _search(examples, found)
        return [
            TaskError(
                example=number,
                gold=_shown(example.positive),
                predicted=_shown(examples[first_of[other]].positive),
                score=float(found[number - 1][0] @ found[first_of[other]][1]),
                text=_shown(example.query),
            )
            for number, (example, rank, other) in enumerate(
                zip(examples, ranks.tolist(), others.tolist(), strict=True), 1
            )
            if rank > 1
        ]


def _chunks(lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Numbers of texts in their order, in lists of at most so many words, or of one text."""
    part, words = list[int](), 0
    for number, length in enumerate(lengths):
        if part and words + length > limit:
            yield part
            part, words = [], 0
        part.append(number)
        words += length
    if part:
        yield part


def _search(
    examples: Sequence[TextPair], predictions: Sequence[Vectors]
) -> tuple[Tensor, Tensor, list[int]]:
    """What `search` returns for the pairs of a part, and where each passage stands first in it."""
    first_of: dict[Text, int] = {}
    right: dict[Text, set[int]] = {}
    for number, example in enumerate(examples):
        first_of.setdefault(example.positive, number)
    number_of = {text: number for number, text in enumerate(first_of)}
    for example in examples:
        right.setdefault(example.query, set()).add(number_of[example.positive])
    firsts = list(first_of.values())
    queries = torch.stack([query for query, _ in predictions])  # (B, D)
    passages = torch.stack([predictions[first][1] for first in firsts])  # (P, D)
    ranks, others = search(queries, passages, [right[example.query] for example in examples])
    return ranks, others, firsts


def _numbered(texts: Sequence[Text]) -> tuple[int, NDArray[np.int64]]:
    """How many different texts there are, and the number of each."""
    number_of: dict[Text, int] = {}
    numbers = [number_of.setdefault(text, len(number_of)) for text in texts]
    return len(number_of), np.array(numbers, np.int64)


def _shown(text: Text) -> str:
    return " ".join(chain.from_iterable(text))


def _passages(examples: Sequence[TextPair]) -> list[Text]:
    """The passages of a batch: that of each query, then those that answer none."""
    return [*(e.positive for e in examples), *(text for e in examples for text in e.negatives)]
