"""The character CNN on a CPU: the plain layer's vectors, whatever words stand beside a word."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from relmo import CharCnnConfig
from relmo.kernels import reference
from relmo.nn.token_layers import CharCnn, initialize
from relmo.runtime import engines
from relmo.runtime.engines import SHARED, CpuTokenLayer
from relmo.text.characters import make_characters
from tests.support.rows import assert_same_rows

ATOL = 2e-6
ODD = [
    "a",
    "bank",
    *("x" * n for n in range(40, 51)),
    "",
    "<S>",
    "</S>",
    "여행",
    "🙂",
    "ไม่เป็นไร" * 3,
]
WORDS = [*ODD, *(f"word{i}{'s' * (i % 9)}" for i in range(2 * SHARED))]
SMALL: dict[str, Any] = {"width": 8, "character_width": 4, "filters": ((1, 5), (7, 20))}
VARIANTS: dict[str, dict[str, Any]] = {
    "small": {},
    "tanh": {"activation": "tanh"},
    "no highway": {"num_highways": 0},
    "three highways": {"num_highways": 3},
    "no projection": {"width": 25, "has_projection": False},
    "a filter as long as a word": {"filters": ((50, 3),)},
    "very unlike filters": {"filters": ((49, 3), (1, 1))},
    "widest first": {"filters": ((6, 7), (2, 3), (6, 1))},
    "code points": {"scheme": "code_points", "alphabet": "abkn여행"},
    "few characters": {"max_characters": 9},
}


def make(**changes: Any) -> tuple[CharCnn, torch.Tensor]:
    config = CharCnnConfig(**{**SMALL, **changes})
    cnn = CharCnn(config)
    generator = torch.Generator().manual_seed(3)
    initialize(cnn, generator)
    for name, parameter in cnn.requires_grad_(False).named_parameters():
        if name.endswith("bias"):
            parameter.normal_(generator=generator)
    return cnn.eval(), torch.from_numpy(make_characters(config).spell(WORDS))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_vectors_are_those_of_the_plain_layer(changes, threads):
    cnn, words = make(**changes)
    words = torch.cat([words, torch.zeros_like(words[:2])])  # and words that are not there
    torch.testing.assert_close(CpuTokenLayer(cnn)(words), cnn(words), rtol=0, atol=ATOL)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_responses_are_those_of_the_reference(changes):
    cnn, words = make(**changes)
    wanted = reference.char_convolutions(cnn.embedding(words), cnn.filters(), cnn.activation)
    torch.testing.assert_close(CpuTokenLayer(cnn).features(words), wanted, rtol=0, atol=ATOL)


def test_in_the_official_shapes_vectors_are_exact_within_the_tolerance():
    cnn, words = make(width=128, character_width=16, filters=CharCnnConfig().filters)
    found = CpuTokenLayer(cnn)(words)
    exact = cnn.double()(words)
    torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=ATOL)


@pytest.mark.parametrize("max_bytes", [engines.TABLE_BYTES, 0], ids=["tables", "products"])
def test_a_word_has_the_same_bits_beside_any_others(max_bytes, threads, monkeypatch):
    monkeypatch.setattr(engines, "TABLE_BYTES", max_bytes)
    cnn, words = make(width=128, character_width=16, filters=CharCnnConfig().filters)
    tokens = CpuTokenLayer(cnn)
    together = tokens(words)
    for some in (slice(0, 1), slice(3, 5), slice(0, SHARED - 1), slice(1, SHARED + 1)):
        if max_bytes:
            assert torch.equal(tokens(words[some]), together[some])
        torch.testing.assert_close(tokens(words[some]), together[some], rtol=0, atol=1e-6)


def test_where_tables_would_be_too_large_convolutions_stay_products(monkeypatch):
    cnn, words = make()
    wanted = CpuTokenLayer(cnn)(words)
    monkeypatch.setattr(engines, "LetterTables", _refuse(engines.LetterTables))
    monkeypatch.setattr(engines, "TABLE_BYTES", 7 * 263 * 25 * 4 - 1)
    torch.testing.assert_close(CpuTokenLayer(cnn)(words), wanted, rtol=0, atol=ATOL)
    monkeypatch.setattr(engines, "TABLE_BYTES", 7 * 263 * 25 * 4)
    with pytest.raises(AssertionError, match="made"):
        CpuTokenLayer(cnn)


def test_memory_does_not_grow_with_the_number_of_words(threads):
    cnn, words = make()
    tokens, seen = CpuTokenLayer(cnn), []
    features = tokens.features
    tokens.features = lambda part: seen.append(len(part)) or features(part)
    many = words[torch.arange(5 * engines.WORDS_AT_ONCE + 1) % len(words)]
    assert_same_rows(tokens(many)[: len(words)], CpuTokenLayer(cnn)(words))
    assert max(seen) <= engines.WORDS_AT_ONCE


def test_no_words_give_no_vectors(threads):
    cnn, words = make()
    assert CpuTokenLayer(cnn)(words[:0]).shape == (0, 8)


def _refuse(kind: type) -> type:
    class Refusing(kind):  # type: ignore[misc]
        def __init__(self, *_: object) -> None:
            raise AssertionError("tables are made")

    return Refusing
