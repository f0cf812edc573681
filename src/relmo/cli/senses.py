"""The senses of words: relmo senses and change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from relmo.cli.shared import (
    DEFAULT_MODEL,
    NOTHING_WRITTEN,
    AsJson,
    Model,
    Precision,
    if_interrupted,
    note,
    say,
)
from relmo.errors import ConfigError
from relmo.progress import working

Word = Annotated[str, typer.Argument(metavar="WORD", help="A word, in any case.")]
Corpus = Annotated[
    list[Path],
    typer.Option(help="Text: a file, compressed or not, or a folder; repeatable."),
]
Places = Annotated[int, typer.Option(min=1, help="Places used at most, an even sample of all.")]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Mean cosine, from -1 to 1, below which clusters are not joined. Higher: more "
        "clusters, but more of them too small, which are dissolved."
    ),
]
PlaceFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="File for a row per place: .tsv, .csv, .jsonl or .parquet."
    ),
]


def senses(
    word: Word,
    corpus: Corpus,
    model: Model = DEFAULT_MODEL,
    places: Places = 1000,
    threshold: Threshold = None,
    output: PlaceFile = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Find the senses of a word in a text: clusters of its places, and words that fit each.

    Their number is found by the data; a word may have one.
    """
    from relmo.vectors.row_files import check_rows_output, write_rows

    if output is not None:
        check_rows_output(output)
    with working("loading PyTorch"):
        from relmo.elmo import Elmo
        from relmo.senses.senses import FIELDS, find_senses

    with if_interrupted(NOTHING_WRITTEN):
        with working(f"loading {model}"):
            elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
        found = find_senses(elmo, word, corpus, most=places, threshold=threshold)
        if output is not None:
            write_rows(output, FIELDS, found.rows())
    if not elmo.has_lm:
        note("this model has no softmax: senses are shown without substitutes")
    if found.remark is not None:
        note(found.remark)
    if as_json:
        say(found.to_dict(), as_json=True)
    else:
        Console(highlight=False).print(found.table())


Words = Annotated[
    list[str] | None, typer.Argument(metavar="WORD…", help="Words to compare, in any case.")
]
Before = Annotated[
    list[Path], typer.Option(help="Text of the first period: a file or a folder; repeatable.")
]
After = Annotated[list[Path], typer.Option(help="Text of the second period, likewise.")]
Vocabulary = Annotated[
    str | None,
    typer.Option(
        metavar="N|FILE",
        help="Compare the N words most frequent in both periods, without the most common ones, or "
        "those of a file, one a line.",
    ),
]
Common = Annotated[
    bool, typer.Option("--common", help='With --vocabulary N: also words such as "the".')
]
Permutations = Annotated[
    int, typer.Option(min=0, help="Random assignments for the p-values; 0: none.")
]
Align = Annotated[
    bool, typer.Option("--align", help="For two kinds of text: take off what differs everywhere.")
]
WordFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File for a row per word: .tsv, .csv, .jsonl or .parquet."),
]
Picture = Annotated[
    Path | None, typer.Option(help="SVG file for a picture of one word's places and senses.")
]


def change(
    before: Before,
    after: After,
    words: Words = None,
    vocabulary: Vocabulary = None,
    common: Common = False,
    model: Model = DEFAULT_MODEL,
    align: Align = False,
    places: Places = 200,
    permutations: Permutations = 1000,
    output: WordFile = None,
    picture: Picture = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Measure how the use of words changes between two texts, with permutation tests.

    APD is the average distance between places before and after, PRT the distance of their means,
    JSD the divergence of their senses' shares. The most changed word by PRT is the first.
    """
    from relmo.vectors.row_files import check_rows_output, write_rows

    named, count = parse_vocabulary(vocabulary)
    wanted = [*(words or []), *named]
    if not wanted and not count:
        raise ConfigError("give words to compare, or --vocabulary with a number or a file of words")
    if picture is not None and (len(wanted) != 1 or count):
        raise ConfigError("--picture shows one word; give one")
    if output is not None:
        check_rows_output(output)
    with working("loading PyTorch"):
        from relmo.elmo import Elmo
        from relmo.senses.change import FIELDS, find_changes, first_few
        from relmo.senses.picture import check_picture, draw_change

    if picture is not None:
        check_picture(picture)
    with if_interrupted(NOTHING_WRITTEN):
        with working(f"loading {model}"):
            elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
        found = find_changes(
            elmo,
            wanted,
            before,
            after,
            vocabulary=count,
            common=common,
            aligned=align,
            most=places,
            permutations=permutations,
        )
        if output is not None:
            write_rows(output, FIELDS, found.rows())
        if picture is not None:
            draw_change(found.changes[0], picture)
    if found.rare:
        few = first_few(found.rare)
        note(f"skipped, too rare in one of the texts: {few} ({len(found.rare)} in all)")
    for remark in found.remarks:
        note(remark)
    if as_json:
        say(found.to_dict(), as_json=True)
    else:
        Console(highlight=False).print(found.table())


def parse_vocabulary(text: str | None) -> tuple[list[str], int]:
    """The words of a file, or how many are to be found."""
    if text is None:
        return [], 0
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return [], int(text)
    path = Path(text)
    if not path.is_file():
        raise ConfigError(f"--vocabulary must be a number ≥ 1 or a file of words, got {text!r}")
    from relmo.text.documents import read_documents

    return [line.strip() for document in read_documents(path) for line in document], 0
