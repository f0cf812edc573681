"""Parquet: one row per token and layer, with columns line, position, token, layer, vector.

Rows are sorted by line, position, layer. `layer` is the layer's number; -1 is the mean of all.
`vector` is a plain list, of float32 or, where it was asked for, float16; some readers read
fixed-size lists and float16 differently or not at all. Lone surrogates in a token become U+FFFD,
because Parquet stores valid Unicode only.

An empty line has no row. The schema's metadata contains `relmo.num_lines`, so that empty lines can
be counted, and `relmo.fingerprint`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

from relmo.vectors.formats import Record, VectorFileInfo

GROUP_ROWS = 65_536
GROUP_BYTES = 16 * 2**20
"""A row group ends with the record that reaches either limit, which bounds the memory."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_COLUMNS = {
    "line": pa.int64(),
    "position": pa.int32(),
    "token": pa.string(),
    "layer": pa.int16(),
}


def write_parquet(records: Iterable[Record], info: VectorFileInfo, path: Path) -> None:
    """Write one row per token and layer, in row groups of bounded size."""
    fingerprint = json.dumps(info.fingerprint)
    metadata = {"relmo.num_lines": str(info.num_lines), "relmo.fingerprint": fingerprint}
    columns = {**_COLUMNS, "vector": pa.list_(pa.from_numpy_dtype(np.dtype(info.dtype)))}
    fields = [pa.field(*column, nullable=False) for column in columns.items()]
    schema = pa.schema(fields, metadata)
    small = list(_COLUMNS)  # vectors do not repeat
    options = {"use_dictionary": small, "write_statistics": small}
    with path.open("wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
        for group in _groups(records):
            writer.write_table(_rows(group, info, schema))


def stored_run(path: Path) -> list[object]:
    """The fingerprint, number of lines and dtype of a file."""
    schema = pq.read_schema(path)
    lines = int(schema.metadata[b"relmo.num_lines"])
    dtype = np.dtype(schema.field("vector").type.value_type.to_pandas_dtype()).name
    return [json.loads(schema.metadata[b"relmo.fingerprint"]), lines, dtype]


def _groups(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Collect records until they fill a row group."""
    group: list[Record] = []
    num_rows = num_bytes = 0
    for record in records:
        if not record.tokens:
            continue
        group.append(record)
        num_bytes += record.vectors.nbytes
        num_rows += len(record.tokens) * len(record.layers)
        if num_rows >= GROUP_ROWS or num_bytes >= GROUP_BYTES:
            yield group
            group, num_rows, num_bytes = [], 0, 0
    if group:
        yield group


def _rows(group: list[Record], info: VectorFileInfo, schema: pa.Schema) -> pa.Table:
    """The rows of some records: every token with all its layers."""
    num_layers, _, D = group[0].layers.shape
    lengths = [len(record.tokens) for record in group]
    positions = np.concatenate([np.arange(T, dtype=np.int32) for T in lengths])
    tokens = [_SURROGATES.sub("\ufffd", token) for record in group for token in record.tokens]
    by_token = [record.layers.swapaxes(0, 1) for record in group]  # each (T, layers, D)
    vectors = np.concatenate(by_token, dtype=np.dtype(info.dtype))
    offsets = np.arange(len(tokens) * num_layers + 1, dtype=np.int32) * D
    token_of_row = np.repeat(np.arange(len(tokens)), num_layers)
    columns = [
        pa.array(np.repeat([record.line for record in group], lengths)[token_of_row]),
        pa.array(positions[token_of_row]),
        pa.array(tokens, pa.string()).take(pa.array(token_of_row)),
        pa.array(np.tile(np.array(info.layer_labels, np.int16), len(tokens))),
        pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1))),
    ]
    return pa.Table.from_arrays(columns, schema=schema)
