"""Coreference columns of both layouts; bad cells named by line."""

import pytest

from relmo.errors import DataError
from relmo.tasks.coref.data import NO_WORD, read_documents, without_singletons


def long(word, coref="", speaker="_", name="a"):
    return "\t".join([name, "0", "0", word, "_", "_", "_", "_", "_", speaker, "_", "_", coref])


def short(*pairs):
    return [f"{n}\t{word}\t{coref or '_'}" for n, (word, coref) in enumerate(pairs)]


def in_short(*cells):
    """A document in the short layout, one word per cell."""
    return ["# begin document GUM_news_x", *short(*(("w", c) for c in cells)), "# end document"]


def in_long(*rows, head="#begin document (a); part 0"):
    return [head, *rows, "", "#end document"]


@pytest.fixture
def write(tmp_path):
    def write(*lines, ending="\n"):
        path = tmp_path / "a.conll"
        path.write_bytes(ending.join((*lines, "")).encode())
        return path

    return write


def all_of(path):
    return list(read_documents(path))


def clusters_of(path):
    (document,) = read_documents(path)
    return document.clusters


LITBANK = in_long(long("She", "(0)"), long("sang"), "", long("Her", "(1|(0)"), long("🎵", "1)"))


def test_mentions_are_counted_over_the_document(write):
    (document,) = read_documents(write(*LITBANK))
    assert document.sentences == (("She", "sang"), ("Her", "🎵"))
    assert document.words == ("She", "sang", "Her", "🎵")
    assert document.clusters == (((0, 0), (2, 2)), ((2, 3),))
    assert (document.name, document.part) == ("a", 0)
    assert document.genre is None


def test_crlf_and_a_byte_order_mark_change_nothing(write):
    plain = all_of(write(*LITBANK))
    assert all_of(write(*LITBANK, ending="\r\n")) == plain
    assert all_of(write("\ufeff" + LITBANK[0], *LITBANK[1:])) == plain


def test_a_trailing_tab_may_be_lost(write):
    assert all_of(write(*(line.rstrip("\t") for line in LITBANK))) == all_of(write(*LITBANK))


def test_the_short_layout_is_read_with_its_genre(write):
    (document,) = read_documents(write(*in_short("(3", "(4)", "3)", "", "(3)")))
    assert document.name == "GUM_news_x"
    assert document.genre == "news"
    assert document.clusters == (((0, 2), (4, 4)), ((1, 1),))


def test_a_document_without_blank_lines_is_split_by_rule(write):
    text = "She sang . “ Oh ! ” said Mr. Hill , and left . We 🎵 stayed"
    rows = short(*((word, "") for word in text.split(" ")))
    (document,) = read_documents(write("# begin document d", *rows, "# end document"))
    assert document.sentences[0] == ("She", "sang", ".")
    assert document.sentences[-1] == ("We", "🎵", "stayed")
    assert " ".join(document.words) == text


def test_cells_hold_several_marks_with_bars_or_without(write):
    bars = clusters_of(write(*in_short("(1|(2)", "(3", "1)|3)|(4)")))
    plain = clusters_of(write(*in_short("(1(2)", "(3", "1)3)(4)")))
    assert bars == plain == (((0, 0),), ((0, 2),), ((1, 2),), ((2, 2),))


def test_mentions_may_cross(write):
    assert clusters_of(write(*in_short("(1", "(2", "1)", "2)"))) == (((0, 2),), ((1, 3),))


def test_mentions_of_one_group_may_nest(write):
    found = clusters_of(write(*in_short("(1", "(1", "1)", "1)")))
    assert found == (((0, 3), (1, 2)),)
    assert clusters_of(write(*in_short("(1(1)", "1)"))) == (((0, 0), (0, 1)),)


def test_an_end_and_a_beginning_at_one_word(write):
    assert clusters_of(write(*in_short("(1", "1)(1", "1)"))) == (((0, 1), (1, 2)),)


def test_a_mention_may_run_over_sentences(write):
    path = write(*in_long(long("a", "(5"), "", long("b"), "", long("c", "5)")))
    assert clusters_of(path) == (((0, 2),),)


def test_a_span_may_stand_in_two_groups(write):
    assert clusters_of(write(*in_short("(1)(2)"))) == (((0, 0),), ((0, 0),))


def test_parts_are_documents_with_groups_of_their_own(write):
    head = "#begin document (bc/cctv/00/a_0001); part 00{}"
    first, second = (in_long(long("a", "(7)"), head=head.format(n)) for n in (0, 1))
    documents = all_of(write(*first, *second))
    assert [(d.name, d.part, d.genre) for d in documents] == [
        ("bc/cctv/00/a_0001", 0, "bc"),
        ("bc/cctv/00/a_0001", 1, "bc"),
    ]
    assert all(d.clusters == (((0, 0),),) for d in documents)


def test_cells_of_the_long_layout_may_be_parted_by_spaces(write):
    rows = [long(w, c).replace("\t", "    ") for w, c in (("She", "(0)"), ("sang", "-"))]
    assert clusters_of(write(*in_long(*rows))) == (((0, 0),),)


def test_singletons_are_read_and_can_be_removed(write):
    path = write(*in_short("(1)", "(2)", "(1)"))
    (document,) = read_documents(path)
    assert document.clusters == (((0, 0), (2, 2)), ((1, 1),))
    assert without_singletons(document).clusters == (((0, 0), (2, 2)),)


def test_an_empty_word_keeps_its_place(write):
    path = write("# begin document d", "0\t\t_", "1\tb\t(1)", "# end document")
    (document,) = read_documents(path)
    assert document.words == (NO_WORD, "b")
    assert document.clusters == (((1, 1),),)


def test_an_empty_file_and_an_empty_document(write):
    assert all_of(write()) == []
    (document,) = read_documents(write("# begin document d", "# end document"))
    assert (document.sentences, document.clusters) == ((), ())


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (in_short("(1", "(2)", "(3"), 2, r"\(1 is never ended; expected 1\)"),
        (in_short("", "1)"), 3, r"1\) ends a mention never begun"),
        (in_short("(1)", "1)"), 3, r"1\) ends a mention never begun"),
        (in_short("(x)"), 2, r"'\(x\)' is not a coreference cell"),
        (in_short("(1|2"), 2, "is not a coreference cell"),
        (["# begin document d", "0\ta"], 2, "2 columns, expected 3, or at least 12"),
        (["# begin document d", *short(("a", ""))], 1, "'d' has no '#end document'"),
        (["# begin document d", "# begin document e"], 2, "begins before the previous one ends"),
        ([*in_short("_"), *in_short("_")], 4, "'GUM_news_x' begins twice"),
        (["", *short(("a", ""))], 2, "a row outside of a document"),
        ([*in_short("_"), "0\ta\t_"], 4, "a row outside of a document"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(write, lines, line, message):
    with pytest.raises(DataError, match=rf"a.conll, line {line}: .*{message}"):
        all_of(write(*lines))


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"# begin document d\n0\tcaf\xe9\t_\n")
    with pytest.raises(DataError, match="a.conll, line 2: not UTF-8"):
        all_of(path)
