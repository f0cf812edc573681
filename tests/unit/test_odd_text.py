"""Odd input is embedded token for token, or an error says why not; nothing is dropped."""

import numpy as np
import pytest

ODD = {
    "empty": "",
    "spaces": "  \t  ",
    "a 10,000-letter word": "x" * 10_000,
    "emoji with joiners": "👩‍👩‍👧‍👦 👍🏽 🇰🇷 ✋🏿!",
    "right to left": "שלום עולם مرحبا بالعالم",
    "NUL and control characters": "a\x00b \x01 \x7f c\x1bd",
    "lone surrogates": "a\ud800b \udfff",
    "combining marks": "e\u0301te\u0301 ก็ हिन्दी",
    "Hangul and CJK": "한국어 문장입니다. 日本語の文章。中文句子！",
    "tabs": "a\tb\t\tc",
    "zero width": "a\u200bb\u200cc\ufeffd",
    "line separators": "a\u2028b\x85c\x0bd",
    "boundary strings": "<S> </S> <UNK>",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_text_is_embedded_token_for_token(tiny, text):
    tokens = tiny.tokens(text)
    layers = tiny.embed([text])[0]
    assert layers.shape == (3, len(tokens), 16)
    assert np.isfinite(layers).all()
    assert sorted("".join(text.split())) == sorted("".join(t.text for t in tokens))
    assert tiny.encode([text]).shape == (1, 16)


def test_a_sentence_of_5000_tokens_is_embedded(tiny):
    sentence = [f"word{i % 97}" for i in range(5000)]
    layers = tiny.embed([sentence, ["short"]])
    assert layers[0].shape == (3, 5000, 16)
    np.testing.assert_allclose(tiny.embed([["short"]])[0], layers[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("word", ["", "\x00", "\ud800", "<S>", "x" * 10_000])
def test_any_string_can_be_a_token_and_leaves_the_token_layer_of_others_alone(tiny, word):
    layers = tiny.embed([[word, "a"]])[0]
    assert layers.shape == (3, 2, 16)
    assert np.isfinite(layers).all()
    np.testing.assert_allclose(layers[0, 1], tiny.embed([["a"]])[0][0, 0], rtol=0, atol=1e-6)
