"""A query with typing errors is searched for as it was meant, all others as they are."""

import random
import string

import pytest

from relmo.search import Document, IndexSettings, SemanticIndex
from relmo.search.lexical import make_analyzer
from relmo.search.spelling import MAX_WORDS, Speller, neighbors
from relmo.search.sqlite import SqliteStore
from relmo.text.lexicon import SPECIAL, Lexicon
from tests.support.toy_search import entry

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
TEXTS = [
    "the boundary layer of a wing",
    "pressure on a wing in hypersonic flow",
    "the boundary of the flow",
    "the bank lends money",
    "fish in the river",
    "Überschall strömung",
]


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "index", create=True)
    opened.write_header("{}", b"")
    yield opened
    opened.close()


def speller(store, texts=TEXTS, language="english", words=None):
    """One that corrects to the words of these texts."""
    analyze = make_analyzer(language)
    entries = [entry(str(number), [text]) for number, text in enumerate(texts)]
    for each in entries:
        object.__setattr__(each, "terms", [analyze(each.document.text)])
    store.replace(entries)
    lexicon = None if words is None else Lexicon([*SPECIAL, *words])
    return Speller(store, language, analyze, lexicon)


@pytest.mark.parametrize(
    "query", ["boundary layers", "The BANK", "", " ?!", "a 1950s 😀", "x" * 999]
)
def test_a_query_of_known_words_stays_exactly_as_it_is(store, query):
    found = speller(store).correct(query)
    assert found.text is query
    assert found.terms == dict.fromkeys(make_analyzer("english")(query), 1)
    assert found.changes == ()


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("boundry", "boundary"),
        ("bouundary", "boundary"),
        ("bounfary", "boundary"),
        ("boundayr", "boundary"),
        ("oundary", "boundary"),
        (
            "pressuer",
            "pressure",
        ),  # an error in the suffix: its stem is no neighbor of the right one
        ("Boundry", "Boundary"),
        ("BOUNDRY", "BOUNDARY"),
        ("oBundary", "Boundary"),
        ("thwe", "the"),
    ],
)
def test_one_wrong_letter_is_corrected(store, wrong, meant):
    words = ["boundary", "pressure", "the"]
    found = speller(store, words=words).correct(f"  {wrong}, layer")
    assert found.text == f"  {meant}, layer"
    assert found.changes == ((wrong, meant),)
    assert found.terms.keys() == set(make_analyzer("english")(found.text))


def test_two_wrong_letters_numbers_and_short_words_are_left(store):
    query = "bondry wign layr2 bnk 1951 on the flow in a river"
    found = speller(store).correct(query)
    assert found.text == query.replace("wign", "wing")
    assert found.changes == (("wign", "wing"),)


def test_a_word_that_the_vocabulary_has_is_right_though_no_passage_has_it(store):
    own = speller(store, words=["bang", "Flaw", "wing"])
    assert own.correct("a bang, a flaw").changes == ()
    assert own.correct("a bang on the wnig").changes == (("wnig", "wing"),)
    assert own.correct("bang flaw wingg boundry fissh").text == "bank flow wing boundary fish"


def test_short_words_are_corrected_beside_others_that_are_wrong(store):
    own = speller(store, ["the old car", "roads of the town"])
    assert own.correct("caz").text == "caz"
    assert own.correct("olx caz roadss").text == "old car roads"


def test_the_other_words_decide_between_candidates(store):
    own = speller(store, ["a low bridge", "slow trains", "slow ships", "slow days"])
    assert own.correct("xlow").text == "slow"
    found = own.correct("xlow bridge")
    assert found.text == "low bridge"
    assert found.terms["low"] > found.terms["slow"] > 0
    assert found.terms["low"] + found.terms["slow"] == pytest.approx(found.terms["bridg"]) == 1


def test_words_are_preferred_to_other_strings_with_their_stem(store):
    texts = ["results", "results", "results", "resolution"]
    assert speller(store, texts, words=["resolution"]).correct("resoultion").text == "resolution"


def test_other_scripts_are_corrected_and_ideographs_are_left(store):
    own = speller(store, [*TEXTS, "погода в городе", "北京大学"], "none")
    assert own.correct("погдоа").text == "погода"
    assert own.correct("Uberschall").text == "Uberschall"  # no letter of its alphabet
    assert own.correct("東京大学").text == "東京大学"
    german = speller(store, TEXTS, "none", ["für", "über"])
    assert german.correct("Uberschall").text == "Überschall"


def test_a_long_text_is_searched_for_as_it_is(store):
    lot = random.Random(0)
    text = " ".join("".join(lot.choices(string.ascii_lowercase, k=5)) for _ in range(MAX_WORDS))
    own = speller(store)
    assert own.correct(f"boundry {text}").changes == ()
    assert own.correct(f"boundry {text[: len(text) // 2]}").changes == (("boundry", "boundary"),)


def test_decomposed_letters_are_read_as_composed(store):
    found = speller(store, language="none").correct("stro\u0308mumg")
    assert (found.text, found.changes) == ("strömung", (("strömumg", "strömung"),))


def test_neighbors_are_all_strings_one_change_away():
    assert neighbors("ab", "ac") == {
        *("a", "b", "ba"),
        *("cb", "aa", "ac"),
        *("aab", "cab", "acb", "aba", "abc"),
    }
    assert neighbors("aa", "a") == {"a", "aaa"}


@pytest.fixture
def index(tiny, tmp_path):
    settings = IndexSettings(passages="sentence")
    documents = [Document(str(n), "notes", text) for n, text in enumerate(TEXTS)]
    with SemanticIndex.build(tmp_path / "i", documents, settings=settings, elmo=tiny) as built:
        yield built


@pytest.mark.parametrize("hybrid", [False, True])
def test_an_index_is_searched_for_the_corrected_query(index, hybrid):
    right = index.search("boundary layer", 3, hybrid=hybrid, correct=False)
    assert index.search("boundary layer", 3, hybrid=hybrid) == right
    assert index.search("boundry layer", 3, hybrid=hybrid) == right
    assert index.search("boundry layer", 3, hybrid=hybrid, correct=False) != right
    assert index.correct("boundry layer").changes == (("boundry", "boundary"),)
    assert index.search("boundry layer", 3, hybrid=hybrid, max_seconds=9) == right


def test_what_was_added_is_known(index):
    assert index.correct("boundry").text == "boundary"
    index.add([Document("new", "notes", "Boundry, a village.")])
    assert index.correct("boundry").changes == ()
    index.delete(["new"])
    assert index.correct("boundry").text == "boundary"
