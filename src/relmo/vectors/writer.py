"""VectorWriter: records in, one vector file out, whatever happens in between.

    with VectorWriter("out.h5", fingerprint, layer_labels=[0, 1, 2], resume=True) as writer:
        for line, text in enumerate(lines):
            if not writer.is_done(line, text):
                writer.append(Record(line, text, tokens, vectors))
        writer.finish()

Records are kept in a journal, `out.h5.partial`. `finish` turns it into the output, which is written
under a hidden name and then renamed. So the output is complete or absent (or the old one), and
after a crash at any moment the same call with `resume` continues where the run stopped. Of an
output that is a link, the file that it points to is written, with the journal beside that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from relmo.errors import ConfigError, OutputError
from relmo.files import replacing
from relmo.types import VectorDtype
from relmo.vectors.formats import Record, VectorFileInfo, WriteVectors, find_format
from relmo.vectors.journal import Journal


class VectorWriter:
    """Writes a vector file, line by line.

    Everything that is known to fail is checked before any work: the suffix, the format's extra, the
    folder, another process that writes the same output.

    Args:
        path: The output; its suffix chooses the format.
        fingerprint: What the vectors are computed with (model, layers, tokenizer, …), as JSON.
            A run can only be resumed with the fingerprint it started with.
        layer_labels: The number of each layer of a record, in order; see `relmo.layers`.
        dtype: Of the vectors of every record.
        width: Of the vectors of every record; by default, that of the first one.
        resume: Continue the journal of an earlier run, if there is one; without it, a journal with
            records is an error, because it may contain hours of work.

    Raises:
        OutputError: The output cannot be written, or the journal belongs to another run.
        MissingExtra: The format needs a package that is not installed.
    """

    def __init__(
        self,
        path: str | Path,
        fingerprint: Mapping[str, object],
        layer_labels: Sequence[int],
        *,
        dtype: VectorDtype = "float32",
        width: int = 0,
        resume: bool = False,
    ) -> None:
        self._write = check_output(Path(path))  # whose name chooses the format
        self.path = Path(os.path.realpath(path))  # one output by whatever links it is named
        self._fingerprint, self._labels = fingerprint, list(layer_labels)
        self._dtype, self._width = dtype, width
        run = {**fingerprint, "layer_labels": self._labels, "dtype": dtype}
        self.partial = journal_of(self.path)
        """The journal, which holds the records until the output is complete."""
        self._journal = Journal(self.partial, run, resume=resume, check=self._check)

    @property
    def done(self) -> int:
        """The number of records in the journal: those of an earlier run and those appended."""
        return self._journal.num_records

    def is_done(self, line: int, text: str) -> bool:
        """Whether the run has passed this line. Ask about every line, in order.

        A line without a record that comes before the last record was skipped by the earlier run;
        it counts as done. Raises OutputError if the input has changed since that run.
        """
        return self._journal.is_done(line, text)

    def append(self, record: Record) -> None:
        """Add the next record. Lines may be skipped but must not go back."""
        self._check(record)
        self._journal.append(record)

    def _check(self, record: Record) -> None:
        """Raise OutputError unless a record has the layers, width and dtype of the others."""
        num_layers, _, D = record.layers.shape
        self._width = self._width or D
        if record.vectors.dtype != self._dtype:
            raise OutputError(
                f"line {record.line}: expected vectors in {self._dtype} like the others, got "
                f"{record.vectors.dtype}"
            )
        if self._dtype == "float16" and np.isinf(record.vectors).any():
            raise OutputError(
                f"line {record.line}: a value is beyond ±65,504, the range of float16; write "
                f"float32 instead"
            )
        if (num_layers, D) != (len(self._labels), self._width):  # formats would fail at the end
            raise OutputError(
                f"line {record.line}: expected {len(self._labels)} layers ({self._labels}) of "
                f"width {self._width} like the others, got {num_layers} of width {D}"
            )

    def finish(self) -> None:
        """Turn the journal into the output and delete it."""
        self._journal.all_checked()
        lines = self._journal.next_line
        info = VectorFileInfo(self._fingerprint, self._labels, lines, self._dtype)
        advice = f"fix that and resume; nothing is lost, the vectors are in {self._journal.path}"
        with replacing(self.path, advice) as temporary:
            self._journal.sync()
            self._write(self._journal.records(), info, temporary)
        self._journal.remove()

    def close(self) -> None:
        """Close the journal. Without `finish` it can be resumed; without records it is deleted."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def journal_of(path: Path) -> Path:
    """The journal of an output: beside the file that it is, or that it points to."""
    real = Path(os.path.realpath(path))
    return real.with_name(real.name + ".partial")


def check_output(path: Path) -> WriteVectors:
    """The format's writer for an output path; raises before any work if it cannot be used.

    Raises:
        ConfigError: The suffix is unknown, the path is a folder, a pipe or a device, or its folder
            does not exist.
        MissingExtra: The format needs a package that is not installed.
    """
    found = find_format(path)
    check_place(path)
    return found


def check_place(path: Path) -> None:
    """Raise ConfigError if no file can be written there: a folder, a pipe, or no such folder."""
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give a file name")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is a pipe or a device; give the name of a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent} is not a folder; create it, or choose another output")
