"""Models and vectors: relmo embed, models, info, convert, pretrain and perplexity."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, get_args

import typer

from relmo.cli.shared import (
    DEFAULT_MODEL,
    NOTHING_WRITTEN,
    AsJson,
    AsJsonLines,
    Changes,
    Model,
    Precision,
    Resume,
    count_text,
    if_interrupted,
    note,
    say,
    say_json,
    say_line,
    say_rows,
    size_text,
)
from relmo.errors import ConfigError, TextError, WeightError
from relmo.progress import duration, progress, working
from relmo.training.recipe import read_recipe
from relmo.types import VectorDtype

if TYPE_CHECKING:
    from relmo.batch import EmbedReport, JobSize
    from relmo.elmo import Elmo


class OnError(Enum):
    """How to treat invalid UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|-", help="Text files, one sequence per line; - for standard input."
    ),
]
VectorFile = Annotated[
    Path, typer.Option("--output", "-o", help="Output file: .h5, .npz, .parquet or .jsonl.")
]
Layers = Annotated[
    str, typer.Option(help="all, mean, top, bottom (mean of 0 and 1) or a layer number.")
]
Tokenized = Annotated[
    bool, typer.Option("--tokenized", help="Split lines at whitespace instead of tokenizing.")
]
Dtype = Annotated[
    str, typer.Option(help="Stored vectors: float32, or float16 (half the size, 3 digits).")
]
OnBadBytes = Annotated[
    OnError, typer.Option(help="On invalid UTF-8: strict stops, replace inserts U+FFFD.")
]
ResumeEmbedding = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted run of the same command.")
]

LARGE = 10**9
"""Bytes of an output from which on half the size is worth a hint."""


def embed(
    files: Files,
    output: VectorFile,
    model: Model = DEFAULT_MODEL,
    layers: Layers = "all",
    tokenized: Tokenized = False,
    precision: Precision = "float32",
    dtype: Dtype = "float32",
    errors: OnBadBytes = OnError.STRICT,
    resume: ResumeEmbedding = False,
    as_json: AsJson = False,
) -> None:
    """Compute word vectors for text; each line is one sequence, stored under its line number."""
    from relmo.config import check_choice
    from relmo.layers import check_layers, parse_layers
    from relmo.text.documents import read_files
    from relmo.vectors.writer import check_output, journal_of

    sources = list(_sources(files))
    check_output(output)
    check_choice("dtype", dtype, get_args(VectorDtype))
    chosen = parse_layers(layers)
    is_replaced = output.exists()
    if any(isinstance(each, Path) and is_replaced and each.samefile(output) for each in sources):
        raise ConfigError(f"{output} is also an input; choose another output")
    with working("loading PyTorch"):
        from relmo.batch import embed_lines, estimate_job, finished_job
        from relmo.elmo import Elmo
        from relmo.weights.find import UNTRAINED
    with working(f"loading {model}"):
        elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
    check_layers(chosen, elmo.config.num_layers)
    if elmo.config.name == UNTRAINED:
        note(f"{UNTRAINED} has random weights, so its vectors are meaningless; omit --model")
    job: dict[str, Any] = {"layers": chosen, "tokenized": tokenized, "dtype": dtype}
    total = None
    paths = [source for source in sources if isinstance(source, Path) and source.is_file()]
    if len(paths) == len(sources):  # not a pipe
        # Reading the files once also finds invalid bytes before hours of work.
        with working("reading the input once"):
            size = estimate_job(elmo, read_files(sources, errors.value), output, **job)
        total = size.lines
        is_newer = is_replaced and all(p.stat().st_mtime <= output.stat().st_mtime for p in paths)
        if resume and is_newer and (done := finished_job(elmo, total, output, **job)):
            note(f"{output} is complete; nothing to resume")
            say(asdict(done), as_json)
            return
        _say_size(size, elmo, output, dtype)
    if resume and not is_replaced and not journal_of(output).exists():
        note(f"there is no interrupted run of {output}; it begins from the start")
    with working("lines", total) as work:
        lines = read_files(sources, errors.value)
        report = embed_lines(elmo, lines, output, **job, resume=resume, work=work)
    if errors is OnError.REPLACE and (replaced := report.lines_with_replacements):
        note(f"{replaced} lines contain U+FFFD, from invalid UTF-8 or already in the input")
    if not report.sentences:
        note(f"the input is empty, and so is {output}")
    if is_replaced:
        note(f"{output} existed and was replaced")
    say(asdict(report), as_json, _embedding_rows(report))


def _embedding_rows(report: EmbedReport) -> list[list[str]]:
    speed = f"{duration(report.seconds)}, {report.tokens_per_second:,.0f} tokens per second"
    rows = [["output", report.output], ["lines", f"{report.sentences:,}"]]
    if report.resumed:
        rows.append(["resumed", f"{count_text(report.resumed, 'line')} were done before"])
    rows += [["tokens", f"{report.tokens:,}"], ["time", speed]]
    if report.words_cut:
        rows.append(["cut", f"{count_text(report.words_cut, 'word')} longer than the model reads"])
    return rows


def _say_size(size: JobSize, elmo: Elmo, output: Path, dtype: str) -> None:
    """Say how large the output becomes, and whether the disk has room for it."""
    from shutil import disk_usage

    hint = "; --dtype float16 halves it" if size.bytes > LARGE and dtype == "float32" else ""
    note(
        f"output: about {size_text(size.bytes)} for {size.lines:,} lines, about {size.tokens:,} "
        f"tokens, width {elmo.width}, {dtype}{hint}"
    )
    free = disk_usage(output.resolve().parent).free
    if free < 2 * size.bytes:
        note(
            f"only {size_text(free)} are free on that disk; until the output is complete its "
            f"vectors are also kept in {output.name}.partial, so about "
            f"{size_text(2 * size.bytes)} are needed"
        )


def _sources(files: list[str]) -> Iterator[Path | BinaryIO]:
    if files.count("-") > 1:
        raise ConfigError("standard input (-) can be given only once")
    for file in files:
        if file == "-":
            if sys.stdin is None:
                raise ConfigError("standard input is closed; give a file")
            yield sys.stdin.buffer
        elif Path(file).is_dir():
            raise ConfigError(f"{file}: is a folder; expected text files")
        elif not Path(file).exists():
            raise ConfigError(f"{file}: no such file")
        else:
            yield Path(file)


Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every setting, the training record and files.")
]


def info(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Model name or folder.")
    ] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Show sizes, training record, license, fingerprint and checksums of an ELMo or task model."""
    if model is None:
        raise ConfigError("give the name or folder of a model; `relmo models` lists the installed")
    from relmo.cli.model_tables import differing, show_model, show_task
    from relmo.tasks.installed import describe_task
    from relmo.weights.find import UNTRAINED, describe_model, find_model, is_task_model

    is_task = model != UNTRAINED and is_task_model(find_model(model))
    facts = describe_task(model) if is_task else describe_model(model)
    if as_json:
        say(facts, as_json)
    elif is_task:
        show_task(facts, verbose=verbose)
    else:
        show_model(facts, verbose=verbose)
    if wrong := differing(facts.get("files", {})):
        raise WeightError(
            f"{facts['folder']}: {wrong[0]} does not match its checksum; copy the model again"
        )


def models(as_json: AsJson = False) -> None:
    """List the installed models, ELMos and task models, which need no path."""
    from relmo.cli.model_tables import show_models, show_tasks
    from relmo.tasks.installed import installed_tasks
    from relmo.weights.installed import installed_models

    found, tasks = installed_models(), installed_tasks()
    if as_json:
        said = {"models": [asdict(each) for each in found], "tasks": [asdict(t) for t in tasks]}
        say(said, as_json)
        return
    show_models(found)
    if tasks:
        typer.echo()
        show_tasks(tasks)


Source = Annotated[str, typer.Argument(metavar="SRC", help="Model name or folder.")]
Target = Annotated[Path, typer.Argument(metavar="DST", help="Output folder; created if missing.")]
To = Annotated[str, typer.Option("--to", help="native, or hdf5 (the official format).")]
Storage = Annotated[
    str, typer.Option(help="Native only: float32, or int8 (a quarter of the size).")
]
ShardMb = Annotated[int | None, typer.Option(help="Native only: maximum size of a file in MB.")]


def convert(
    source: Source,
    target: Target,
    to: To,
    storage: Storage = "float32",
    shard_mb: ShardMb = None,
    as_json: AsJson = False,
) -> None:
    """Convert a model to another file format; weights stay exact unless stored as int8."""
    with working("loading PyTorch"):
        from relmo.cli.model_tables import show_conversion
        from relmo.weights.find import convert_model, describe_folder

    safe = f"interrupted; no file in {target} is half written, but some may be missing"
    with if_interrupted(safe), working(f"converting {source}"):
        report = convert_model(source, target, to, shard_mb, storage)  # type: ignore[arg-type]
    for loss in report.lost:
        note(loss)
    if as_json:
        say(asdict(report), as_json)
    else:
        show_conversion(report, describe_folder(target))


Recipe = Annotated[
    str, typer.Option(help="Recipe: tiny, small, base, tune (with --init), or a TOML file.")
]
Data = Annotated[list[str], typer.Option(help="Text files, folders or globs; repeatable.")]
RunFolder = Annotated[Path, typer.Option(help="Folder of the run; the model goes to OUTPUT/model.")]
Minutes = Annotated[
    float | None, typer.Option(help="Fit the whole training schedule into this time.")
]
Init = Annotated[
    str | None, typer.Option(help="Name or folder of a model to fine-tune instead of a new one.")
]
TeacherName = Annotated[
    str | None,
    typer.Option(
        "--teacher", help="Name or folder of a larger model, whose predictions are learned, too."
    ),
]
Cache = Annotated[Path | None, typer.Option(help="Folder for the tokenized text.")]
ModelStorage = Annotated[
    str,
    typer.Option("--storage", help="Stored weights: float32, or int8 (a quarter of the size)."),
]


def pretrain(
    recipe: Recipe,
    data: Data,
    output: RunFolder,
    minutes: Minutes = None,
    set_: Changes = None,
    resume: Resume = False,
    init: Init = None,
    teacher: TeacherName = None,
    cache: Cache = None,
    storage: ModelStorage = "float32",
    as_json: AsJsonLines = False,
) -> None:
    """Pretrain a model on plain text, fine-tune one (--init) or distill one (--teacher)."""
    read_recipe("pretrain", recipe, set_ or [])  # errors first: loading PyTorch takes seconds
    with working("loading PyTorch"):
        from relmo.tasks.lm.pretrain import pretrain as run
        from relmo.tasks.lm.settings import load_recipe
        from relmo.training.distributed import is_main_process
        from relmo.weights.find import read_model

    scores = run(
        load_recipe(recipe, set_ or [], minutes),
        data,
        output,
        resume=resume,
        init=None if init is None else read_model(init),
        teacher=None if teacher is None else read_model(teacher),
        cache_folder=cache,
        storage=storage,  # type: ignore[arg-type]
        report=say_json if as_json else _as_line,
    )
    if not as_json and is_main_process():
        say_rows([*_perplexity_rows(scores), *_model_rows(output / "model")])


def _model_rows(model: Path) -> list[list[str]]:
    use = shlex.join(["relmo", "embed", "FILE", "-o", "vectors.h5", "--model", str(model)])
    return [["model", str(model)], ["next", use]]


FEW_HELD_OUT = 2000
"""Tokens; the perplexity of fewer is a rough estimate."""


def _as_line(values: dict[str, Any]) -> None:
    if "corpus" in values:
        counts, step = values["corpus"], values["sizes"]
        is_rough = 0 < counts["held_out"] < FEW_HELD_OUT
        rough = " (few, so their perplexity is a rough estimate)" if is_rough else ""
        note(
            f"{counts['train']:,} tokens to train on, {counts['held_out']:,} held out{rough}, "
            f"the vocabulary covers {values['coverage']:.2%}"
        )
        note(
            f"a step is {step['rows']:,} rows of {step['window']} tokens against "
            f"{step['negatives']:,} negatives; about {step['memory'] / 1e9:.1f} GB are needed"
        )
        return
    if "before" in values:
        _say_before(values["before"])
        return
    say_line(values)


def _say_before(scores: dict[str, float]) -> None:
    if not scores:
        note(
            "no text is held out, so before and after cannot be compared: give more than one line "
            "of text, and leave data.held_out above 0"
        )
        return
    mean, bits = (scores.get(f"held_out_{n}_before") for n in ("mean", "bits_per_character"))
    each = "" if bits is None else f", {bits:,.4g} bits per character"
    note(f"held-out text before fine-tuning: perplexity {mean:,.4g}{each}")


class FromStart(Enum):
    """LSTM state at the start of a sentence."""

    ZERO = "zero"
    STORED = "stored"
    CARRIED = "carried"


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Text file or folder; a blank line ends a document."),
]
Start = Annotated[
    FromStart,
    typer.Option(
        help="LSTM state at the start of a sentence: carried over in a document, stored, or zero."
    ),
]


def perplexity(
    file: File,
    model: Model = DEFAULT_MODEL,
    start: Start = FromStart.CARRIED,
    as_json: AsJson = False,
) -> None:
    """Compute the perplexity of a text under the forward and backward language model."""
    if not file.exists():
        raise ConfigError(f"{file}: no such file")
    with working("loading PyTorch"):
        from relmo.elmo import Elmo
        from relmo.text.documents import find_files, read_documents

    with if_interrupted(NOTHING_WRITTEN):
        with working(f"loading {model}"):
            elmo = Elmo.from_pretrained(model)
            lm = elmo.lm
        with working(f"reading {file}"):
            documents = [d for path in find_files([file]) for d in read_documents(path)]
        shown = progress(documents, len(documents), "documents split", show=True)
        split = [elmo.sentences(document) for document in shown]
        if not any(words for document in split for words in document):
            raise TextError(f"{file}: contains no words")
        with working("scoring the text"):
            characters = sum(len(line) + 1 for document in documents for line in document)
            found = lm.perplexity(split, start.value, characters=characters)
    say(asdict(found), as_json, _perplexity_rows(asdict(found)))


PERPLEXITY_ROWS = {
    "mean": ("perplexity", "{:,.2f}", ", the mean of both directions"),
    "forward": ("forward", "{:,.2f}", ""),
    "backward": ("backward", "{:,.2f}", ""),
    "tokens": ("tokens", "{:,}", " scored, ends of sentences included"),
    "unknown_rate": ("unknown", "{:.2%}", " of the words are outside the vocabulary"),
    "bits_per_character": ("per character", "{:.3f}", " bits"),
}
"""Scores of held-out text, without that prefix -> heading, value and unit for people."""


def _perplexity_rows(scores: Mapping[str, float]) -> list[list[str]]:
    """Perplexity and what belongs to it; of a fine-tuned model before and after: 111.25 → 69.44."""
    found = {name.removeprefix("held_out_"): value for name, value in scores.items()}
    rows = []
    for name, (title, form, unit) in PERPLEXITY_ROWS.items():
        values = [found[key] for key in (f"{name}_before", name) if found.get(key) is not None]
        if name in found and values:
            rows.append([title, " → ".join(map(form.format, values)) + unit])
    return rows
