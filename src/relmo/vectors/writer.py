"""VectorWriter: records in, one file of vectors out, whatever happens in between.

    with VectorWriter("out.h5", fingerprint, layer_labels=[0, 1, 2], resume=True) as writer:
        for line, text in enumerate(lines):
            if not writer.is_done(line, text):
                writer.append(Record(line, text, tokens, vectors))
        writer.finish()

Records are kept in a journal, `out.h5.partial`. `finish` turns it into the output: written beside
it as `out.h5.tmp`, then renamed. So the output is whole or absent (or the old one), and after a
crash at any moment the same call with `resume` takes the run up where it stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from relmo.errors import ConfigError, OutputError
from relmo.files import replacing
from relmo.vectors.formats import About, Format, find_format
from relmo.vectors.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from relmo.vectors.record import Record


class VectorWriter:
    """Writes a file of vectors, line by line.

    Everything that can be known to fail is checked before any work: the suffix, the format's
    extra, the folder, another process at the same output.

    Args:
        path: The output; its suffix chooses the format.
        fingerprint: What makes the vectors (model, layers, tokenizer, …), as JSON can hold it.
            A run is resumed only with the fingerprint it began with.
        layer_labels: The number of each layer of a record, in order; [-1] for the mean.
        resume: Take up the journal of an earlier run, if there is one; without it, a journal with
            records is an error, since hours of work may be in it.

    Raises:
        OutputError: The output cannot be written, or the journal is of another run.
        MissingExtra: The format needs a package that is not installed.
    """

    def __init__(
        self,
        path: str | Path,
        fingerprint: Mapping[str, object],
        layer_labels: Sequence[int],
        *,
        resume: bool = False,
    ) -> None:
        self.path = Path(path)
        self._format = check_output(self.path)
        self._fingerprint, self._labels = fingerprint, list(layer_labels)
        self._width = 0
        run = {**fingerprint, "layer_labels": self._labels}
        partial = self.path.with_name(self.path.name + ".partial")
        self._journal = Journal(partial, run, resume=resume)

    @property
    def done(self) -> int:
        """Records in the journal: those taken up and those appended."""
        return self._journal.num_records

    def is_done(self, line: int, text: str) -> bool:
        """Whether the run has passed this line. Ask about every line, in order.

        A line before the last record that has none itself was left out by the earlier run, and is
        passed too.

        Raises:
            OutputError: The input is not the one the earlier run read.
        """
        return self._journal.is_done(line, text)

    def append(self, record: Record) -> None:
        """Add the next record. Lines may be left out but not go back."""
        self._check_shape(record)
        self._journal.append(record)

    def finish(self, progress: Callable[[int], object] | None = None) -> None:
        """Turn the journal into the output and delete it.

        Args:
            progress: Called with the number of records written so far, after each.
        """
        self._journal.all_checked()
        about = About(self._fingerprint, self._labels, self._journal.next_line)
        advice = f"mend that and resume; nothing is lost, {self._journal.path} holds the vectors"
        with replacing(self.path, advice) as temporary:
            self._journal.sync()
            self._format.write(self._records(progress), about, temporary)
        self._journal.remove()

    def close(self) -> None:
        """Let go. Without `finish` the journal stays to be resumed, unless it has no records."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_shape(self, record: Record) -> None:
        """Refuse now what a format could only refuse at the end."""
        num_layers, _, D = record.layers.shape
        self._width = self._width or D
        if (num_layers, D) != (len(self._labels), self._width):
            raise OutputError(
                f"line {record.line}: {num_layers} layers of width {D} came; this output holds "
                f"{len(self._labels)} ({self._labels}) of width {self._width}"
            )

    def _records(self, progress: Callable[[int], object] | None) -> Iterator[Record]:
        for count, record in enumerate(self._journal.records(), start=1):
            yield record
            if progress is not None:
                progress(count)


def check_output(path: Path) -> Format:
    """The format of an output that can be written there; else an error, before any work.

    Raises:
        ConfigError: The suffix names no format, or the place is a folder, or in none.
        MissingExtra: The format needs a package that is not installed.
    """
    found = find_format(path)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent} is not a folder; make it, or choose another output")
    return found
