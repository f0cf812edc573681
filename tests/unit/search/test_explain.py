"""An explanation names the sentence that answers, the words that match, the parts of the score."""

import dataclasses

import numpy as np
import pytest

from relmo import Elmo
from relmo.search import Document, Hit, IndexSettings, SemanticIndex
from relmo.search import explain as module
from relmo.search.encoder import PassageEncoder

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
TEXT = (
    "The town lies in a valley. Its banks lend money to farmers. Boats go by, and the river bank "
    "is green. It rains in May."
)
SENTENCES = ["The town lies in a valley.", "Its banks lend money to farmers."]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The town, a story of many sentences, and texts of one sentence."""
    story = " ".join(f"Day {i} was long and the mill stood still." for i in range(40))
    documents = [
        Document("town", "s", TEXT),
        Document("story", "s", f"{story} On the last day a miller sold flour to the baker."),
        Document("loan", "s", "A loan from the bank is money."),
        Document(
            "cafe", "s", "Le cafe\u0301 est ferme\u0301. Die Übung der ﬁscher 水 ist <b>aus</b>."
        ),
        Document("none", "s", "…"),
    ]
    elmo = Elmo.from_pretrained("relmo-en-small")
    path = tmp_path_factory.mktemp("index") / "i"
    with SemanticIndex.build(path, documents, settings=IndexSettings(), elmo=elmo) as built:
        yield built


def explained(index, query, document, **how):
    hits = index.search(query, 9, **how)
    pairs = zip(hits, index.explain(query, hits), strict=True)
    return next((hit, why) for hit, why in pairs if hit.document == document)


def texts(hit, why):
    start, end = why.sentence
    return hit.text[start:end], [hit.text[start:end] for start, end in why.words]


def test_the_best_sentence_is_the_one_that_holds_the_words(index):
    hit, why = explained(index, "farmers borrow money", "town")
    assert texts(hit, why) == (SENTENCES[1], ["money", "farmers"])


def test_without_a_shared_word_the_sentence_nearest_in_meaning_is_best(index):
    hit, why = explained(index, "ships on the water", "town", by="vectors")
    assert texts(hit, why) == ("Boats go by, and the river bank is green.", [])
    assert (why.by_words, why.by_meaning) == (0, 1)


def test_words_match_by_their_stem_and_stop_words_do_not(index):
    hit, why = explained(index, "the Bank of a RIVER", "town")
    assert texts(hit, why)[1] == ["banks", "river", "bank"]


def test_a_rarer_word_decides_between_two_sentences(index):
    query = "a long day with a miller"
    hit, why = explained(index, query, "story")
    assert texts(hit, why)[0] == "On the last day a miller sold flour to the baker."
    weights = module.term_weights(index.encoder, index.analyze, query)
    assert weights["miller"] > weights["day"] > weights["long"] > 0


def test_marks_belong_to_their_letters_and_spans_are_those_of_the_text(index):
    hit, why = explained(index, "café fischer ÜBUNG 水 b", "cafe")
    assert texts(hit, why)[1] == ["cafe\u0301", "Übung", "ﬁscher", "水", "b", "b"]


def test_a_hit_of_one_sentence_is_explained_as_a_whole_and_not_read(index, monkeypatch):
    hits = [hit for hit in index.search("money for a loan", 9) if hit.document == "loan"]
    monkeypatch.setattr(PassageEncoder, "encode", None)
    (why,) = index.explain("money for a loan", hits)
    assert why.sentence == (0, len(hits[0].text))
    assert texts(hits[0], why)[1] == ["loan", "money"]


@pytest.mark.parametrize("by", ["hybrid", "vectors", "words"])
def test_the_parts_are_those_that_the_search_added(index, by):
    query = "banks lend money"
    hits = index.search(query, 9, by=by)
    for why in index.explain(query, hits):
        assert why.by_words + why.by_meaning == pytest.approx(1)
        wanted = {"vectors": 0.0, "words": 1.0}.get(by, why.by_words)
        assert why.by_words == wanted
    if by == "hybrid":
        scores = {each.passage: each for each in index.store.matching(index.analyze(query), 9)}
        best = max(each.score for each in scores.values())
        parts = sorted(round((each.score / best) ** 3, 5) for each in scores.values())
        assert sorted(hit.from_words for hit in hits if hit.from_words) == pytest.approx(parts)
        first = index.explain(query, hits)[0]
        assert first.by_words == pytest.approx(hits[0].from_words / hits[0].score, abs=1e-4)


def test_a_hit_that_was_stored_elsewhere_is_explained_by_its_text(index):
    hit = Hit("d", "s", 1, 0, 1, 0.9, "A loan from the bank is money.", {})
    words, meaning = index.explain("money bank loan", [hit])[0], index.explain("coins", [hit])[0]
    assert 0.5 < words.by_words < 1
    assert meaning.by_words == 0


def test_a_score_of_nothing_has_two_halves():
    hit = Hit("d", "s", 1, 0, 1, 0.0, "x", {}, from_words=0.0)
    assert module.words_share(hit, 0.0, 0.0) == 0.5
    assert module.words_share(dataclasses.replace(hit, score=-0.2), 1.0, 1.0) == 0.5


@pytest.mark.filterwarnings("ignore:the text is in")
def test_odd_texts_and_queries_are_explained(index):
    for text in (
        "",
        " ",
        "…",
        "🙂",
        "\u202e\x1b[31mmoney",
        "a" * 5000 + ". Money.",
        "한국어 문장.",
    ):
        for query in ("money", "the", "…", "水"):
            hit = Hit("d", "s", 1, 0, 1, 0.1, text, {})
            (why,) = index.explain(query, [hit])
            start, end = why.sentence
            assert 0 <= start <= end <= len(text)
            assert why.by_words + why.by_meaning == pytest.approx(1)
    assert index.explain("money", []) == []


def test_of_long_hits_the_sentences_with_most_words_are_read(index, monkeypatch):
    read = []
    encode = PassageEncoder.encode
    monkeypatch.setattr(
        PassageEncoder, "encode", lambda self, texts: read.append(texts) or encode(self, texts)
    )
    hit, why = explained(index, "day 7 at the mill", "story")
    assert texts(hit, why)[0] == "Day 7 was long and the mill stood still."
    sentences = [text for text in read[-1][1:] if text in hit.text and text not in TEXT]
    assert len(sentences) <= module.MAX_SENTENCES
    read.clear()
    index.explain("day 7 at the mill", [hit] * 150)
    assert read == []  # one sentence of each, chosen by words alone


def test_an_explanation_is_plain_values(index):
    _, why = explained(index, "money", "loan")
    assert why.to_dict() == {
        "sentence": (0, 30),
        "words": ((24, 29),),
        "by_words": why.by_words,
        "by_meaning": why.by_meaning,
    }
    assert np.isfinite(why.by_words)


def test_a_hit_as_json_does_not_have_its_parts(index):
    assert "from_words" not in index.search("money", 1)[0].to_dict()
