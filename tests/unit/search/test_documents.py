"""Files become documents, and documents passages; bad rows are named by file and line."""

import json
import os
import textwrap
import tracemalloc
import zipfile
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relmo import errors
from relmo.errors import ConfigError, MissingExtra, TextError
from relmo.search import documents
from relmo.search.documents import (
    BadRow,
    Document,
    Skipped,
    TableColumns,
    find_sources,
    is_under,
    read_source,
    split_paragraphs,
    split_passages,
)
from relmo.search.settings import PassageUnit
from relmo.text.lines import split_lines

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


@pytest.mark.parametrize(("count", "named"), [(0, None), (1, "'B 0'"), (7, "'B 4' and 2 more")])
def test_sheets_that_are_not_read_are_named(tmp_path, count, named):
    path, book, notes = tmp_path / "a.xlsx", openpyxl.Workbook(), []
    book.active.title = "A"
    for number in range(count):
        book.create_sheet(f"B {number}").append(["text"])
    for row in (["text"], ["one"]):
        book["A"].append(row)
    book.save(path)
    assert [d.text for d in read_source(str(path), TableColumns(), note=notes.append)] == ["one"]
    assert len(notes) == bool(count)
    for note in notes:
        assert note.startswith(f"{path}: only the sheet 'A' is read, not 'B 0'")
        assert note.endswith(named)


def test_a_broken_spreadsheet_is_a_bad_row(tmp_path):
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"PK no")
    assert "not valid XLSX" in read(path)[1][0][1]


def xlsx(path, sheet, **others):
    """A spreadsheet with this XML in its first sheet."""
    book = openpyxl.Workbook()
    book.active.append(["text"])
    book.save(path)
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    name = "xl/worksheets/sheet1.xml"
    start = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    parts[name] = start + sheet.encode() + b"</worksheet>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in parts.items():
            packed.writestr(name, data)


def cell(at, text):
    return f'<c r="{at}" t="inlineStr"><is><t>{text}</t></is></c>'


def test_what_a_spreadsheet_declares_costs_nothing(tmp_path):
    path = tmp_path / "a.xlsx"
    first = f'<row r="1">{cell("A1", "text")}</row><row r="3">{cell("A3", "one")}</row>'
    xlsx(path, f'<dimension ref="A1:ZZZ2000000000"/><sheetData>{first}</sheetData>')
    good, bad = read(path)
    assert [(d.text, d.line) for d in good] == [("one", 3)]
    assert not bad
    far = f'<row r="2000000000">{cell("A2000000000", "far")}</row>'
    xlsx(path, f"<sheetData>{first}{far}</sheetData>")
    good, [(line, what)] = read(path)
    assert [d.text for d in good] == ["one"]
    assert line == 1_048_577
    assert "at most 1,048,576 rows" in what


def test_a_spreadsheet_that_unpacks_to_very_much_is_not_unpacked(tmp_path):
    path = tmp_path / "a.xlsx"
    rows = f'<row r="1">{cell("A1", "text")}</row>' + " " * 3_000_000
    xlsx(path, f"<sheetData>{rows}</sheetData>")
    assert path.stat().st_size < 20_000
    items = list(read_source(str(path), TableColumns(), 500_000))
    ((line, what),) = [(each.line, each.problem) for each in items]
    assert line == 1
    assert what.startswith("unpacked to 3,")
    assert "more than 2,500,000 bytes" in what
    assert "--max-megabytes" in what


def test_a_spreadsheet_damaged_in_the_middle_is_a_bad_row(tmp_path):
    path = tmp_path / "a.xlsx"
    rows = f'<row r="1">{cell("A1", "text")}</row><row r="2">{cell("A2", "one")}</row>'
    xlsx(path, f"<sheetData>{rows}<row></sheetData>")
    good, bad = read(path)
    assert len(good) <= 1
    assert "not valid XLSX" in bad[0][1]


def test_spreadsheets_need_openpyxl_and_not_a_stemmer(tmp_path, monkeypatch):
    path = tmp_path / "a.xlsx"
    monkeypatch.setattr(errors, "find_spec", lambda module: None if module == "openpyxl" else True)
    with pytest.raises(MissingExtra, match=r"openpyxl.*relmo\[search\]"):
        read(path)


@pytest.mark.parametrize("suffix", ["txt", "csv", "jsonl", "xlsx"])
def test_a_document_beyond_the_limit_is_a_bad_row_and_the_next_is_read(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    long = "x" * 20_000
    if suffix == "txt":
        path.write_text(long)
    elif suffix == "csv":
        path.write_text(f'text\n"one"\n"{long}"\ntwo\n"{"a" * 600}\n{"b" * 600}"\nthree\n')
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps({"text": t}) + "\n" for t in ("one", long, "two")))
    else:
        book = openpyxl.Workbook()
        for text in ("text", "one", long, "two"):
            book.active.append([text])
        book.save(path)
    limit = 15_000 if suffix == "xlsx" else 1000  # other parts of a spreadsheet are as long
    items = list(read_source(str(path), TableColumns(), limit))
    texts = [each.text for each in items if isinstance(each, Document)]
    bad = [(each.line, each.problem) for each in items if isinstance(each, BadRow)]
    line = {"txt": 1, "jsonl": 2}.get(suffix, 3)
    assert bad[0][0] == line
    assert f"more than {limit:,} bytes" in bad[0][1]
    assert "--max-megabytes" in bad[0][1]
    wanted = {"txt": [], "csv": ["one", "two", "three"]}.get(suffix, ["one", "two"])
    assert [text for text in texts if text] == wanted


def test_memory_for_a_long_line_is_a_small_multiple_of_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("word " * 100_000)  # one sentence
    tracemalloc.start()
    (document,), _ = read(path)
    assert len(split_passages(document, "auto", 512)) == 196
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * 500_000


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "jsonl"])
def test_two_columns_of_one_name_are_named(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    if suffix == "csv":
        path.write_text("text,year,text\none,1950,two\n")
    elif suffix == "xlsx":
        book = openpyxl.Workbook()
        book.active.append(["text", "year", "text"])
        book.active.append(["one", 1950, "two"])
        book.save(path)
    else:
        path.write_text('{"text": "one", "text": "two"}\n')
    good, [(line, what)] = read(path)
    assert not good
    assert line == 1
    assert "'text'" in what


def test_columns_without_a_name_may_be_several(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,,\none,1,2\n")
    assert [d.text for d in read(path)[0]] == ["one"]


def test_links_are_followed_inside_a_folder_and_skipped_where_they_leave_it(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for each in (outside, folder / "sub"):
        each.mkdir(parents=True)
        (each / "a.txt").write_text("text")
    (folder / "in.txt").symlink_to("sub/a.txt")
    (folder / "out.txt").symlink_to(outside / "a.txt")
    (folder / "up.txt").symlink_to("../outside/a.txt")
    (folder / "far").symlink_to(outside)
    (folder / "near").symlink_to("sub")
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "around").symlink_to(".")
    (folder / "gone.md").symlink_to("nowhere.md")
    skipped: list[Skipped] = []
    found = find_sources([folder], skipped.append)
    assert [os.path.relpath(each, folder) for each in found] == ["in.txt", "sub/a.txt"]
    names = {os.path.relpath(each.source, folder): each for each in skipped}
    assert set(names) == {"out.txt", "up.txt", "far", "loop.txt", "gone.md"}
    assert f"a link that leaves {folder}, to {outside}" in str(names["far"])
    assert "Too many levels" in str(names["loop.txt"])
    assert find_sources([folder / "out.txt"]) == [str(folder / "out.txt")]  # asked for by name


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


# ── passages ──────────────────────────────────────────────────────────────────────────────────────

TEXT = "One two. Three four five.\n\nSix.\nSeven eight nine ten eleven twelve. Thirteen."
FIRST = "The bank raised its rates in May. It was the third time in a year, and savers were glad."
SECOND = "Nobody at the river noticed. The fish jumped, and the boats went by as they always had."


def texts(text: str, unit: str, max_words: int = 5) -> list[str]:
    return [passage.text for passage in split_passages(Document("d", "d", text), unit, max_words)]


def test_a_window_holds_as_many_sentences_as_fit():
    assert texts("One. Two. Three.", "window", 2) == ["One. Two.", "Three."]
    assert texts(TEXT, "window", 100) == [TEXT]


def test_a_sentence_is_a_passage_and_a_long_one_is_cut_evenly():
    found = texts(TEXT, "sentence")
    assert found[:3] == ["One two.", "Three four five.", "Six."]
    assert found[3:] == ["Seven eight nine", "ten eleven twelve.", "Thirteen."]


def test_a_paragraph_is_a_passage_and_a_long_one_is_packed():
    text = "One two three four.\n\nFive six seven eight nine. Ten. Eleven twelve.\n"
    assert texts(text, "paragraph", 100) == ["One two three four.", text[21:-1]]
    assert texts(text, "paragraph", 6)[1:] == ["Five six seven eight nine. Ten.", "Eleven twelve."]


def test_a_line_is_a_passage_and_a_long_one_is_packed():
    assert texts(TEXT, "line", 6) == [TEXT[:25], "Six.", TEXT[32:-10], "Thirteen."]


def test_a_text_is_cut_into_paragraphs_and_a_row_stays_whole():
    text = "One two three four.\n\nFive six seven eight."
    assert texts(text, "auto", 100) == ["One two three four.", "Five six seven eight."]
    row = Document("d", "d", text, is_row=True)
    assert [passage.text for passage in split_passages(row, "auto", 100)] == [text]


def test_lines_count_from_the_documents_own():
    lines = [p.line for p in split_passages(Document("d", "d", TEXT, line=10), "sentence", 50)]
    assert lines == [10, 10, 12, 13, 13]


def test_a_row_stands_on_one_line():
    row = Document("d", "d", TEXT, line=7, is_row=True)
    assert {p.line for p in split_passages(row, "sentence", 50)} == {7}


def test_text_without_spaces_is_bounded():
    assert max(map(len, texts("水" * 1000, "window", 4))) <= 4 * 32


@pytest.mark.parametrize("text", ["", " \n\n\t", "\u2028"])
def test_a_document_without_words_has_no_passages(text):
    assert texts(text, "window") == texts(text, "paragraph") == texts(text, "line") == []


@given(
    st.text(alphabet='ab .!?\n\t"水é😀', max_size=200),
    st.sampled_from(get_args(PassageUnit)),
    st.integers(1, 8),
)
def test_passages_are_in_order_and_only_white_space_is_left_out(text, unit, max_words):
    end = 0
    for passage in split_passages(Document("d", "d", text), unit, max_words):
        assert passage.text == text[passage.start : passage.end]
        assert passage.start >= end
        assert not text[end : passage.start].strip()
        assert passage.line == 1 + text.count("\n", 0, passage.start)
        end = passage.end
    assert not text[end:].strip()


def paragraphs(text: str) -> list[str]:
    return [text[start:end] for start, end in split_paragraphs(text)]


def test_a_blank_line_ends_a_paragraph():
    assert paragraphs(f"{FIRST}\n \t\n{SECOND}\n") == [FIRST, SECOND]
    assert paragraphs(f"{FIRST}\r\n\r\n{SECOND}\r\n") == [FIRST, SECOND]


@pytest.mark.parametrize("width", [30, 72, 79, 130])
def test_lines_broken_to_fit_a_page_are_one_paragraph(width):
    text = FIRST + " " + SECOND
    wrapped = "\n".join(textwrap.wrap(text, width))
    assert paragraphs(wrapped) == [wrapped]
    assert paragraphs(f"{wrapped}\n\n{SECOND}") == [wrapped, SECOND]


def test_lines_that_are_paragraphs_stay_apart():
    assert paragraphs(f"{FIRST}\n{SECOND}\n{FIRST}") == [FIRST, SECOND, FIRST]
    short = ["Cats chase mice at night.", "Dogs chase cats by day.", "Nobody chases the dogs."]
    assert paragraphs("\n".join(short)) == short
    long = ["all in lower case, " * 10 + "one.", "all in lower case, " * 10 + "two."]
    assert paragraphs("\n".join(long) + "\nOnce upper case.\n") == [
        "\n".join(long),
        "Once upper case.",
    ]


def test_items_of_a_list_stay_apart():
    items = ["- one thing that is\n  broken into two lines.", "- another thing that is\n  as long."]
    assert paragraphs("\n".join(items)) == items
    numbered = ["1. the bank raised\n   its rates;", "2) nobody noticed\n   at the river."]
    assert paragraphs("\n".join(numbered)) == numbered
    numbers = "the rates that were measured went from\n3. 5 to 4. 5 and then they\nfell."
    assert paragraphs(numbers) == [numbers]
    short = ["- milk", "- eggs", FIRST]
    assert paragraphs("- milk\n- eggs\n\n" + FIRST) == short


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize("heading", ["# Rates.", "Rates rise in May", "Biography."])
def test_a_heading_belongs_to_what_follows(heading, between):
    text = f"{FIRST}\n\n{heading}{between}{SECOND}"
    assert paragraphs(text) == [FIRST, heading + between + SECOND]


def test_titles_one_per_line_are_not_headings_of_one_another():
    titles = ["Rates rise in May", "Fish jump", "Boats go by as they always had"]
    assert paragraphs("\n".join(titles)) == titles


def test_scripts_without_upper_case_are_joined_in_a_block():
    text = "银行在五月提高了利率。\n河边没有人注意到。"
    assert paragraphs(text) == [text]


def test_lines_are_found_without_the_space_around_them():
    text = "  one \r\n\n\ttwo"
    assert [text[start:end] for start, end in split_lines(text)] == ["one", "two"]


def test_an_id_that_no_store_can_index_is_a_bad_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"id,text\n{'é' * 1001},A.\n{'é' * 1000},B.\n")
    bad, good = read_source(str(path), TableColumns(id="id"))
    assert isinstance(bad, BadRow)
    assert "more than 2,000 bytes" in bad.problem
    assert good.text == "B."


def test_a_document_of_endless_passages_is_refused(monkeypatch):
    monkeypatch.setattr(documents, "MAX_PASSAGES", 3)
    few, many = (Document("a.txt", "a.txt", "- a\n" * count) for count in (3, 4))
    assert len(split_passages(few, "line", 50)) == 3
    with pytest.raises(TextError, match="'a.txt' splits into more than 3 passages, .* split"):
        split_passages(many, "line", 50)
