"""relmo neighbors: the occurrences of a word in a corpus with the nearest meaning."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relmo.cli.options import DEFAULT_MODEL, AsJson, Model
from relmo.cli.output import note, say

MOST_WORDS = 20_000
"""Most frequent words of the corpus that are compared without context."""

Word = Annotated[str, typer.Argument(metavar="WORD", help="A word of the sentence.")]
Sentence = Annotated[str, typer.Argument(metavar="SENTENCE", help="The word in its context.")]
Corpus = Annotated[
    Path, typer.Option(help="Text to search: a file, compressed or not, or a folder.")
]
Count = Annotated[int, typer.Option("-k", "--count", min=1, help="Number of neighbors.")]
Layer = Annotated[
    str | None,
    typer.Option(help="Layer to compare by: a number, top or mean; sense vectors if omitted."),
]
AnyWord = Annotated[
    bool, typer.Option(help="Compare with all words of the corpus, by the top layer.")
]
Output = Annotated[Path | None, typer.Option(help="Folder to write the record, run.json, to.")]


def neighbors(
    word: Word,
    sentence: Sentence,
    corpus: Corpus,
    model: Model = DEFAULT_MODEL,
    count: Count = 10,
    layer: Layer = None,
    any_word: AnyWord = False,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Show the nearest occurrences of a word in context, and the nearest words without context."""
    from relmo.elmo import Elmo
    from relmo.files import make_folder, sha256
    from relmo.lab.probes.neighbors import (
        compared_layer,
        find_position,
        nearest_occurrences,
        nearest_words,
    )
    from relmo.lab.probes.run import check_output
    from relmo.layers import parse_layers
    from relmo.text.documents import find_files, read_documents
    from relmo.train.run import write_record

    check_output(output)
    elmo = Elmo.from_pretrained(model)
    chosen = compared_layer(elmo, None if layer is None else parse_layers(layer), any_word)
    words = [token.text for token in elmo.tokens(sentence)]
    position = find_position(words, word)
    files = find_files([corpus])
    lines = [line for path in files for document in read_documents(path) for line in document]
    sentences = elmo.sentences(lines)
    found = nearest_occurrences(
        elmo, words, position, sentences, layer=chosen, count=count, any_word=any_word
    )
    if not found:
        note(
            f"{word!r} is in no other sentence of {corpus}; --any-word compares with all its words"
        )
    common = [w for w, _ in Counter(w for s in sentences for w in s).most_common(MOST_WORDS)]
    without = nearest_words(elmo, words[position], common, count)
    result: dict[str, Any] = {
        "static": [[w, round(c, 4)] for w, c in without],
        "context": [[" ".join(o.words), round(o.cosine, 4), o.position] for o in found],
    }
    if output is not None:
        record = {
            "task": "neighbors",
            "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
            "word": word,
            "sentence": " ".join(words),
            "layer": chosen,
            "data": {"files": {path.name: sha256(path) for path in files}, "any_word": any_word},
            "results": result,
        }
        make_folder(output)
        write_record(output / "run.json", record)
    if as_json:
        say({"word": word, "sentence": " ".join(words), "layer": chosen, **result}, as_json=True)
        return
    console = Console(soft_wrap=True, highlight=False)
    by = "sense vectors" if chosen is None else f"layer {chosen}"
    table = Table("cosine", f"{word!r} in context, by {by}", title_justify="left")
    marks = "{}" if console.is_terminal else "[{}]"  # bold text needs a terminal
    for occurrence in found:
        shown = Text(" ").join(
            Text(marks.format(w), style="bold") if i == occurrence.position else Text(w)
            for i, w in enumerate(occurrence.words)
        )
        table.add_row(f"{occurrence.cosine:.3f}", shown)
    console.print(table)
    console.print("Nearest without context: " + ", ".join(f"{w} {c:.3f}" for w, c in without))
