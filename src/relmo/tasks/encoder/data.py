"""Pairs of texts that belong together: tables in CSV, TSV, JSONL or Parquet.

{"query": "Who wrote it?", "positive": "Ada Lovelace wrote it.", "negative": "Nobody read it."}

`negative` is left out, or a text or a list of texts that look like an answer and are none. `kind`,
if there is one, says where a pair comes from: a batch has pairs of one kind, so that no text is
told from the others by its kind alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relmo.tasks.data_files import not_empty
from relmo.tasks.inputs import Words
from relmo.tasks.plain_text import tokens_of_sentences
from relmo.tasks.tables import Columns, TableRow, filled_rows
from relmo.text.tokenize import RelmoTokenizer

Text = tuple[Words, ...]
"""The sentences of a text, as their words."""
NEGATIVE, KIND = ("negative", "negatives", "hard_negative"), "kind"
"""Names of the columns that need not be there."""
_tokenizer = RelmoTokenizer()


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text, one that should be found by it, and others that should not."""

    query: Text
    positive: Text = ()
    negatives: tuple[Text, ...] = ()
    kind: str = ""


def read_text(text: str) -> Text:
    """The sentences of a text; none in one without words."""
    sentences = tokens_of_sentences(text, _tokenizer)
    return tuple(tuple(token.text for token in tokens) for _, tokens in sentences)


def read_pairs(path: str | Path, columns: Columns) -> list[TextPair]:
    """The pairs of a table, from the columns of the query and of what it should find.

    Rows without one of the two are skipped with a warning.
    """
    query, positive = columns
    assert query is not None
    assert positive is not None
    known: dict[str, Text] = {}  # a passage that many questions are about is kept once

    def read(text: str) -> Text:
        if text not in known:
            known[text] = read_text(text)
        return known[text]

    found = []
    for row in filled_rows(path, (query, positive)):
        texts = [read(text) for text in (row.text(query), row.text(positive))]
        if not all(texts):
            raise row.error(f"{query!r} or {positive!r} contains no words; delete the row")
        negatives = tuple(filter(None, map(read, _negatives(row))))
        kind = "" if row.is_empty(KIND) else row.text(KIND)
        found.append(TextPair(texts[0], texts[1], negatives, kind))
    return not_empty(path, found, "pairs of texts; expected one")


def _negatives(row: TableRow) -> list[str]:
    """The texts that are no answers; [] without such a column, or where it is empty."""
    name = next((name for name in NEGATIVE if not row.is_empty(name)), None)
    if name is None:
        return []
    value = row.cells[name]
    if not isinstance(value, list):
        return [row.text(name)]
    if not all(isinstance(each, str) for each in value):
        raise row.error(f"{name!r} must be a string or a list of strings")
    return [each for each in value if each.strip()]
