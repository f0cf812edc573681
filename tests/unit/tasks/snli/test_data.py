"""Pairs of sentences from JSONL and from SICK's table."""

import json
import lzma

import pytest

from relmo.errors import DataError
from relmo.tasks.snli.data import SentencePair, read_sick, read_snli

HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="pairs"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def row(label="neutral", one="A cat .", two="It 👩‍🚀 .", **more) -> str:
    pair = {"gold_label": label, "sentence1": one, "sentence2": two, **more}
    return json.dumps(pair, ensure_ascii=False) + "\n"


def pair(one: str, two: str, label: str) -> SentencePair:
    return SentencePair(tuple(one.split(" ")), tuple(two.split(" ")), label)


def test_sentences_are_split_at_spaces(write):
    found = read_snli(write("\ufeff" + row(one=" A  8\xa01/2 cat . ") + "\r\n" + row("other")))
    assert found == [
        pair("A 8\xa01/2 cat .", "It 👩‍🚀 .", "neutral"),
        pair("A cat .", "It 👩‍🚀 .", "other"),
    ]


def test_sentences_may_be_split_another_way(write):
    found = read_snli(write(row(one="A cat.")), tokenize=list)
    assert found[0].premise == tuple("A cat.")


def test_words_come_from_the_official_parse_where_it_is_given(write):
    parses = {
        "sentence1_binary_parse": "( ( A cat ) ( -LRB- ( sleeping -RRB- ) ) )",
        "sentence2_binary_parse": "It",
    }
    found = read_snli(write(row(one="A cat (sleeping)", **parses)))
    assert found == [pair("A cat ( sleeping )", "It", "neutral")]


def test_pairs_without_a_label_are_left_out(write):
    found = read_snli(write(row("-") + row() + row("-")))
    assert found == [pair("A cat .", "It 👩‍🚀 .", "neutral")]


def test_a_packed_file_reads_like_a_plain_one(write):
    plain, packed = write(row()), write(lzma.compress(row().encode()), "pairs.xz")
    assert read_snli(plain) == read_snli(packed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file contains no labeled pairs"),
        (row("-"), "line 1: the file contains no labeled pairs"),
        (row() + "{}\n", "line 2: no column 'gold_label'"),
        (row() + '{"gold_label": "x", "sentence1": "a"}', "line 2: no column 'sentence2'"),
        (row() + row(one=" "), "line 2: 'sentence1' is empty"),
        (row() + row(one=["a"]), "line 2: 'sentence1' must be a string, got"),
        (
            row() + row(sentence1_binary_parse="( )"),
            "line 2: 'sentence1_binary_parse' contains no words",
        ),
        (row() + "label\n", "line 2: invalid JSON"),
        (row().encode() + b"\xff\n", "line 2: not UTF-8"),
    ],
)
def test_a_bad_pair_is_named_by_file_and_line(text, message, write):
    with pytest.raises(DataError, match=f"pairs, {message}"):
        read_snli(write(text))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sick_has_the_labels_of_snli_and_is_split_as_one_chooses(end, write):
    rows = [
        "1\tA cat-nap\tIt rests\t4.5\tENTAILMENT",
        "2\ta\tb\t3\tNEUTRAL",
        "7\tc\td\t1\tCONTRADICTION",
    ]
    text = end.join([HEADER.strip(), *rows, ""])
    found = read_sick(write(text), lambda text: text.replace("-", " - ").split())
    assert found == [
        pair("A cat - nap", "It rests", "entailment"),
        pair("a", "b", "neutral"),
        pair("c", "d", "contradiction"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, "line 1: the file contains no labeled pairs"),
        (
            HEADER + "1\ta\tb\t3\tMAYBE\n",
            "line 2: label 'MAYBE'; expected one of ENTAILMENT, NEUTRAL",
        ),
        (HEADER + "1\ta\tb\tNEUTRAL\n", "line 2: 4 cells, but 5"),
        (HEADER + "1\t\tb\t3\tNEUTRAL\n", "line 2: 'sentence_A' is empty"),
        ("a\tb\n1\t2\n", "line 2: no column 'entailment_judgment'; found 'a', 'b'"),
    ],
)
def test_a_bad_row_of_sick_is_named(text, message, write):
    with pytest.raises(DataError, match=f"pairs, {message}"):
        read_sick(write(text), str.split)
