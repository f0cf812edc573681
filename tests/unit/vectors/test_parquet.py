"""Parquet: one row per token and layer."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from relmo.vectors import parquet
from relmo.vectors.formats import Record, VectorFileInfo


def write(path, records, labels=(0, 1), num_lines=9):
    parquet.write_parquet(records, VectorFileInfo({"model": "m"}, labels, num_lines), path)
    return pq.ParquetFile(path)


def record(line, tokens, num_layers=2):
    vectors = np.arange(num_layers * len(tokens) * 2, dtype=np.float32)
    return Record(line, "", tokens, vectors.reshape(num_layers, len(tokens), 2))


def test_rows_go_by_line_position_and_layer(tmp_path):
    file = write(tmp_path / "out.parquet", [record(0, ["a", "b"]), record(4, ["c"])])
    rows = [tuple(row.values()) for row in file.read().to_pylist()]
    assert rows == [
        (0, 0, "a", 0, [0, 1]),
        (0, 0, "a", 1, [4, 5]),
        (0, 1, "b", 0, [2, 3]),
        (0, 1, "b", 1, [6, 7]),
        (4, 0, "c", 0, [0, 1]),
        (4, 0, "c", 1, [2, 3]),
    ]


def test_columns_have_plain_types(tmp_path):
    schema = write(tmp_path / "out.parquet", [record(0, ["a"])]).schema_arrow
    assert schema.names == ["line", "position", "token", "layer", "vector"]
    assert schema.types[:4] == [pa.int64(), pa.int32(), pa.string(), pa.int16()]
    assert schema.types[4].value_type == pa.float32()


def test_half_precision_is_stored_as_such_where_it_was_asked_for(tmp_path):
    one = Record(0, "", ["a"], np.array([[0.1, 65504]], np.float16))
    info = VectorFileInfo({}, [0], 1, "float16")
    parquet.write_parquet([one], info, tmp_path / "half.parquet")
    column = pq.read_table(tmp_path / "half.parquet")["vector"].combine_chunks()
    assert column.type.value_type == pa.float16()
    assert column.values.to_numpy().tobytes() == one.vectors.tobytes()


def test_one_layer_keeps_its_number(tmp_path):
    one = Record(0, "", ["a"], np.ones((1, 2), np.float16))
    assert write(tmp_path / "top.parquet", [one], [2]).read()["layer"].to_pylist() == [2]
    assert write(tmp_path / "mean.parquet", [one], [-1]).read()["layer"].to_pylist() == [-1]


def test_empty_lines_are_counted_though_they_have_no_rows(tmp_path):
    file = write(
        tmp_path / "out.parquet", [record(0, []), record(1, ["a"]), record(2, [])], (0, 1), 3
    )
    assert file.metadata.num_rows == 2
    assert file.schema_arrow.metadata[b"relmo.num_lines"] == b"3"


def test_the_file_says_what_made_it(tmp_path):
    file = write(tmp_path / "out.parquet", [])
    assert json.loads(file.schema_arrow.metadata[b"relmo.fingerprint"]) == {"model": "m"}


def test_lone_surrogates_are_replaced(tmp_path):
    file = write(tmp_path / "out.parquet", [record(0, ["a\ud800b", "🙂", "x\0y"])], (0, 1))
    assert file.read()["token"].to_pylist()[::2] == ["a\ufffdb", "🙂", "x\0y"]


def test_row_groups_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 64)
    file = write(tmp_path / "bytes.parquet", [record(i, ["a", "b"]) for i in range(10)])
    assert file.num_row_groups == 5  # 32 bytes a record
    monkeypatch.setattr(parquet, "GROUP_ROWS", 4)
    file = write(tmp_path / "rows.parquet", [record(i, ["a", "b"]) for i in range(10)])
    assert file.num_row_groups == 10
