"""The language models themselves: relmo surprisal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from relmo.cli.word_table import WordTable
    from relmo.elmo import Elmo
    from relmo.lm.surprisal import Context, SplitSentence, WordSurprisal

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|-",
        help="Text files, blank lines between documents; .conllu for its words; - for standard "
        "input; or one table, .csv, .tsv, .jsonl or .parquet, with --word and --sentence.",
    ),
]
ContextOption = Annotated[
    str,
    typer.Option(
        "--context",
        help="What a word is predicted from: its sentence, its document, or a number N of the "
        "model's tokens on each side (a region may be several tokens).",
    ),
]
WordColumn = Annotated[
    str | None,
    typer.Option(
        "--word",
        metavar="COLUMN",
        help="Of a table: the column with the words, one region per row. All rows and columns are "
        "kept; the columns of surprisal are added.",
    ),
]
SentenceColumns = Annotated[
    str | None,
    typer.Option(
        "--sentence",
        metavar="COLUMN[,COLUMN]",
        help="Of a table: consecutive rows with the same values here are a sentence.",
    ),
]
DocumentColumns = Annotated[
    str | None,
    typer.Option(
        "--document",
        metavar="COLUMN[,COLUMN]",
        help="Of a table: consecutive rows with the same values here are a document; by default "
        "each sentence is one.",
    ),
]
Tokenized = Annotated[
    bool, typer.Option("--tokenized", help="A line is a sentence of words, split at spaces.")
]
Regions = Annotated[
    bool,
    typer.Option(
        "--regions",
        help="A line is a sentence of regions, split at spaces and tabs, punctuation attached: "
        "one row each, its tokens' bits added up.",
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
    files: Sources,
    model: Model = DEFAULT_MODEL,
    context: ContextOption = "sentence",
    tokenized: Tokenized = False,
    regions: Regions = False,
    word: WordColumn = None,
    sentence: SentenceColumns = None,
    document: DocumentColumns = None,
    output: RowFile = None,
    precision: Precision = "float32",
    as_json: AsJsonRows = False,
) -> None:
    """Print how unexpected each word of a text is, in bits, one row per word."""
    from relmo.vectors.row_files import TEXT_FORMATS, check_rows_output, print_rows, write_rows

    given = parse_context(context)
    if tokenized and (regions or word):
        raise ConfigError(f"give --tokenized or {'--regions' if regions else '--word'}, not both")
    if output is not None:
        check_rows_output(output)
    table = _table(files, word, sentence, document)
    if table is not None and given == "document" and document is None:
        raise ConfigError("--context document of a table needs --document COLUMN")
    with working("loading PyTorch"):
        from relmo.elmo import Elmo
        from relmo.lm.surprisal import WordSurprisal, split_regions

    separator = None if as_json else "\t"
    if output is not None:
        separator = TEXT_FORMATS.get(output.suffix.lower())
    with if_interrupted(NOTHING_WRITTEN):
        if table is None:
            _check_text(files)
        with working(f"loading {model}"):
            elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
            lm = elmo.lm
        if table is None:
            documents = _documents(files, elmo, tokenized=tokenized, regions=regions)
        else:
            split = partial(split_regions, tokenizer=elmo.tokenizer, attached=True)
            documents = (list(split(each)) for each in table.documents())
        counts = _Counts()
        words = counts.watch(lm.surprisal_stream(documents, given))
        fields: Sequence[str] = WordSurprisal._fields
        rows: Iterable[tuple[Any, ...]] = (row for _, row in words)
        if table is not None:
            fields = table.fields(fields[3:])
            rows = table.rows((row for _, row in words), as_text=separator is not None)
        elif len(files) > 1:
            fields, rows = (*fields, "document_id"), ((*row, number) for number, row in words)
        if output is not None:
            write_rows(output, fields, rows)
        else:
            print_rows(sys.stdout, fields, rows, separator)
    counts.say(output)


def parse_context(text: str) -> Context:
    """`sentence`, `document` or a number of tokens."""
    if text in ("sentence", "document"):
        return text  # type: ignore[return-value]
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return int(text)
    raise ConfigError(f"--context must be sentence, document or a number ≥ 1, got {text!r}")


def _table(
    files: Sequence[str], word: str | None, sentence: str | None, document: str | None
) -> WordTable | None:
    """The table to read; None for text."""
    from relmo.cli.word_table import WordTable
    from relmo.tasks.data_files import stem_of
    from relmo.tasks.tables import FORMATS

    for file in files:
        if file != "-" and not Path(file).is_file():
            raise ConfigError(f"{file}: no such file")
        if word is None and Path(stem_of(Path(file))).suffix in FORMATS:
            raise ConfigError(
                f"{file} is a table: give --word COLUMN (the words, one per row) and --sentence "
                f"COLUMN (what rows of a sentence share)"
            )
    if word is None:
        if sentence or document:
            raise ConfigError("--sentence and --document are for tables: give --word COLUMN, too")
        return None
    if len(files) > 1:
        raise ConfigError(f"--word reads one table at a time, got {len(files)} files")
    if sentence is None:
        raise ConfigError("--word needs --sentence COLUMN: what rows of a sentence share")
    return WordTable(Path(files[0]), word, sentence, document)


def _check_text(files: Sequence[str]) -> None:
    """Read files once: what cannot be read is found before hours of work."""
    from relmo.tasks.ner.data import read_conllu_documents
    from relmo.text.documents import read_documents

    with working("reading the input once"):
        for path in (Path(file) for file in files if file != "-"):
            for _ in read_conllu_documents(path) if _is_conllu(path) else read_documents(path):
                pass


def _is_conllu(path: Path) -> bool:
    return ".conllu" in path.suffixes


def _documents(
    files: Sequence[str], elmo: Elmo, *, tokenized: bool, regions: bool
) -> Iterator[list[SplitSentence]]:
    """Documents as sentences of regions; none spans two files."""
    from relmo.lm.surprisal import split_regions
    from relmo.tasks.ner.data import read_conllu_documents
    from relmo.text.documents import read_documents, read_lines, split_documents
    from relmo.text.tokenize import WhitespaceTokenizer

    splits = WhitespaceTokenizer() if tokenized else elmo.tokenizer
    for path in map(Path, files):
        if _is_conllu(path):
            for words in read_conllu_documents(path):
                yield list(split_regions(words, elmo.tokenizer, attached=regions))
            continue
        if path == Path("-"):
            lines = split_documents(read_lines(sys.stdin.buffer, "standard input"))
        else:
            lines = read_documents(path)
        for document in lines:
            sentences = document if tokenized or regions else elmo.sentences(document)
            yield list(split_regions(sentences, splits, attached=regions))


class _Counts:
    """What the rows were about."""

    def __init__(self) -> None:
        self.sentences = self.words = self.unknown = 0
        self.bits = 0.0

    def watch(
        self, documents: Iterable[Sequence[Sequence[WordSurprisal]]]
    ) -> Iterator[tuple[int, WordSurprisal]]:
        """The rows of all documents, and the number of each one's document, from 0."""
        for number, document in enumerate(documents):
            self.sentences += len(document)
            for row in chain.from_iterable(document):
                if row.surprisal == row.surprisal:  # not empty
                    self.words += 1
                    self.unknown += not row.known
                    self.bits += row.surprisal
                yield number, row

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
