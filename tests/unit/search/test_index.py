"""An index finds what was added, and no longer finds what was deleted."""

import threading
import time

import numpy as np
import pytest

from relmo.errors import ConfigError, OutputError
from relmo.search import Document, IndexSettings, SemanticIndex
from relmo.search.encoder import PassageEncoder
from relmo.search.sqlite import SqliteStore

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
DOCUMENTS = [
    Document("loan", "money.txt", "The bank raised rates on loans.", meta={"year": 1950}),
    Document("river", "water.txt", "We sat on the bank of the river.\n\nFish jumped.", line=3),
    Document("cat", "animals.txt", "Cats chase mice. Dogs chase cats.", meta={"year": 1960}),
]


@pytest.fixture
def index(tiny, tmp_path):
    settings = IndexSettings(passages="sentence")
    with SemanticIndex.build(tmp_path / "i", DOCUMENTS, settings=settings, elmo=tiny) as built:
        yield built


def found(hits):
    return [hit.document for hit in hits]


def test_a_passage_finds_itself_first(index):
    for document in DOCUMENTS:
        hit = index.search(document.text.split("\n")[0].split(". ")[0], k=1)[0]
        assert hit.document == document.key
        assert document.text[hit.start : hit.end] == hit.text
    assert index.counts() == (3, 5)
    assert len(index) == 5


def test_a_hit_has_its_position(index):
    hit = next(h for h in index.search("Fish jumped.", k=5) if h.text == "Fish jumped.")
    assert (hit.document, hit.source, hit.line, hit.start, hit.end) == (
        "river",
        "water.txt",
        5,
        34,
        46,
    )
    assert hit.to_dict()["meta"] == {}


def test_by_default_what_holds_the_words_is_first(index):
    assert found(index.search("mouse chasing cats", k=2)) == ["cat", "cat"]
    assert found(index.search("nowhere", k=1))  # no word of it: vectors alone


def test_words_alone_find_what_holds_a_word_scored_by_bm25(index):
    hits = index.search("a cat by the river", by="words")
    assert sorted(found(hits)) == ["cat", "cat", "river"]
    scored = index.store.matching(index.analyze("a cat by the river"), 10)
    assert [hit.score for hit in hits] == [each.score for each in scored]
    assert index.search("nowhere", by="words") == []


def test_a_query_of_stop_words_alone_is_answered_by_its_vector(index):
    assert index.search("what is it", by="hybrid") == index.search("what is it", by="vectors") != []
    assert index.search("what is it", by="words") == []


def test_a_query_without_a_vector_is_answered_by_its_words(index, monkeypatch):
    zeros = np.zeros((1, index.settings.width), np.float32)
    monkeypatch.setattr(PassageEncoder, "encode", lambda *_: zeros)
    assert set(found(index.search("cats"))) >= {"cat"}
    assert found(index.search("cats", k=2)) == ["cat", "cat"]
    assert index.search("nowhere") == index.search("cats", by="vectors") == []


def test_words_alone_are_not_read_by_the_model(index, monkeypatch):
    monkeypatch.setattr(PassageEncoder, "encode", None)
    assert found(index.search("river", by="words")) == ["river"]


def test_the_earlier_name_of_a_ranking_is_accepted_alone(index):
    assert index.search("cats", hybrid=True) == index.search("cats", by="hybrid")
    assert index.search("cats", hybrid=False) == index.search("cats", by="vectors")
    for by in ("hybrid", "vectors", "words"):
        with pytest.raises(ConfigError, match="not both"):
            index.search("cats", by=by, hybrid=True)
    with pytest.raises(ConfigError, match="unknown ranking 'bm25'; choose hybrid, vectors, words"):
        index.search("cats", by="bm25")


def test_the_best_passage_of_each_document(index):
    for by in ("hybrid", "vectors"):
        hits = index.search("cats", k=3, by_document=True, by=by)
        assert sorted(found(hits)) == ["cat", "loan", "river"]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_no_more_documents_are_looked_for_than_there_are(index, monkeypatch):
    asked = []
    nearest = index.store.nearest
    monkeypatch.setattr(
        index.store, "nearest", lambda *args: asked.append(args[1]) or nearest(*args)
    )
    documents = index.counts().documents
    assert len(index.search("bank", 4, by="vectors", by_document=True)) == documents == 3
    assert asked == [4]


def test_searches_are_filtered(index):
    assert found(index.search("cats", where={"year": {"<": 1955}})) == ["loan"]
    assert set(found(index.search("cats", where={"year": 1960}))) == {"cat"}
    assert index.search("cats", where={"year": 1}) == []
    index.update([Document("open", "o", "Open.", meta={"open": True})])
    assert found(index.search("cats", where={"open": True})) == ["open"]
    assert index.search("cats", where={"open": 1}) == []


def test_a_query_without_words_finds_nothing(index):
    assert [index.search(" ", by=by) for by in ("hybrid", "vectors", "words")] == [[], [], []]
    with pytest.raises(ConfigError, match="≥ 1"):
        index.search("x", k=0)


def test_adding_an_existing_key_is_an_error_and_updating_replaces(index):
    with pytest.raises(ConfigError, match="use update"):
        index.add([DOCUMENTS[0]])
    with pytest.raises(ConfigError, match="use update"):
        index.add([Document("new", "n", "a"), Document("new", "n", "b")])
    assert index.update(DOCUMENTS) == 0
    assert index.update([Document("cat", "animals.txt", "Birds sing.")]) == 1
    assert index.counts() == (3, 4)
    assert index.search("Birds sing.", k=1)[0].text == "Birds sing."


def test_one_key_for_two_documents_is_an_error(index, tiny, tmp_path):
    known = index.search("bank", 1)[0].document
    before = index.counts()
    with pytest.raises(ConfigError, match="already contains"):
        index.add([Document(known, "another source", "A text.")])
    twice = [Document("q", "s", "One."), Document("r", "s", "Two."), Document("q", "t", "Three.")]
    with pytest.raises(ConfigError, match="two documents have the key 'q'"):
        index.add(twice)
    with pytest.raises(ConfigError, match="two documents have the key 'q'"):
        SemanticIndex.build(tmp_path / "twice", iter(twice), elmo=tiny)
    assert not (tmp_path / "twice").exists()
    assert index.counts() == before


def test_what_was_deleted_is_not_found(index):
    index.delete(["cat", "not there"])
    for by in ("hybrid", "vectors", "words"):
        assert "cat" not in found(index.search("cats", k=10, by=by))
    assert index.counts() == (2, 3)


def test_an_index_opens_again_with_its_own_model(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "model")
    settings = IndexSettings(model=str(tmp_path / "model"))
    with SemanticIndex.build(tmp_path / "i", iter(DOCUMENTS), settings=settings) as built:
        before = built.search("cats")
    with SemanticIndex.open(tmp_path / "i") as again:
        assert again.search("cats") == before


def test_an_index_is_not_built_over_another(tiny, tmp_path):
    SemanticIndex.build(tmp_path / "i", [], elmo=tiny).close()
    with pytest.raises(ConfigError, match="already"):
        SemanticIndex.build(tmp_path / "i", [], elmo=tiny)


def test_files_that_are_not_an_index_are_rejected(tiny, tmp_path):
    with pytest.raises(ConfigError, match="no such index"):
        SemanticIndex.open(tmp_path / "i", elmo=tiny)
    (tmp_path / "text").write_text("not SQLite" * 1000)
    with pytest.raises((ConfigError, OutputError), match="text"):
        SemanticIndex.open(tmp_path / "text", elmo=tiny)
    SqliteStore(tmp_path / "empty", create=True).close()
    with pytest.raises(ConfigError, match="no index yet"):
        SemanticIndex.open(tmp_path / "empty", elmo=tiny)
    with pytest.raises(OutputError, match="folder"):
        SqliteStore(tmp_path / "no" / "i", create=True)


def test_a_reader_sees_what_another_process_writes(index, tiny, tmp_path):
    with SemanticIndex.open(tmp_path / "i", elmo=tiny) as other:
        assert "new" not in found(other.search("Birds sing.", k=9))
        index.add([Document("new", "n", "Birds sing.")])
        assert found(other.search("Birds sing.", k=1)) == ["new"]
        index.delete(["new"])
        assert "new" not in found(other.search("Birds sing.", k=9))


def test_merging_segments_changes_no_hit(tiny, tmp_path):
    documents = [Document(f"d{i}", "s", f"The bank number {i} of the river.") for i in range(40)]
    with SemanticIndex.build(tmp_path / "i", documents, elmo=tiny) as index:
        index.store.replace([], [f"d{i}" for i in range(25)])
        rankings = ("hybrid", "vectors", "words")
        before = [index.search("bank 30", k=20, by=by) for by in rankings]
        db = index.store._db
        (rows,) = db.execute("SELECT sum(length(ids)) / 8 FROM segments").fetchone()
        index.store.optimize()
        (after,) = db.execute("SELECT sum(length(ids)) / 8 FROM segments").fetchone()
        assert (rows, after) == (40, 15)
        assert [index.search("bank 30", k=20, by=by) for by in rankings] == before
        index.delete([document.key for document in documents])
        assert index.search("bank") == []


def test_threads_may_search_while_one_writes(index):
    wrong = []

    def look():
        for _ in range(20):
            if not index.search("cats", k=1):
                wrong.append("nothing found")

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(20):
        index.update([Document("n", "n", f"Number {number}.")])
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_hybrid_search_sees_one_state_though_another_process_writes(index, tiny, monkeypatch):
    matching = index.store.matching

    def found_then_deleted(*args):
        scored, began = matching(*args), time.monotonic()
        with SemanticIndex.open(index.store.path, elmo=tiny) as other:
            other.delete(["river"])
        assert time.monotonic() - began < 20  # it does not wait for the search to end
        return scored

    before = index.search("river bank")
    monkeypatch.setattr(index.store, "matching", found_then_deleted)
    assert index.search("river bank") == before
    monkeypatch.undo()
    assert "river" not in found(index.search("river bank"))


def test_a_query_that_was_read_is_searched_for_with_all_its_alternatives(tiny, tmp_path):
    texts = ["The boundary was closed.", "A boundary of the farm.", "He was bound by it."]
    documents = [Document(str(number), "all", text) for number, text in enumerate(texts)]
    with SemanticIndex.build(tmp_path / "i.relmo", documents, elmo=tiny) as index:
        read = index.read_query("the boundry")
        assert read.changes[0][0] == "boundry"
        assert index.read_query(read) is read
        assert {hit.document for hit in index.search(read, by="words")} >= {"0", "1"}
        assert index.search(read, by="words") == index.search("the boundry", by="words")
        plain = index.read_query("the boundry", correct=False)
        assert plain.text == "the boundry"
        assert index.search(plain) == index.search("the boundry", correct=False)
