"""Columns of PropBank frames: one frame per predicate, bad rows named by line."""

import pytest

from relmo.errors import DataError, TextError
from relmo.tasks.srl.data import NO_PREDICATE, Frame, read_frames

COMMENT = "# sent_id = 1"


def row(word, frame="-", *roles, number=0, extra=(), last=()):
    lemma = frame.split(".")[0] if frame != "-" else "-"
    return "\t".join(["f", "0", str(number), word, "X", "*", lemma, frame, *extra, *roles, *last])


def sang(ending="\n"):
    rows = [
        COMMENT,
        row("She", "-", "(ARG0*)", "(ARG0*)"),
        row("sang", "sing.01", "(V*)", "*"),
        row("and", "-", "*", "*"),
        row("made", "make.01", "*", "(V*"),
        row("up", "-", "*", "*)"),
        row("a", "-", "*", "(ARG1*"),
        row("🎵", "-", "*", "*)"),
    ]
    return ending.join(rows) + ending * 2


@pytest.fixture
def write(tmp_path):
    def write(*lines, ending="\n"):
        path = tmp_path / "a.conll"
        path.write_bytes(ending.join(lines).encode())
        return path

    return write


def test_each_predicate_has_a_frame_of_bio_tags(write):
    frames = read_frames(write(sang()))
    words = ("She", "sang", "and", "made", "up", "a", "🎵")
    assert frames == [
        Frame(words, 1, ("B-ARG0", "B-V", "O", "O", "O", "O", "O"), predicates=(1, 3)),
        Frame(words, 3, ("B-ARG0", "O", "O", "B-V", "I-V", "B-ARG1", "I-ARG1"), predicates=(1, 3)),
    ]
    assert frames[0].words is frames[1].words


def test_crlf_a_byte_order_mark_and_no_last_newline_change_nothing(write):
    plain = read_frames(write(sang()))
    assert read_frames(write(sang("\r\n"))) == plain
    assert read_frames(write("\ufeff" + sang().rstrip("\n"))) == plain


def test_cells_may_be_parted_by_spaces(write):
    assert read_frames(write(sang().replace("\t", "   "))) == read_frames(write(sang()))


def test_a_no_break_space_does_not_part_cells(write):
    frames = read_frames(write(row("ha\u00a0ha", "laugh.01", "(V*)").replace("\t", "  ")))
    assert frames[0].words == ("ha\u00a0ha",)


def test_a_sentence_without_a_predicate_has_no_frame_unless_all_are_kept(write):
    rows = [COMMENT, row("Oh"), row("!"), "", "", COMMENT, row("go", "go.01", "(V*)"), ""]
    go = Frame(("go",), 0, ("B-V",), predicates=(0,))
    assert read_frames(write(*rows)) == [go]
    bare = Frame(("Oh", "!"), NO_PREDICATE, ("O", "O"))
    assert read_frames(write(*rows), keeps_all=True) == [bare, go]
    assert bare.predicates == ()


def test_an_empty_file_has_no_frames(write):
    assert read_frames(write()) == read_frames(write(COMMENT, "", "")) == []


def test_roles_side_by_side_stay_apart(write):
    path = write(
        row("gave", "give.01", "(V*)"), row("him", "-", "(ARG2*)"), row("it", "-", "(ARG2*)")
    )
    assert read_frames(path)[0].tags == ("B-V", "B-ARG2", "B-ARG2")


def test_a_predicate_may_be_a_later_piece_of_its_verb(write):
    path = write(row("make", "-", "(V*)"), row("it", "-", "*"), row("up", "make.01", "(C-V*)"))
    (frame,) = read_frames(path)
    assert (frame.predicate, frame.tags) == (2, ("B-V", "O", "B-C-V"))


def test_the_full_layout_of_conll_2012_is_read(write):
    more = {"extra": ("-", "Ann", "*"), "last": ("(3)",)}
    path = write(
        "#begin document (bc/a); part 000",
        row("She", "-", "(ARG0*)", **more),
        row("sang", "sing.01", "(V*)", **more),
        "",
        row("Oh", **more),
        "",
        "#end document",
    )
    frames = read_frames(path)
    assert [frame.tags for frame in frames] == [("B-ARG0", "B-V")]


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        (["f\t0\t0\tOh"], 2, "4 columns, expected at least 8"),
        ([row("a", "b.01", "(V*)"), row("c")], 3, "8 columns, but 9 in the first row"),
        ([row("a", "b.01")], 2, r"8 columns for 1 predicate\(s\); expected 8 and one for each"),
        ([row("a", "-", "(V*)")], 2, r"9 columns for 0 predicate\(s\)"),
        ([row("a", "b.01", "(V*"), row("c", "-", "*")], 2, r"\(V\* in column 9 is not closed"),
        ([row("a", "b.01", "(V*)"), row("c", "-", "*)")], 3, "closes a role that is not open"),
        ([row("a", "b.01", "(V*"), row("c", "-", "(ARG0*)")], 3, r"inside \(V\*; close that"),
        ([row("a", "b.01", "(V*)"), row("c", "-", "ARG0")], 3, "'ARG0' in column 9; expected one"),
        ([row("a", "b.01", "(V(A*))")], 2, "expected one of .*"),
        ([row("a", "b.01", "")], 2, "'' in column 9; expected one of"),
        ([row("a", "b.01", "*"), row("c", "-", "(V*)")], 2, "column 9 has no V at its predicate"),
        ([row(" ", "b.01", "(V*)")], 2, "the word in column 4 is empty"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_by_file_and_line(write, rows, line, message):
    with pytest.raises(DataError, match=rf"a.conll, line {line}: .*{message}"):
        read_frames(write(COMMENT, *rows, ""))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TextError, match="none.conll"):
        read_frames(tmp_path / "none.conll")
