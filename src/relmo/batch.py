"""The embedding job: lines of text -> vectors on disk, streaming and resumable.

One input line is one sequence and one key; an empty line is a row without tokens. The job never
holds the corpus: a window of lines is embedded, appended to a journal, and forgotten.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from relmo.elmo import Elmo
from relmo.errors import Interrupted
from relmo.layers import LayerChoice, check_layers, layer_labels
from relmo.vectors.formats import Record
from relmo.vectors.writer import VectorWriter


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
    output: Path,
    *,
    layers: LayerChoice = "all",
    tokenized: bool = False,
    resume: bool = False,
    batch_tokens: int | None = None,
) -> EmbedReport:
    """Embed each line and write the vectors in the format that the output's suffix names.

    Args:
        elmo: the model.
        lines: one sequence each.
        output: OUT.h5, .npz, .parquet or .jsonl; it appears only when it is complete.
        layers: see `relmo.layers`.
        tokenized: lines are tokens separated by white space; otherwise the tokenizer splits them.
        resume: continue an interrupted run of the same job.
        batch_tokens: padded tokens per batch; by default what suits the device.
    """
    fingerprint = {"model": elmo.fingerprint(), "layers": layers, "tokenized": tokenized}
    check_layers(layers, elmo.config.num_layers)
    labels = layer_labels(layers, elmo.config.num_layers)
    with (
        VectorWriter(output, fingerprint, labels, resume=resume) as writer,
        _saying_what_is_safe(writer),
    ):
        start = time.perf_counter()
        resumed = writer.done
        todo = (text for line, text in enumerate(lines) if not writer.is_done(line, text))
        tokens = words_cut = replaced = 0
        for record in _records(elmo, todo, layers, tokenized, batch_tokens, first=resumed):
            writer.append(record)
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


def _records(
    elmo: Elmo,
    lines: Iterable[str],
    layers: LayerChoice,
    tokenized: bool,
    batch_tokens: int | None,
    first: int,
) -> Iterator[Record]:
    waiting: deque[tuple[str, list[str]]] = deque()  # lines read ahead of their vectors

    def words() -> Iterator[list[str]]:
        for text in lines:
            words = text.split() if tokenized else [token.text for token in elmo.tokens(text)]
            waiting.append((text, words))
            yield words

    stream = elmo.embed_stream(words(), layers=layers, batch_tokens=batch_tokens)
    for line, vectors in enumerate(stream, start=first):
        text, tokens = waiting.popleft()
        yield Record(line=line, text=text, tokens=tokens, vectors=vectors)
