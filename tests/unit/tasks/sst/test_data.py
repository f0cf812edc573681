"""Trees and tables -> labelled texts; bad rows named by file and line."""

import gzip

import pytest

from relmo.errors import ConfigError, DataError
from relmo.tasks.sst.data import (
    LabelledText,
    plain_word,
    polarity_of,
    read_table,
    read_trees,
)

TREE = "(3 (2 It) (4 (3 shines) (2 .)))"
ODD = [(["It's", "8\xa01/2", "👩‍🚀", "long"], "a b"), (["שלום"], "5")]


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def texts(*pairs) -> list[LabelledText]:
    return [LabelledText(tuple(words), label) for words, label in pairs]


def plain(found) -> list[tuple[str, str]]:
    return [(" ".join(text.words), text.label) for text in found]


@pytest.mark.parametrize(
    "text", [TREE, f"\ufeff{TREE}\r\n\r\n", f"\n{TREE}\n", TREE.replace(" ", " \t ")]
)
def test_a_tree_gives_its_sentence(text, write):
    assert read_trees(write(text)) == texts((["It", "shines", "."], "3"))


def test_a_tree_may_be_one_word_or_have_many_branches(write):
    found = read_trees(write("(0 bad)\n(1 (2 a) (2 b) (2 c))\n"))
    assert plain(found) == [("bad", "0"), ("a b c", "1")]


def test_phrases_follow_their_sentence_each_once(write):
    text = f"{TREE}\n(1 (2 It) (0 (1 stinks) (2 .)))\n{TREE}\n(3 shines)\n"
    assert plain(read_trees(write(text), phrases=True)) == [
        ("It shines .", "3"), ("It", "2"), ("shines .", "4"), ("shines", "3"), (".", "2"),
        ("It stinks .", "1"), ("stinks .", "0"), ("stinks", "1"),
        ("It shines .", "3"), ("shines", "3"),
    ]  # fmt: skip


def test_a_phrase_with_two_labels_is_kept_with_both(write):
    found = read_trees(write("(3 (2 a) (2 b))\n(1 (1 a) (2 b))\n"), phrases=True)
    assert plain(found) == [("a b", "3"), ("a", "2"), ("b", "2"), ("a b", "1"), ("a", "1")]


def test_escaped_words_come_out_plain(write):
    text = r"(2 (2 (2 -LRB-) (2 and\/or)) (2 (2 \*\*\*) (2 -RRB-)))"
    assert read_trees(write(text))[0].words == ("(", "and/or", "***", ")")
    assert plain_word("-lrb-") == "-lrb-"


def test_odd_characters_stay_in_their_word(write):
    words = ("8\xa01/2", "👩‍🚀", "e\u0301", "שלום", "a\u2028b", "w" * 400)
    tree = "(2 " + " ".join(f"(2 {word})" for word in words) + ")"
    assert read_trees(write(tree))[0].words == words


def test_a_deep_tree_is_read(write):
    deep = "(2 " * 5000 + "(2 a)" + ")" * 5000
    assert read_trees(write(deep)) == texts((["a"], "2"))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(3 (2 a) (2 b)", "1 unclosed brackets"),
        ("(3 (2 a) (2 b)))", "unmatched '\\)'"),
        (")", "unmatched '\\)'"),
        ("(3 a) (2 b)", "a second tree begins"),
        ("(5 (2 a))", "label '5'; expected a tree label from 0 to 4"),
        ("(2 (-1 a))", "label '-1'"),
        ("()", "'\\(\\)' at character 1 is neither"),
        ("(3 )", ".* at character 1 is neither"),
        ("(3 (2 a) ())", "'\\(\\)\\)' at character 10 is neither"),
        ("((2 a))", ".* at character 1 is neither"),
        ("(2 a b)", ".* at character 1 is neither"),
        ("(2 (2 a) b)", "'b\\)' at character 10 is neither"),
        ("plain words", ".* at character 1 is neither"),
        ("(2 (2 a", ".* at character 4 is neither"),
    ],
)
def test_a_malformed_tree_is_named_by_its_line(tree, message, write):
    with pytest.raises(DataError, match=rf"data\.txt, line 2: {message}"):
        read_trees(write(f"(2 a)\n{tree}\n"))


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_trees_is_named(text, write):
    with pytest.raises(DataError, match=r"data\.txt, line 1: the file contains no trees"):
        read_trees(write(text))


def test_bytes_that_are_no_text_are_named(write):
    with pytest.raises(DataError, match="line 2: not UTF-8"):
        read_trees(write(b"(2 a)\n(2 \xff)\n"))


def test_only_labels_of_trees_have_a_polarity():
    assert [polarity_of(label) for label in "01234"] == [
        "negative", "negative", None, "positive", "positive",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="label 'x' has no polarity"):
        polarity_of("x")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'label,id,text\na b,1,"It\'s 8\xa01/2\n 👩‍🚀 long"\n\n5,2,שלום\n'),
        ("a.CSV", '\ufefflabel,text\r\na b,"It\'s 8\xa01/2 👩‍🚀 long"\r\n5,שלום\r\n'),
        ("a.tsv", "text\tlabel\nIt's 8\xa01/2 👩‍🚀 long\ta b\n\nשלום\t5\n"),
        (
            "a.jsonl",
            '{"label": "a b", "text": "It\'s 8\xa01/2 👩‍🚀 long"}\n\n{"text": "שלום", "label": 5}',
        ),
    ],
)
def test_a_table_gives_texts_and_labels_by_the_names_of_its_columns(name, text, write):
    assert read_table(write(text, name)) == texts(*ODD)
    packed = write(gzip.compress(text.encode()), name + ".gz")
    assert read_table(packed) == texts(*ODD)


def test_words_are_split_as_one_chooses(write):
    path = write("text,label\nSo-so!,3\n", "a.csv")
    assert read_table(path, lambda text: text.split("-")) == texts((["So", "so!"], "3"))


def test_a_quote_is_a_character_in_tsv_and_a_mark_in_csv(write):
    tsv = write('text\tlabel\n"a b\tx\n', "a.tsv")
    csv = write('text,label\n"a ""b"", c",x\n', "a.csv")
    assert read_table(tsv) == texts((['"a', "b"], "x"))
    assert read_table(csv) == texts((["a", '"b",', "c"], "x"))


def test_json_labels_may_be_numbers_or_truth_values(write):
    path = write('{"text": "a", "label": true}\n{"text": "b", "label": 0}\n', "a.jsonl")
    assert [text.label for text in read_table(path)] == ["true", "0"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "line 1: the file contains no texts"),
        ("a.csv", "text,label\n", "line 1: the file contains no texts"),
        ("a.csv", "text,label,text\na,b,c\n", "line 1: two columns have the same name"),
        ("a.csv", "words,label\na,b\n", "line 2: no column 'text'; found 'words', 'label'"),
        ("a.csv", "text,label\na,b\na\n", "line 3: 1 cells, but 2 column names in line 1"),
        ("a.csv", 'id,text,label\n"a\nb"," ",d\n', "line 2: 'text' is empty"),
        ("a.csv", 'text,label\na,b\n"c,d\n\n', "line 3: invalid CSV .*quotes"),
        ("a.tsv", "text\tlabel\na\t\n", "line 2: 'label' is empty"),
        ("a.tsv", b"text\tlabel\n\xff\tb\n", "line 2: not UTF-8"),
        ("a.jsonl", '{"text": "a"}\n', "line 1: no column 'label'; found 'text'"),
        ("a.jsonl", "{}\n", "line 1: no column 'text'; found none"),
        ("a.csv", f"{'x' * 999}\na\n", "line 2: .*found 'x{199} …: rename one of these"),
        ("a.jsonl", '\n{"text": "a"\n', "line 2: invalid JSON"),
        ("a.jsonl", '["a", "b"]\n', "line 1: expected one object .* per line"),
        ("a.jsonl", '{"text": null, "label": "x"}\n', "line 1: 'text' must be a string, got null"),
        ("a.jsonl", "[" * 100_000, "line 1: invalid JSON"),
    ],
)
def test_a_bad_row_of_a_table_is_named(name, text, message, write):
    with pytest.raises(DataError, match=f"{name}, {message}"):
        read_table(write(text, name))


def test_a_text_in_which_no_word_is_found_is_named(write):
    with pytest.raises(DataError, match="line 2: 'text' contains no words"):
        read_table(write("text,label\n\xa0,x\n", "a.csv"), tokenize=str.split)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.csv.txt", "a.gz"])
def test_the_suffix_tells_the_format(name, write):
    with pytest.raises(ConfigError, match="unknown table format .*; use one of .csv, .tsv, .jsonl"):
        read_table(write("text,label\na,b\n", name))
