"""The language models themselves: relmo surprisal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relmo.cli.shared import (
    DEFAULT_MODEL,
    NOTHING_WRITTEN,
    Model,
    Precision,
    if_interrupted,
    note,
)
from relmo.errors import ConfigError
from relmo.progress import working

if TYPE_CHECKING:
    from relmo.elmo import Elmo
    from relmo.lm.surprisal import Context, SplitSentence, WordSurprisal

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE|-",
        help="Text, blank lines between documents; .conllu for its words; - for standard input.",
    ),
]
ContextOption = Annotated[
    str,
    typer.Option(
        "--context",
        help="What a word is predicted from: its sentence, its document, or a number of words on "
        "each side.",
    ),
]
Tokenized = Annotated[
    bool, typer.Option("--tokenized", help="A line is a sentence of words, split at spaces.")
]
Regions = Annotated[
    bool,
    typer.Option(
        "--regions",
        help="A line is a sentence of regions, split at spaces, punctuation attached: one row "
        "each, its tokens' bits added up.",
    ),
]
RowFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Output: .tsv, .csv, .jsonl or .parquet; else TSV is printed."
    ),
]
AsJsonRows = Annotated[bool, typer.Option("--json", help="Print rows as JSON lines.")]


def surprisal(
    file: Source,
    model: Model = DEFAULT_MODEL,
    context: ContextOption = "sentence",
    tokenized: Tokenized = False,
    regions: Regions = False,
    output: RowFile = None,
    precision: Precision = "float32",
    as_json: AsJsonRows = False,
) -> None:
    """Print how unexpected each word of a text is, in bits, one row per word."""
    from relmo.vectors.row_files import check_rows_output, print_rows, write_rows

    given = parse_context(context)
    if file != "-" and not Path(file).is_file():
        raise ConfigError(f"{file}: no such file")
    if tokenized and regions:
        raise ConfigError("give --tokenized or --regions, not both")
    if output is not None:
        check_rows_output(output)
    with working("loading PyTorch"):
        from relmo.elmo import Elmo
        from relmo.lm.surprisal import WordSurprisal

    with if_interrupted(NOTHING_WRITTEN):
        with working(f"loading {model}"):
            elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
            lm = elmo.lm
        counts = _Counts()
        documents = _documents(file, elmo, tokenized=tokenized, regions=regions)
        rows = counts.watch(lm.surprisal_stream(documents, given))
        if output is not None:
            write_rows(output, WordSurprisal._fields, rows)
        else:
            print_rows(sys.stdout, WordSurprisal._fields, rows, None if as_json else "\t")
    counts.say(output)


def parse_context(text: str) -> Context:
    """`sentence`, `document` or a number of words."""
    if text in ("sentence", "document"):
        return text  # type: ignore[return-value]
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return int(text)
    raise ConfigError(f"--context must be sentence, document or a number ≥ 1, got {text!r}")


def _documents(
    file: str, elmo: Elmo, *, tokenized: bool, regions: bool
) -> Iterator[list[SplitSentence]]:
    """Documents as sentences of regions."""
    from relmo.lm.surprisal import split_regions
    from relmo.text.documents import read_documents, read_lines, split_documents
    from relmo.text.tokenize import WhitespaceTokenizer

    if ".conllu" in Path(file).suffixes:
        for words in _conllu(Path(file)):
            yield list(split_regions(words, elmo.tokenizer, attached=regions))
        return
    if file == "-":
        lines = split_documents(read_lines(sys.stdin.buffer, "standard input"))
    else:
        lines = read_documents(Path(file))
    splits = WhitespaceTokenizer() if tokenized else elmo.tokenizer
    for document in lines:
        sentences = document if tokenized or regions else elmo.sentences(document)
        yield list(split_regions(sentences, splits, attached=regions))


def _conllu(path: Path) -> Iterator[list[list[str]]]:
    """The words of each sentence of each document of a CoNLL-U file."""
    from itertools import groupby

    from relmo.tasks.ner.data import read_conllu

    for _, sentences in groupby(read_conllu(path), key=lambda sentence: sentence.document):
        yield [list(sentence.words) for sentence in sentences]


class _Counts:
    """What the rows were about."""

    def __init__(self) -> None:
        self.sentences = self.words = self.unknown = 0
        self.bits = 0.0

    def watch(
        self, documents: Iterable[Sequence[Sequence[WordSurprisal]]]
    ) -> Iterator[WordSurprisal]:
        """The rows of all documents."""
        for document in documents:
            self.sentences += len(document)
            for row in (row for sentence in document for row in sentence):
                self.words += 1
                self.unknown += not row.known
                self.bits += row.surprisal
                yield row

    def say(self, output: Path | None) -> None:
        """Say how much was scored, and what to beware of."""
        from relmo.lm.language_model import MANY_UNKNOWN

        if not self.words:
            note("the text contains no words")
            return
        where = "" if output is None else f" to {output}"
        note(
            f"{self.words:,} words of {self.sentences:,} sentences{where}; "
            f"{self.bits / self.words:.2f} bits per word forward"
        )
        if self.unknown > MANY_UNKNOWN * self.words:
            note(
                f"{self.unknown / self.words:.1%} of them are outside the vocabulary: their bits "
                f"are <UNK>'s and their letters'; leave them out by the column 'known'"
            )
