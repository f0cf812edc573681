"""The embedding job: lines of text -> vectors on disk, streaming and resumable.

One input line is one sequence and one key; an empty line is a row without tokens. The job never
holds the corpus: a window of lines is embedded, appended to a journal, and forgotten.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from relmo.config import check_choice
from relmo.elmo import Elmo
from relmo.errors import Interrupted
from relmo.layers import LayerChoice, check_layers, layer_labels
from relmo.progress import Work
from relmo.runtime.runtime import AnyVectors
from relmo.types import VectorDtype
from relmo.vectors.formats import Record, VectorFileInfo, estimate_bytes, is_complete
from relmo.vectors.writer import VectorWriter, journal_of

SAMPLED_LINES, SAMPLED_EVERY, SAMPLED_CHARACTERS = 1000, 100, 10_000
"""Lines of which tokens are counted before a job starts, and how much of a line."""


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """What a job did."""

    output: str
    sentences: int
    """Lines in the output, those of an earlier run that was resumed included."""
    resumed: int
    """Lines that an earlier, interrupted run had done."""
    tokens: int
    """Tokens embedded by this run."""
    lines_with_replacements: int
    """Lines of this run that hold U+FFFD, which stands for bytes that were not UTF-8."""
    words_cut: int
    """Tokens of this run that were longer than the model's character limit."""
    seconds: float
    tokens_per_second: float


def embed_lines(
    elmo: Elmo,
    lines: Iterable[str],
    output: str | Path,
    *,
    layers: LayerChoice = "all",
    tokenized: bool = False,
    dtype: VectorDtype = "float32",
    resume: bool = False,
    batch_tokens: int | None = None,
    work: Work | None = None,
) -> EmbedReport:
    """Embed each line and write the vectors in the format that the output's suffix names.

    Args:
        elmo: the model.
        lines: one sequence each.
        output: OUT.h5, .npz, .parquet or .jsonl; it appears only when it is complete.
        layers: see `relmo.layers`.
        tokenized: lines are tokens separated by white space; otherwise the tokenizer splits them.
        dtype: of the vectors; "float16" halves the file.
        resume: continue an interrupted run of the same job.
        batch_tokens: padded tokens per batch; by default what suits the device.
        work: advanced by each line whose vectors are safe.
    """
    work = work or Work("lines")
    fingerprint = _fingerprint(elmo, layers, tokenized)
    check_layers(layers, elmo.num_layers)
    check_choice("dtype", dtype, get_args(VectorDtype))
    labels = layer_labels(layers, elmo.num_layers)
    with (
        VectorWriter(
            output, fingerprint, labels, dtype=dtype, width=elmo.width, resume=resume
        ) as writer,
        _saying_what_is_safe(writer),
    ):
        start = time.perf_counter()
        resumed = writer.done
        work.skip(resumed)
        todo = (text for line, text in enumerate(lines) if not writer.is_done(line, text))
        tokens = words_cut = replaced = 0
        split = partial(words_of_line, elmo, tokenized=tokenized)
        embed = partial(elmo.embed_stream, layers=layers, dtype=dtype, batch_tokens=batch_tokens)
        for record in _records(todo, split, embed, first=resumed):
            writer.append(record)
            work.advance()
            tokens += len(record.tokens)
            replaced += "\ufffd" in record.text
            words_cut += sum(map(elmo.runtime.is_cut, record.tokens))
        sentences = writer.done
        writer.finish()
    seconds = time.perf_counter() - start
    return EmbedReport(
        output=str(output),
        sentences=sentences,
        resumed=resumed,
        tokens=tokens,
        lines_with_replacements=replaced,
        words_cut=words_cut,
        seconds=round(seconds, 3),
        tokens_per_second=round(tokens / seconds, 1),
    )


def _fingerprint(elmo: Elmo, layers: LayerChoice, tokenized: bool) -> dict[str, object]:
    return {"model": elmo.fingerprint(), "layers": layers, "tokenized": tokenized}


def finished_job(
    elmo: Elmo,
    num_lines: int,
    output: Path,
    *,
    layers: LayerChoice = "all",
    tokenized: bool = False,
    dtype: VectorDtype = "float32",
) -> EmbedReport | None:
    """The report of a job of so many lines if its output is complete, as far as that tells."""
    labels = layer_labels(layers, elmo.num_layers)
    info = VectorFileInfo(_fingerprint(elmo, layers, tokenized), labels, num_lines, dtype)
    if journal_of(output).exists() or not is_complete(output, info):
        return None
    return EmbedReport(str(output), num_lines, num_lines, 0, 0, 0, 0.0, 0.0)


@contextmanager
def _saying_what_is_safe(writer: VectorWriter) -> Iterator[None]:
    """Raise Interrupted, which says how many lines are saved, on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt as error:
        if writer.done == 0:
            raise
        safe = f"interrupted; {writer.done:,} lines are saved in {writer.partial}"
        raise Interrupted(safe, can_resume=True, cause=error) from error


def words_of_line(elmo: Elmo, line: str, *, tokenized: bool) -> list[str]:
    """The tokens of a line: split at white space if it is tokenized, else by the tokenizer."""
    return line.split() if tokenized else [token.text for token in elmo.tokens(line)]


def _records(
    lines: Iterable[str],
    split: Callable[[str], list[str]],
    embed: Callable[[Iterable[list[str]]], Iterator[AnyVectors]],
    first: int,
) -> Iterator[Record]:
    waiting: deque[tuple[str, list[str]]] = deque()  # lines read ahead of their vectors

    def words() -> Iterator[list[str]]:
        for text in lines:
            waiting.append((text, split(text)))
            yield waiting[-1][1]

    for line, vectors in enumerate(embed(words()), start=first):
        text, tokens = waiting.popleft()
        yield Record(line=line, text=text, tokens=tokens, vectors=vectors)


@dataclass(frozen=True, slots=True)
class JobSize:
    """How much a job has to do and how large its output becomes, about."""

    lines: int
    tokens: int
    bytes: int


def estimate_job(
    elmo: Elmo,
    lines: Iterable[str],
    output: Path,
    *,
    layers: LayerChoice = "all",
    tokenized: bool = False,
    dtype: VectorDtype = "float32",
) -> JobSize:
    """Read all lines and tokenize some of them: a fast first pass."""
    num_lines = characters = seen = tokens = 0
    for line in lines:
        num_lines += 1
        characters += len(line)
        if num_lines <= SAMPLED_LINES or num_lines % SAMPLED_EVERY == 0:
            part = line[:SAMPLED_CHARACTERS]
            seen += len(part)
            tokens += len(words_of_line(elmo, part, tokenized=tokenized))
    tokens = round(tokens * characters / max(1, seen))
    values = tokens * len(layer_labels(layers, elmo.num_layers)) * elmo.width
    return JobSize(num_lines, tokens, estimate_bytes(output, num_lines, values, dtype))
