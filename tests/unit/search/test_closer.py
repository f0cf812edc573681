"""A closer reading: each word of the query looks for a near word in a passage."""

import numpy as np
import pytest

import relmo
from relmo import SemanticIndex
from relmo.search import Document
from relmo.search.closer import CloserReader
from relmo.search.lexical import READ_CLOSELY, make_analyzer

TEXTS = {
    "a": "The bank raised its interest rates again.",
    "b": "We sat there to fish.",
    "c": "A dog barked at the zeppelin.",
}


@pytest.fixture(scope="module")
def model():
    return relmo.load("relmo-en-search")


@pytest.fixture
def index(tmp_path, model):
    documents = [Document(key, "all", text) for key, text in TEXTS.items()]
    with SemanticIndex.build(tmp_path / "i.relmo", documents, elmo=model) as index:
        yield index


@pytest.fixture
def reader(index, model):
    return CloserReader(model, index.store, make_analyzer("english"), "english")


def test_a_text_with_all_words_of_a_query_has_the_share_one(reader):
    found = reader.of("interest rates")(["rates of interest", "its interest", "dogs", ""])
    assert found[0] == pytest.approx(1, abs=1e-5)
    assert found[0] > found[1] > found[2] >= found[3] == 0


def test_a_capital_makes_another_word_which_is_near(reader):
    (found,) = reader.of("Interest rates")(["interest rates"])
    assert 0.5 < found < 1


def test_a_near_word_counts_though_not_as_much_as_the_same(reader):
    same, near, far = reader.of("puppy")(["a puppy", "a dog", "a loan"])
    assert same == pytest.approx(1, abs=1e-5)
    assert same > near > far


def test_stop_words_are_not_looked_for(reader):
    assert not reader.of("what is the")(["what is the", ""]).any()
    one, other = reader.of("the zeppelin")(["zeppelin", "the"])
    assert one == pytest.approx(1, abs=1e-5)
    assert other < 0.5


def test_the_other_texts_do_not_change_a_share(reader):
    texts = [*TEXTS.values(), "水 é 😀", "x" * 9000]
    together = reader.of("rates of the bank")(texts)
    alone = [reader.of("rates of the bank")([text])[0] for text in texts]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_hybrid_search_reads_its_first_passages_and_no_others(index, monkeypatch):
    read = []
    texts = type(index.store).texts
    monkeypatch.setattr(
        type(index.store),
        "texts",
        lambda store, numbers: read.append(numbers) or texts(store, numbers),
    )
    hits = index.search("interest rates", 1)
    assert hits[0].document == "a"
    assert len(read) == 1
    assert len(read[0]) <= READ_CLOSELY
    index.search("interest rates", 1, by="vectors")
    index.search("interest rates", 1, by="words")
    assert len(read) == 1


def test_texts_of_passages_that_are_gone_are_empty(index):
    numbers = [each.passage for each in index.store.matching(["interest"], 1)]
    assert index.store.texts([*numbers, 10**6]) == [TEXTS["a"], ""]
    assert index.store.texts([]) == []
