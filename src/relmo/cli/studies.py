"""Studies of a model: relmo probe, neighbors, report and bench."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relmo.cli.options import DEFAULT_MODEL, AsJson, Model, Precision
from relmo.cli.output import note, say

Name = Annotated[
    str,
    typer.Argument(
        metavar="PROBE",
        help="pos (parts of speech), wsd (word senses), wic (words in context) or intrinsic (how "
        "contextual each layer is).",
    ),
]
Data = Annotated[Path, typer.Option(help="Folder with the probe's data.")]
RecordFolder = Annotated[
    Path | None, typer.Option(help="Folder to write the record, run.json, to.")
]
Vectors = Annotated[
    Path | None,
    typer.Option(help="File of static vectors to compare with, in GloVe or word2vec format."),
]
Cache = Annotated[
    Path | None, typer.Option(help="Folder in which to keep the data's layers for the next run.")
]
Seed = Annotated[int, typer.Option(help="Random seed of the classifiers.")]
SCORE = re.compile(r"(?P<part>.+?)_(?P<metric>accuracy|f1)_(?P<reading>.+)")
MEASURE = re.compile(r"(?P<part>.+)_(?P<reading>layer_\d+)")
MEASURED = {"wsd": "F1 in percent", "intrinsic": "cosines and explained variance"}


def probe(
    name: Name,
    data: Data,
    model: Model = DEFAULT_MODEL,
    output: RecordFolder = None,
    vectors: Vectors = None,
    cache: Cache = None,
    precision: Precision = "float32",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure what each layer of a model encodes, with as little training as possible."""
    from relmo.elmo import Elmo
    from relmo.lab.probes.run import check_probe, run_probe

    check_probe(name, data, output, vectors, cache, seed)
    elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
    results = run_probe(name, elmo, data, output=output, vectors=vectors, cache=cache, seed=seed)
    if as_json:
        say(results, as_json=True)
    else:
        typer.echo(f"{name}, {elmo.config.name}: {MEASURED.get(name, 'accuracy in percent')}")
        Console().print(score_table(results))


def score_table(results: Mapping[str, float]) -> Table:
    """One row per reading, one column per part or measure."""
    cells: dict[str, dict[str, float]] = {}
    parts: dict[str, None] = {}  # an ordered set
    for name, value in results.items():
        found = SCORE.fullmatch(name) or MEASURE.fullmatch(name)
        assert found is not None, name
        parts[found["part"]] = None
        cells.setdefault(found["reading"], {})[found["part"]] = value
    table = Table(box=None, pad_edge=False)
    table.add_column("reading", no_wrap=True)
    for part in parts:
        table.add_column(part, justify="right", no_wrap=True)
    for reading, row in cells.items():
        table.add_row(reading, *(f"{row[part]:.2f}" if part in row else "" for part in parts))
    return table


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


def neighbors(
    word: Word,
    sentence: Sentence,
    corpus: Corpus,
    model: Model = DEFAULT_MODEL,
    count: Count = 10,
    layer: Layer = None,
    any_word: AnyWord = False,
    output: RecordFolder = None,
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


Runs = Annotated[
    Path,
    typer.Option(
        metavar="DIR", help="Folder of runs: every run.json and collection (.jsonl) below it."
    ),
]
ReportFolder = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder for report.md, index.html and their pictures.")
]


def report(runs: Runs, output: ReportFolder, as_json: AsJson = False) -> None:
    """Make the paper's tables and figures from run records; no model is loaded.

    report.toml in the folder of runs can name models and data sets.
    """
    from relmo.lab.reports.report import write_report

    say(write_report(runs, output), as_json)


Suite = Annotated[
    str,
    typer.Option(
        help="embed (speed on the CPU), growth (cost by length, batch and new words), gpu (speed "
        "on a GPU), train (ElmoLayer) or search (queries of an index)."
    ),
]
TextFile = Annotated[
    Path | None, typer.Option(help="Text file, one sentence per line; made-up text if omitted.")
]
Precisions = Annotated[
    list[str], typer.Option("--precision", help="float32, bfloat16 or int8; repeatable.")
]
Peers = Annotated[
    list[str] | None,
    typer.Option(
        "--peers",
        metavar="NAME=PYTHON",
        help="Compare with allennlp or tensorflow, run by the Python of its environment; "
        "repeatable. For the suite embed.",
    ),
]
Seconds = Annotated[float, typer.Option(help="Time for the rounds; at least three are run.")]
Device = Annotated[
    str | None, typer.Option(help="cpu or cuda, for gpu and train; the best one if omitted.")
]
Index = Annotated[str | None, typer.Option(help="Index made by relmo index, for search.")]
ReportFile = Annotated[
    Path | None, typer.Option(help="File for the report and the command: .json or .md.")
]


def bench(
    model: Model = DEFAULT_MODEL,
    suite: Suite = "embed",
    text: TextFile = None,
    precision: Precisions = ["float32", "bfloat16", "int8"],  # noqa: B006 - typer copies it
    peers: Peers = None,
    seconds: Seconds = 30.0,
    device: Device = None,
    index: Index = None,
    output: ReportFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast relmo runs on this machine, by part and end to end.

    Everything is timed in interleaved rounds; figures are medians.
    """
    from relmo.lab.bench.embedding import BenchSettings
    from relmo.lab.bench.report import as_text, write_result
    from relmo.lab.bench.suites import run_suite

    settings = BenchSettings(
        model=model,
        text=text,
        precisions=tuple(precision),  # type: ignore[arg-type]
        peers=tuple(peers or ()),
        seconds=seconds,
        device=device,
        index=index,
    )
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    result = run_suite(suite, settings, note if is_terminal else lambda _: None)
    if output is not None:
        write_result(output, result, shlex.join(["relmo", *sys.argv[1:]]))
    if as_json:
        say(result, as_json)
    else:
        typer.echo(as_text(result), nl=False)
