"""Files become documents; what cannot be read is named by file and line."""

import os

import pytest

from relmo.errors import ConfigError
from relmo.search.documents import (
    BadRow,
    Document,
    TableColumns,
    find_sources,
    is_under,
    read_source,
)

openpyxl = pytest.importorskip("openpyxl", reason="pip install 'relmo[search]'")


def read(path, **columns):
    items = list(read_source(str(path), TableColumns(**columns)))
    good = [item for item in items if isinstance(item, Document)]
    return good, [(item.line, item.problem) for item in items if isinstance(item, BadRow)]


def test_a_text_file_is_one_document(tmp_path):
    path = tmp_path / "a.md"
    path.write_bytes(b"\xef\xbb\xbf# Title\r\n\r\nText \xc3\xa9.\n")
    (document,), bad = read(path)
    assert document.text == "# Title\r\n\r\nText é.\n"
    assert (document.key, document.source, bad) == (str(path), str(path), [])
    assert document.meta == {"path": str(path), "suffix": ".md"}


def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nbad \xff\n")
    assert read(path) == ([], [(2, "not UTF-8 (byte 0xff); convert the file")])


def test_a_file_that_went_away_is_a_bad_row(tmp_path):
    good, [(line, what)] = read(tmp_path / "gone.txt")
    assert not good
    assert line == 1
    assert "No such file" in what


def test_csv_rows_are_documents_with_the_lines_they_start_on(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text,year\nx,"two\nlines",1950\ny,short,01\nz,"a, b",-2.5\n')
    good, bad = read(path, id="id")
    assert not bad
    assert [d.key for d in good] == [f"{path}#{name}" for name in "xyz"]
    assert [d.text for d in good] == ["two\nlines", "short", "a, b"]
    assert [d.line for d in good] == [2, 4, 5]
    assert [d.meta["year"] for d in good] == [1950, "01", -2.5]
    assert all(d.is_row for d in good)


def test_bad_csv_rows_are_named_and_the_others_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n1,good\n2\n3,caf\xe9\n1,again\n,none\n5,a,b\n\n6,last\n")
    good, bad = read(path, id="id")
    assert [d.text for d in good] == ["good", "last"]
    assert [line for line, _ in bad] == [3, 4, 5, 6, 7]
    assert "expected 2 cells as in the header, got 1" in bad[0][1]
    assert "UTF-8" in bad[1][1]
    assert "duplicate id '1'" in bad[2][1]
    assert "empty" in bad[3][1]


def test_a_quote_that_breaks_the_rules_is_one_bad_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text\n"a" b\ngood\n')
    good, [(line, what)] = read(path)
    assert [d.text for d in good] == ["good"]
    assert line == 2
    assert "not valid CSV" in what


def test_tsv_and_several_text_columns(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("title\tbody\tlang\tsize\nA\tb c\ten\t3\n")
    (document,), _ = read(path, text=("title", "body"), meta=("lang",))
    assert document.text == "A\nb c"
    assert document.meta == {"lang": "en"}
    assert document.key == f"{path}#1"


def test_a_missing_column_is_reported_with_the_existing_ones(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("title,body\nA,b\nC,d\n")
    said = "no column 'text'; columns are: title, body"
    assert read(path) == ([], [(1, said)])  # once, not for each row


def test_semicolons_separate_where_the_header_has_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfid;text;rate\n1;a, b;2,5\n")
    (document,), bad = read(path, id="id")
    assert (document.text, document.meta, bad) == ("a, b", {"id": 1, "rate": "2,5"}, [])


def test_jsonl_rows_and_what_is_wrong_with_them(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [
        b'{"_id": "a", "text": "one", "n": 1, "deep": {"x": 1}, "no": null, "yes": true}',
        b"",
        b"{broken",
        b"[1]",
        b'{"text": ["list"]}',
        b'{"text": "\\ud800"}',
        b'{"text": "x", "n": NaN}',
        b"\xff",
        b"[" * 100_000,
        b'{"text": 7}',
    ]
    path.write_bytes(b"\n".join(lines))
    good, bad = read(path)
    assert [d.text for d in good] == ["one", "7"]
    assert good[0].meta == {"_id": "a", "n": 1, "no": None, "yes": True}
    assert [line for line, _ in bad] == [3, 4, 5, 6, 7, 8, 9]


def test_spreadsheets_are_read_from_their_first_sheet(tmp_path):
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    for row in (["text", "year", None], ["one", 1950, "x"], [None, None], ["two", None]):
        book.active.append(row)
    book.save(path)
    good, bad = read(path)
    assert [(d.text, d.line, dict(d.meta)) for d in good] == [
        ("one", 2, {"year": 1950}),
        ("two", 4, {"year": None}),
    ]
    assert not bad


def test_a_broken_spreadsheet_is_a_bad_row(tmp_path):
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"PK no")
    assert "not valid XLSX" in read(path)[1][0][1]


def test_folders_are_searched_and_hidden_or_other_files_left_out(tmp_path):
    for name in ("b.md", "a/c.txt", ".git/x.txt", "a/.d.md", "e.py", "T.CSV"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    found = [os.path.relpath(each, tmp_path) for each in find_sources([tmp_path, tmp_path / "a"])]
    assert found == ["T.CSV", "a/c.txt", "b.md"]


def test_unsupported_and_missing_paths_are_errors(tmp_path):
    (tmp_path / "a.pdf").write_text("x")
    with pytest.raises(ConfigError, match="cannot read '.pdf'"):
        find_sources([tmp_path / "a.pdf"])
    with pytest.raises(ConfigError, match="no such file"):
        find_sources([tmp_path / "b"])


def test_what_lies_under_a_path():
    assert is_under("a/b.txt", ["a"])
    assert is_under("a/b.txt", ["./a/"])
    assert not is_under("ab/b.txt", ["a"])
    assert is_under("x.txt", ["."])


def test_a_table_needs_a_text_column():
    with pytest.raises(ConfigError, match="no text column"):
        TableColumns(text=())
