"""Studies of a model: relmo probe, neighbors, report and bench."""

from __future__ import annotations

import shlex
import sys
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
from relmo.progress import working

Name = Annotated[
    str,
    typer.Argument(
        metavar="PROBE",
        help="pos (parts of speech), wsd (word senses), wic (words in context), intrinsic (how "
        "contextual each layer is), blimp (grammar by minimal pairs) or acceptability (by a "
        "threshold).",
    ),
]
Data = Annotated[
    Path, typer.Option(help="Folder with the probe's data; for blimp also one .jsonl file.")
]
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
PairFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File for the result of each pair of blimp: .tsv, .csv, .jsonl or .parquet.",
    ),
]


def probe(
    name: Name,
    data: Data,
    model: Model = DEFAULT_MODEL,
    output: RecordFolder = None,
    vectors: Vectors = None,
    cache: Cache = None,
    precision: Precision = "float32",
    seed: Seed = 0,
    pairs: PairFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each layer of a model encodes, with as little training as possible."""
    with working("loading PyTorch"):
        from relmo.elmo import Elmo
        from relmo.lab.probes.run import BY_PART, check_probe, heading, run_probe, score_table

    check_probe(name, data, output, vectors, cache, seed, pairs)
    kept = "" if cache is None else f"; layers of parts read to their end are kept in {cache}"
    options = {"output": output, "vectors": vectors, "cache": cache, "pairs": pairs}
    with if_interrupted(f"interrupted; no scores were written{kept}"):
        with working(f"loading {model}"):
            elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
        results = run_probe(name, elmo, data, seed=seed, **options)
    if as_json:
        say(results, as_json=True)
    else:
        typer.echo(f"{name}, {elmo.config.name}: {heading(name, results)}")
        Console().print(score_table(results, by_part=name in BY_PART))


Word = Annotated[str, typer.Argument(metavar="WORD", help="A word of the sentence.")]
Sentence = Annotated[str, typer.Argument(metavar="SENTENCE", help="The word in its context.")]
Corpus = Annotated[
    Path, typer.Option(help="Text to search: a file, compressed or not, or a folder.")
]
Count = Annotated[int, typer.Option("-k", "--count", min=1, help="Number of neighbors.")]
Layer = Annotated[
    str | None,
    typer.Option(
        help="Layer to compare by: a number, top, mean or bottom; default: sense vectors."
    ),
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
    with working("loading PyTorch"):
        from relmo.elmo import Elmo
        from relmo.lab.probes.neighbors import find_neighbors
        from relmo.layers import parse_layers
        from relmo.training.run import Run

    if output is not None:
        Run(output).check_start(resume=False)
    by = None if layer is None else parse_layers(layer)
    with if_interrupted(NOTHING_WRITTEN):
        with working(f"loading {model}"):
            elmo = Elmo.from_pretrained(model)
        found = find_neighbors(
            elmo, word, sentence, corpus, layer=by, count=count, any_word=any_word, output=output
        )
    if not found.occurrences:
        note(
            f"{word!r} is in no other sentence of {corpus}; --any-word compares with all its words"
        )
    if as_json:
        say(found.to_dict(), as_json=True)
        return
    console = Console(soft_wrap=True, highlight=False)
    console.print(found.table(marks_words=not console.is_terminal))
    static = ", ".join(f"{w} {cosine:.3f}" for w, cosine in found.static)
    console.print(f"Nearest without context: {static}")


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

    with if_interrupted(f"interrupted; no file of the report in {output} is half written"):
        made = write_report(runs, output)
    rows = [
        ["report", made["output"]],
        ["records", f"{made['records']:,}"],
        ["findings", f"{made['findings_that_hold']} of the paper's {made['findings']} hold"],
        ["others", f"{made['others_that_hold']} of {made['others']} hold"],
    ]
    say(made, as_json, rows)


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
    with working("loading PyTorch"):
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
    with if_interrupted(NOTHING_WRITTEN):
        result = run_suite(suite, settings)
    if output is not None:
        write_result(output, result, shlex.join(["relmo", *sys.argv[1:]]))
    if as_json:
        say(result, as_json)
    else:
        typer.echo(as_text(result), nl=False)
