"""Places of words in a corpus, what is read there, and whitening."""

import numpy as np
import pytest

from relmo import Elmo
from relmo.errors import TextWarning
from relmo.senses import places
from relmo.senses.places import (
    Corpus,
    Pasted,
    Placed,
    Whitening,
    align,
    expected_elsewhere,
    read_states,
)

LINES = [
    "The bank lent money. We sat on the Bank.",
    "",
    "Bank of England.",
    "A bank, a bank!",
    "The bank lent money.",
    "Embankments are no banks.",
    "I can't and New York can.",
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_places_are_found_in_any_case_and_repeated_sentences_once(tiny, file):
    found = Corpus(tiny, [file]).places(["bank", "can't", "absent"], 100)
    shown = [place.text[place.start : place.end] for _, place, *_ in found["bank"]]
    assert shown == ["bank", "Bank", "Bank", "bank", "bank"]
    [(words, place, *_)] = found["can't"]
    assert words[place.position : place.position + place.tokens] == ("ca", "n't")
    assert found["absent"] == []


def test_passages_are_documents_or_parts_of_them(tiny, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a word 1 .\nA word 2 .\n\n" + "\n".join(f"a word {n} ." for n in range(3, 63)))
    found = Corpus(tiny, [path]).places(["word"], 100)["word"]
    assert [each.passage for each in found] == [1] * 2 + [2] * 50 + [3] * 10


def test_a_pasted_text_is_read_as_a_file_is(tiny, file):
    pasted = Corpus(tiny, Pasted("\r\n".join(LINES)))
    found = Corpus(tiny, [file]).places(["bank"], 100)["bank"]
    assert {each.file for each in found} == {str(file)}
    assert pasted.places(["bank"], 100)["bank"] == [each._replace(file="") for each in found]
    assert [each.line for each in found] == [1, 1, 3, 4, 4]


def test_a_text_without_blank_lines_has_20_passages_or_its_lines_in_a_file_or_pasted(
    tiny, tmp_path
):
    for lines, wanted in ((2, 2), (19, 19), (37, 37), (40, 20), (990, 21), (1050, 21), (1100, 22)):
        text = "\n".join(f"a word {n} ." for n in range(lines))
        (tmp_path / "text.txt").write_text(text)
        for source in (Pasted(text), [tmp_path / "text.txt"]):
            found = Corpus(tiny, source).places(["word"], 2000)["word"]
            assert len({each.passage for each in found}) == wanted
    parts = [tmp_path / f"{n}.txt" for n in range(30)]  # no blank lines, but files
    for n, path in enumerate(parts):
        path.write_text("\n".join(f"a word {n} {i} ." for i in range(10)))
    found = Corpus(tiny, parts).places(["word"], 2000)["word"]
    assert len({each.passage for each in found}) == 30


def test_places_are_the_same_however_the_word_is_typed(tiny):
    text = Pasted("The Bank of England is a central bank .\nBank holidays close the BANK .")
    for word in ("bank", "Bank", "BANK"):
        found = Corpus(tiny, text).places([word], 9)[word]
        shown = [place.text[place.start : place.end] for _, place, *_ in found]
        assert shown == ["Bank", "bank", "Bank", "BANK"]


def test_the_model_is_used_in_slices_where_others_use_it(tiny, file, monkeypatch):
    monkeypatch.setattr(places, "SLICE_TOKENS", 6)
    placed, costs = Corpus(tiny, [file]).places(["bank"], 9)["bank"], []
    shared = read_states(tiny, placed, False, lambda work, cost: costs.append(cost) or work())
    np.testing.assert_allclose(
        shared.expected, read_states(tiny, placed, False).expected, atol=1e-5
    )
    assert len(costs) > 1
    assert sum(costs) == sum(len(words) for words in {each.words for each in placed})


def test_many_words_are_found_as_few_are(tiny, file, monkeypatch):
    words = ["bank", "money", "can't", "embankments"]
    few = Corpus(tiny, [file]).places(words, 100)
    monkeypatch.setattr(places, "FEW_WORDS", 0)
    assert Corpus(tiny, [file]).places(words, 100) == few


def test_a_sample_is_even_and_the_same_for_the_same_seed(tiny, tmp_path):
    path = tmp_path / "many.txt"
    path.write_text("\n".join(f"word number {n} ." for n in range(400)))
    one, same, other = (
        Corpus(tiny, [path], seed).places(["word"], 50)["word"] for seed in (0, 0, 1)
    )
    assert one == same != other
    numbers = [int(words[2]) for words, *_ in one]
    assert len(set(numbers)) == 50
    assert 130 < np.mean(numbers) < 270


def test_states_are_those_around_the_word_and_never_see_it(tiny, file):
    found = Corpus(tiny, [file]).places(["bank", "can't"], 100)
    placed = [*found["bank"], *found["can't"]]
    states, P = read_states(tiny, placed, show=False), tiny.width // 2
    for row, (words, place, *_) in enumerate(placed):
        layers, _ = tiny.runtime.layers([list(words)])
        top = layers.values[-1, 0].numpy()  # boundaries included
        before, after = place.position, place.position + place.tokens + 1
        np.testing.assert_allclose(states.forward[row], top[before, :P], atol=1e-5)
        np.testing.assert_allclose(states.backward[row], top[after, P:], atol=1e-5)
    hidden = [
        Placed((*words[: place.position], "Xyz", *words[place.position + 1 :]), place)
        for words, place, *_ in found["bank"][:3]
    ]
    np.testing.assert_allclose(
        read_states(tiny, hidden, show=False).expected,
        read_states(tiny, found["bank"][:3], show=False).expected,
        atol=1e-5,
    )


def test_whitening_takes_away_what_all_places_share(monkeypatch):
    monkeypatch.setattr(places, "RIDGE", 0.0)
    rng = np.random.default_rng(0)
    others = (rng.normal(size=(5000, 4)) * [9, 1, 3, 1] + [5, 0, 0, 1]).astype(np.float32)
    whiten = Whitening(others)
    spread = (others - whiten.mean) @ whiten.axes
    np.testing.assert_allclose(np.cov(spread.T), np.eye(4), atol=1e-2)
    np.testing.assert_allclose(np.linalg.norm(whiten(others[:9]), axis=1), 1, atol=1e-5)


def test_few_other_lines_and_lines_without_rare_words_suffice(tiny):
    for lines in (["the the"], ["."], ["a b c .", "d e f ."]):
        whiten = Whitening(expected_elsewhere(tiny, lines))
        assert np.isfinite(whiten(np.eye(8, dtype=np.float32))).all()


def test_aligned_corpora_have_one_mean():
    rng = np.random.default_rng(0)
    corpora = [rng.normal(size=(n, 4)).astype(np.float32) + n for n in (5, 50)]
    one, other = ((v + s).mean(0) for v, s in zip(corpora, align(corpora), strict=True))
    np.testing.assert_allclose(one, other, atol=1e-4)
    np.testing.assert_allclose(align([corpora[0]] * 2), 0, atol=1e-6)


def test_a_script_that_the_model_does_not_know_is_told(tmp_path):
    path = tmp_path / "korean.txt"
    path.write_text("저는 오늘 은행 에 갔다 .", encoding="utf-8")
    elmo = Elmo.from_pretrained("relmo-en-small")
    placed = Corpus(elmo, [path]).places(["은행"], 9)["은행"]
    with pytest.warns(TextWarning, match="in Hangul script"):
        read_states(elmo, placed, show=False)
