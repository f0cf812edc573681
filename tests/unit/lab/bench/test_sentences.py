"""Text to measure on."""

import pytest

from relmo import Elmo
from relmo.errors import ConfigError, TextError
from relmo.lab.bench.sentences import (
    BATCHES,
    LATENCY_TOKENS,
    cases_of_round,
    invent_words,
    load_sentences,
    of_length,
    synthetic_sentences,
    take,
)
from relmo.text.lexicon import Lexicon


def test_synthetic_sentences_are_as_long_as_real_ones_and_repeat_words(tiny):
    found = synthetic_sentences(tiny, 2000)
    lengths = [len(words) for words in found]
    assert 18 < sum(lengths) / len(lengths) < 26
    assert min(lengths) >= 3
    assert len({word for words in found for word in words}) < sum(lengths) / 2
    assert found == synthetic_sentences(tiny, 2000)
    assert found != synthetic_sentences(tiny, 2000, seed=1)


def test_a_models_own_words_are_used_where_it_has_a_list(tiny):
    lexicon = Lexicon(["<S>", "</S>", "<UNK>", "the", "bank"])
    found = synthetic_sentences(Elmo(tiny.bilm, lexicon), 10)
    assert {word for words in found for word in words} == {"the", "bank"}


def test_invented_words_are_distinct_and_the_first_are_short():
    words = invent_words(20_000)
    assert len(set(words)) == 20_000
    assert max(map(len, words[:50])) <= 4


def test_a_file_gives_its_lines_that_hold_words(tiny, tmp_path):
    (tmp_path / "in.txt").write_text("The bank raised rates.\n\n  \nIt did.\n")
    found = load_sentences(tmp_path / "in.txt", tiny)
    assert found == [["The", "bank", "raised", "rates", "."], ["It", "did", "."]]
    (tmp_path / "blank.txt").write_text("\n\n")
    with pytest.raises(TextError, match="contains no words"):
        load_sentences(tmp_path / "blank.txt", tiny)
    with pytest.raises(ConfigError, match="no such file"):
        load_sentences(tmp_path / "missing.txt", tiny)


def test_a_short_text_is_read_again_from_its_beginning():
    sentences = [["a"], ["b", "c"]]
    assert take(sentences, 3, 3) == [["b", "c"], ["a"], ["b", "c"]]
    assert of_length(sentences, 5) == ["a", "b", "c", "a", "b"]


def test_rounds_share_no_sentence_while_the_text_lasts():
    sentences = [[f"{i}"] * 30 for i in range(1000)]
    first, second = (
        {words[0] for case in cases_of_round(sentences, n)[1:] for words in case.sentences}
        for n in (0, 1)
    )
    assert not first & second
    single, *batches = cases_of_round(sentences, 0)
    assert single.tokens == LATENCY_TOKENS
    assert [len(case.calls[0]) for case in batches] == list(BATCHES)
