"""Files of columns -> tagged sentences; bad rows named by file and line."""

import gzip
import json
import lzma
import tracemalloc

import pytest

from relmo.errors import ConfigError, DataError, TextError
from relmo.tasks.ner.data import (
    TaggedSentence,
    read_columns,
    read_conllu,
    read_conllu_documents,
    read_tagged_table,
)
from relmo.tasks.ner.task import NerTask, PosTask
from relmo.tasks.tables import Columns

TWO = [
    TaggedSentence(("Ann", "sings"), ("B-PER", "O")),
    TaggedSentence(("Oslo",), ("B-LOC",)),
]


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def conllu_line(number, word="w", upos="NOUN", xpos="NN"):
    return "\t".join([str(number), word, "_", upos, xpos, "_", "0", "root", "_", "_"])


@pytest.mark.parametrize(
    "text",
    [
        "Ann B-PER\nsings O\n\nOslo B-LOC\n",
        "Ann\tB-PER\nsings\tO\n\nOslo\tB-LOC",
        "Ann   B-PER \nsings \t O\n \t\n\n\nOslo B-LOC\n\n\n",
        "\ufeffAnn B-PER\r\nsings O\r\n\r\nOslo B-LOC\r\n",
        "-DOCSTART- -X-\n\nAnn B-PER\nsings O\n-DOCSTART-\nOslo B-LOC\n",
        "Ann NNP B-NP B-PER\nsings VBZ B-VP O\n\nOslo NNP B-NP B-LOC\n",
    ],
    ids=["spaces", "tabs", "ragged", "windows", "documents", "four"],
)
def test_the_same_sentences_come_from_columns_of_any_kind(text, write):
    assert read_columns(write(text)) == TWO


def test_columns_can_be_named_from_either_end(write):
    path = write("1 x Ann NNP\n2 O sings VBZ\n")
    assert read_columns(path, 2, 1) == [TaggedSentence(("Ann", "sings"), ("x", "O"))]
    assert read_columns(path, -2, 1) == read_columns(path, 2, 1)


def test_words_hold_spaces_where_tabs_part_the_columns(write):
    found = read_columns(write("New York\tLOC\n is \tO\n"))
    assert found == [TaggedSentence(("New York", "is"), ("LOC", "O"))]


def test_a_no_break_space_and_other_odd_characters_stay_in_their_word(write):
    words = ("8\xa01/2", "👩‍🚀", "a\u2028b", "é", "שלום", "#", "\xa0", "w" * 400)
    text = "".join(f"{word} X\n" for word in words)
    assert read_columns(write(text)) == [TaggedSentence(words, ("X",) * len(words))]


def test_a_hash_is_a_word_where_the_file_is_not_conllu(write):
    assert read_columns(write("# O\n1 O\n"))[0].words == ("#", "1")


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_packed_file_reads_like_a_plain_one(suffix, pack, write):
    path = write(pack(b"Ann B-PER\nsings O\n\nOslo B-LOC\n"), "data.txt" + suffix)
    assert read_columns(path) == read_columns(str(path)) == TWO


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file contains no sentences"),
        ("\n\n-DOCSTART- O\n", "line 1: the file contains no sentences"),
        ("\nAnn\n", "line 2: 1 column separated by spaces; expected a word and its tag"),
        ("Ann O\n\nsings\n", "line 3: 1 column separated by spaces, but 2 in line 1"),
        ("Ann O\nsings VBZ O\n", "line 2: 3 columns separated by spaces, but 2 in line 1"),
        ("Ann\tO\nsings O\n", "line 2: 1 column separated by tabs, but 2 in line 1"),
        ("Ann\tO\n\tO\n", "line 2: the word is empty"),
        ("Ann\tO\nsings\t\n", "line 2: the tag is empty"),
        (b"Ann O\nsi\xffngs O\n", "line 2: not UTF-8 .*0xff in position 2"),
        ("Ann O\n".encode("utf-16"), "line 1: not UTF-8"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(text, message, write):
    with pytest.raises(DataError, match=rf"data\.txt, {message}"):
        read_columns(write(text))


@pytest.mark.parametrize("columns", [(0, 2), (-3, 1), (0, 0), (1, -1), (0, -2)])
def test_columns_that_are_not_there_or_the_same_are_named(columns, write):
    with pytest.raises(DataError, match="line 1: 2 columns .* choose other columns"):
        read_columns(write("Ann O\n"), *columns)


def test_a_file_that_cannot_be_read_is_named(write, tmp_path):
    with pytest.raises(TextError, match=r"missing\.txt: cannot be read"):
        read_columns(tmp_path / "missing.txt")
    with pytest.raises(TextError, match=r"cut\.gz: cannot be read"):
        read_columns(write(gzip.compress(b"Ann O\n" * 99)[:-9], "cut.gz"))


def test_conllu_gives_words_with_either_tag(write):
    text = "# text = aux bois\n" + "\n".join(
        [
            conllu_line("1-2", "aux"),
            conllu_line(1, "à", "ADP", "IN"),
            conllu_line(2, "les", "DET", "DT"),
            conllu_line("2.1", "ghost"),
            "#no space needed",
            conllu_line(3, "bois noirs", "NOUN", "NNS"),
            "",
            conllu_line(1, "#", "SYM", "SYM"),
        ]
    )
    words = [("à", "les", "bois noirs"), ("#",)]
    upos = [("ADP", "DET", "NOUN"), ("SYM",)]
    xpos = [("IN", "DT", "NNS"), ("SYM",)]
    path = write(text)
    assert read_conllu(path) == [TaggedSentence(*each) for each in zip(words, upos, strict=True)]
    assert read_conllu(path, "xpos") == [
        TaggedSentence(*each) for each in zip(words, xpos, strict=True)
    ]


def test_the_words_of_conllu_need_no_tags(write):
    sentences = [
        "# newdoc\n" + conllu_line("1-2", "aux"),
        conllu_line(1, "à", "_", "_"),
        conllu_line(2, "les", "", "_") + "\n",
        conllu_line(1, "_", "_", "_") + "\n",
        "# newdoc\n" + conllu_line(1, "#", "SYM"),
    ]
    path = write("\n".join(sentences))
    assert read_conllu_documents(path) == [[("à", "les"), ("_",)], [("#",)]]
    with pytest.raises(DataError, match="line 3: the word has no UPOS"):
        read_conllu(path)


BAD_CONLLU = [
    ("# only a comment\n", "line 1: the file contains no sentences"),
    ("# c\n1\tw\n", "line 2: 2 columns separated by tabs, expected the 10 of CoNLL-U"),
    (conllu_line("x"), "line 1: 'x' is not a word number"),
    (conllu_line(1, ""), "line 1: the word is empty"),
]


@pytest.mark.parametrize("read", [read_conllu, read_conllu_documents])
@pytest.mark.parametrize(("text", "message"), BAD_CONLLU)
def test_a_bad_row_of_conllu_is_named(read, text, message, write):
    with pytest.raises(DataError, match=rf"data\.txt, {message}"):
        read(write(text))


def test_a_word_without_the_tag_that_is_read_is_named(write):
    with pytest.raises(DataError, match=r"data\.txt, line 1: the word has no UPOS"):
        read_conllu(write(conllu_line(1, upos="_")))


def test_conllu_has_two_columns_of_tags(write):
    with pytest.raises(ConfigError, match="column must be one of upos, xpos, got 'lemma'"):
        read_conllu(write(conllu_line(1)), "lemma")


# ── tables ──────────────────────────────────────────────────────────────────────────────────


def test_words_and_tags_of_a_table_are_read(write):
    rows = [{"tokens": s.words, "ner_tags": s.tags} for s in TWO]
    path = write("\n".join(map(json.dumps, rows)), "a.jsonl")
    assert read_tagged_table(path, Columns("tokens", "ner_tags")) == TWO
    assert NerTask.read(path, "train")[0].tags == ("S-PER", "O")
    assert PosTask.read(path, "train") == TWO


@pytest.mark.parametrize(
    "spans",
    [
        [[0, 12, "PER"], [25, 29, "LOC"]],
        [
            {"start": 25, "end": 29, "label": "LOC"},
            {"start": 0, "end": 12, "label": "PER", "id": 1},
        ],
        [[1, 12, "PER"], [25, 28, "LOC"]],  # a word belongs to a span whole
    ],
)
def test_spans_of_a_text_become_tags_of_its_words(write, spans):
    path = write(json.dumps({"text": "Ada Lovelace came. So did Rome!", "label": spans}), "a.jsonl")
    first, second = read_tagged_table(path, Columns("text", "label"))
    assert (first.words, first.tags) == (
        ("Ada", "Lovelace", "came", "."),
        ("B-PER", "I-PER", "O", "O"),
    )
    assert second.tags == ("O", "O", "B-LOC", "O")
    assert first.document == second.document == 1


def test_a_text_without_spans_has_no_entities(write):
    path = write(json.dumps({"text": "It rains.", "label": []}), "a.jsonl")
    assert read_tagged_table(path, Columns("text", "label"))[0].tags == ("O", "O", "O")


def test_a_word_belongs_to_the_first_span_that_it_overlaps_with(write):
    text = "aa bbb-cc dd ee, ff gg"
    spans = [[17, 22, "Q"], [10, 12, "P"], [4, 5, "X"], [5, 8, "Y"], [0, 1, "X"], [8, 9, "Z"]]
    path = write(json.dumps({"text": text, "label": spans}), "a.jsonl")
    [found] = read_tagged_table(path, Columns("text", "label"))
    assert found.words == ("aa", "bbb-cc", "dd", "ee", ",", "ff", "gg")
    assert found.tags == ("B-X", "B-X", "B-P", "O", "O", "B-Q", "I-Q")


def test_a_long_span_takes_no_memory_per_character(write):
    row = {"text": "x" * 500_000 + " b", "label": [[0, 500_002, "X"]]}
    path = write(json.dumps(row), "a.jsonl")
    tracemalloc.start()
    [found] = read_tagged_table(path, Columns("text", "label"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.tags == ("B-X", "I-X")
    assert peak < 10_000_000  # with an entry per character, 59 MB


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"text": ["a", "b"], "label": ["O"]}, "must be lists of words and of their tags"),
        ({"text": ["a"], "label": [3]}, "must be lists of words and of their tags"),
        ({"text": "a b", "label": [[0, 9, "X"]]}, r"\[0, 9, .X.\] is no span of the text"),
        ({"text": "a b", "label": [[0, 1]]}, "is no span of the text"),
        ({"text": "a b", "label": "X"}, "is no span of the text"),
        ({"text": "a b", "label": [[0, 2, "X"], [1, 3, "Y"]]}, "overlaps with another span"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(write, row, what):
    path = write("\n" + json.dumps(row), "a.jsonl")
    with pytest.raises(DataError, match=f"a.jsonl, line 2: .*{what}"):
        read_tagged_table(path, Columns("text", "label"))


def test_a_tag_that_marks_no_entity_is_named_in_a_table(write):
    rows = [{"tokens": ["a", "b"], "tags": ["B-X", tag]} for tag in ("O", "I-X", "b_X")]
    path = write("\n".join(map(json.dumps, rows)), "a.jsonl")
    with pytest.raises(DataError, match="line 3: 'b_X' is not a chunk tag, but most tags of the"):
        NerTask.read(path, "train")


def test_documents_are_numbered_if_there_are_enough_to_hold_some_out(write):
    documents = ["-DOCSTART- O\n\na O\n\nb O\n\n"] * 10
    found = [s.document for s in read_columns(write("".join(documents)))]
    assert found == sorted([*range(1, 11)] * 2)
    assert {s.document for s in read_columns(write("".join(documents[1:])))} == {0}
    universal = "".join(f"# newdoc id = {n}\n{conllu_line(1)}\n\n" for n in range(12))
    assert [s.document for s in read_conllu(write(universal))] == [*range(1, 13)]
