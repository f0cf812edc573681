"""ELMo's layers of a dataset: computed once, looked up by the words of a sentence."""

import json

import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.errors import ConfigError, Interrupted
from relmo.tasks import layer_cache
from relmo.tasks.inputs import InputSettings, make_elmo_layer
from relmo.tasks.layer_cache import ON_DEVICE_BYTES, LayerCache, free_bytes
from tests.conftest import tiny_config

pytestmark = pytest.mark.filterwarnings("ignore::relmo.errors.TextWarning")  # words with spaces
SENTENCES = [
    ("The", "bank", "raised", "rates"), (), ("the",), ("naïve", "😀", "x" * 70, "שלום", "\ud800"),
    ("a\x00b", "c\nd"), ("The", "bank", "raised", "rates"),
]  # fmt: skip


class Counting(Elmo):
    """Counts how often a stream of vectors is asked for."""

    streams = 0

    def embed_stream(self, *args, **options):
        self.streams += 1
        return super().embed_stream(*args, **options)


@pytest.fixture
def elmo(tiny):
    return Counting(tiny.bilm)


def caches(folder):
    return sorted(p.name for p in folder.iterdir())


def test_cached_layers_are_those_of_the_model_within_float16(elmo, tmp_path):
    found = LayerCache(elmo, SENTENCES, tmp_path)(SENTENCES)  # (L + 1, B, T, D)
    assert found.shape == (3, 6, 4 + 1, 16)
    for b, vectors in enumerate(elmo.embed([list(s) for s in SENTENCES])):
        T = vectors.shape[1]
        np.testing.assert_allclose(found[:, b, :T], vectors, atol=2e-3, rtol=1e-3)
        assert not found[:, b, T:].any()
    layer = make_elmo_layer(elmo, InputSettings())
    torch.testing.assert_close(
        found.float(), layer.read(SENTENCES).values, atol=2e-3, rtol=1e-3, check_stride=False
    )


def test_layers_are_computed_once(elmo, tmp_path):
    first = LayerCache(elmo, SENTENCES, tmp_path)
    again = LayerCache(elmo, iter([*SENTENCES, *SENTENCES[::-1], ()]), tmp_path)
    assert elmo.streams == 1
    assert torch.equal(first(SENTENCES), again(SENTENCES))
    assert len(caches(tmp_path)) == 1
    assert first.meta["shape"] == [12, 3, 16]
    assert first.meta["bytes"] == (tmp_path / caches(tmp_path)[0] / "layers.npy").stat().st_size


def test_an_interrupted_reading_goes_on_where_it_stopped(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache, "PART_TOKENS", {"cpu": 4})  # three parts
    whole = LayerCache(elmo, SENTENCES, tmp_path / "whole")(SENTENCES)
    assert elmo.streams == 3
    with monkeypatch.context() as patch:
        patch.setattr(layer_cache.Work, "advance", interrupt_in_the_second_part)
        with pytest.raises(Interrupted, match="4 of 12 tokens read by ELMo are kept in"):
            LayerCache(elmo, SENTENCES, tmp_path / "run")
    elmo.streams = 0
    assert torch.equal(LayerCache(elmo, SENTENCES, tmp_path / "run")(SENTENCES), whole)
    assert elmo.streams == 2
    assert caches(tmp_path / "run") == caches(tmp_path / "whole")


def interrupt_in_the_second_part(work, count=1):
    work.done += count
    if work.done > 4:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([("a", "b")], [("a",), ("b",)]),
        ([("a", "b")], [("ab",)]),
        ([("a\x00b",)], [("a", "b")]),
        ([("a\nb",)], [("a",), ("b",)]),
        ([("a",), ("b",)], [("b",), ("a",)]),
    ],
)
def test_other_sentences_never_meet_a_cache(elmo, tmp_path, one, two):
    LayerCache(elmo, one, tmp_path)
    found = LayerCache(elmo, two, tmp_path)
    assert len(caches(tmp_path)) == 2
    want = elmo.embed([list(s) for s in two])
    for sentence, vectors in zip(two, want, strict=True):
        np.testing.assert_allclose(found([sentence])[:, 0], vectors, atol=2e-3)


def test_another_model_never_meets_a_cache(elmo, tmp_path):
    other = Elmo.untrained(tiny_config(), seed=2)
    one = LayerCache(elmo, SENTENCES, tmp_path)(SENTENCES)
    two = LayerCache(other, SENTENCES, tmp_path)(SENTENCES)
    assert len(caches(tmp_path)) == 2
    assert not torch.allclose(one, two, atol=1e-2)


def test_sentences_without_words_are_read(elmo, tmp_path):
    for sentences in ([], [()], [(), ()]):
        found = LayerCache(elmo, sentences, tmp_path)
        assert found([(), ()]).shape == (3, 2, 0, 16)


def test_a_sentence_that_was_not_cached_is_our_own_mistake(elmo, tmp_path):
    with pytest.raises(KeyError):
        LayerCache(elmo, SENTENCES, tmp_path)([("other",)])


def test_a_cache_that_would_be_too_large_is_refused(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"layers of 12 tokens .* use a smaller model or less"):
        LayerCache(elmo, SENTENCES, tmp_path)
    assert caches(tmp_path) == []


def test_the_record_of_a_cache_is_plain_json(elmo, tmp_path):
    found = LayerCache(elmo, SENTENCES, tmp_path)
    assert json.loads(json.dumps(found.meta)) == found.meta
    assert found.meta["model"] == "tiny"


def test_layers_stay_on_the_host_where_a_gpu_has_no_room(monkeypatch):
    free = 10 * 2**30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 80 * 2**30))
    assert free_bytes(torch.device("cuda")) == free // 2
    free = 10**15
    assert free_bytes(torch.device("cuda")) == ON_DEVICE_BYTES
    assert free_bytes(torch.device("cpu")) == 0
