"""Layers that are computed once: the same vectors, whole or not there at all."""

import json
import threading

import numpy as np
import pytest
import torch

from relmo import Elmo
from relmo.errors import ConfigError, OutputError
from relmo.tasks import layer_cache
from relmo.tasks.layer_cache import ON_DEVICE_BYTES, open_layers, room_on
from relmo.vectors.lock import open_locked
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
    found = open_layers(elmo, SENTENCES, tmp_path)(SENTENCES)  # (L + 1, B, T, D)
    assert found.shape == (3, 6, 4 + 1, 16)
    for b, vectors in enumerate(elmo.embed([list(s) for s in SENTENCES])):
        T = vectors.shape[1]
        np.testing.assert_allclose(found[:, b, :T], vectors, atol=2e-3, rtol=1e-3)
        assert not found[:, b, T:].any()
    torch.testing.assert_close(
        found.float(), layers_of(elmo)(SENTENCES), atol=2e-3, rtol=1e-3, check_stride=False
    )


def test_layers_are_computed_once(elmo, tmp_path):
    first = open_layers(elmo, SENTENCES, tmp_path)
    again = open_layers(elmo, iter([*SENTENCES, *SENTENCES[::-1], ()]), tmp_path)
    assert elmo.streams == 1
    assert torch.equal(first(SENTENCES), again(SENTENCES))
    assert len(caches(tmp_path)) == 1
    assert first.meta["shape"] == [12, 3, 16]
    assert first.meta["bytes"] == (tmp_path / caches(tmp_path)[0] / "layers.npy").stat().st_size


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
    open_layers(elmo, one, tmp_path)
    found = open_layers(elmo, two, tmp_path)
    assert len(caches(tmp_path)) == 2
    want = elmo.embed([list(s) for s in two])
    for sentence, vectors in zip(two, want, strict=True):
        np.testing.assert_allclose(found([sentence])[:, 0], vectors, atol=2e-3)


def test_another_model_never_meets_a_cache(elmo, tmp_path):
    other = Elmo.untrained(tiny_config(), seed=2)
    one = open_layers(elmo, SENTENCES, tmp_path)(SENTENCES)
    two = open_layers(other, SENTENCES, tmp_path)(SENTENCES)
    assert len(caches(tmp_path)) == 2
    assert not torch.allclose(one, two, atol=1e-2)


def test_sentences_without_words_are_read(elmo, tmp_path):
    for sentences in ([], [()], [(), ()]):
        found = open_layers(elmo, sentences, tmp_path)
        assert found([(), ()]).shape == (3, 2, 0, 16)


def test_a_sentence_that_was_not_cached_is_our_own_mistake(elmo, tmp_path):
    with pytest.raises(KeyError):
        open_layers(elmo, SENTENCES, tmp_path)([("other",)])


# ── torn ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("damage", ["cut", "no layers", "no meta", "torn meta", "empty"])
def test_a_damaged_cache_is_made_anew(elmo, tmp_path, damage):
    want = open_layers(elmo, SENTENCES, tmp_path)(SENTENCES)
    place = tmp_path / caches(tmp_path)[0]
    layers, meta = place / "layers.npy", place / "meta.json"
    if damage == "cut":
        layers.write_bytes(layers.read_bytes()[:-100])
    if damage in ("no layers", "empty"):
        layers.unlink()
    if damage in ("no meta", "empty"):
        meta.unlink()
    if damage == "torn meta":
        meta.write_text(meta.read_text()[:20])
    assert torch.equal(open_layers(elmo, SENTENCES, tmp_path)(SENTENCES), want)
    assert elmo.streams == 2
    assert caches(tmp_path) == [place.name]


def test_an_interrupt_leaves_nothing_behind(elmo, tmp_path, monkeypatch):
    def stop(*args, **options):
        yield from list(Elmo.embed_stream(elmo, *args, **options))[:2]
        raise KeyboardInterrupt

    monkeypatch.setattr(elmo, "embed_stream", stop)
    with pytest.raises(KeyboardInterrupt):
        open_layers(elmo, SENTENCES, tmp_path)
    assert caches(tmp_path) == []


def test_what_a_killed_process_left_is_swept_away(elmo, tmp_path):
    open_layers(elmo, SENTENCES, tmp_path)
    place = tmp_path / caches(tmp_path)[0]
    place.rename(tmp_path / f"{place.name}.12345.tmp")
    (tmp_path / f"{place.name}.lock").touch()  # the system let go of it
    open_layers(elmo, SENTENCES, tmp_path)
    assert elmo.streams == 2
    assert caches(tmp_path) == [place.name]


def test_who_comes_while_it_is_made_waits_and_finds_it_made(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache, "PAUSE", 0.01)
    open_layers(elmo, SENTENCES, tmp_path)
    place = tmp_path / caches(tmp_path)[0]
    place.rename(tmp_path / "aside")
    lock = open_locked(tmp_path / f"{place.name}.lock")  # as the process does that makes it
    found = []
    waiting = threading.Thread(target=lambda: found.append(open_layers(elmo, SENTENCES, tmp_path)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    (tmp_path / "aside").rename(place)
    lock.close()
    waiting.join(20)
    assert torch.equal(found[0](SENTENCES), open_layers(elmo, SENTENCES, tmp_path)(SENTENCES))
    assert elmo.streams == 1
    assert caches(tmp_path) == [place.name]


# ── refused ─────────────────────────────────────────────────────────────────────────────────


def test_a_cache_that_would_be_too_large_is_refused(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"layers of 12 tokens .* use a smaller model or less"):
        open_layers(elmo, SENTENCES, tmp_path)
    assert caches(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(elmo, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose a folder that can be created"):
        open_layers(elmo, SENTENCES, tmp_path / "file" / "cache")


def test_the_record_of_a_cache_is_plain_json(elmo, tmp_path):
    found = open_layers(elmo, SENTENCES, tmp_path)
    assert json.loads(json.dumps(found.meta)) == found.meta
    assert found.meta["model"] == "tiny"


def test_layers_stay_on_the_host_where_a_gpu_has_no_room(monkeypatch):
    free = 10 * 2**30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 80 * 2**30))
    assert room_on(torch.device("cuda")) == free // 2
    free = 10**15
    assert room_on(torch.device("cuda")) == ON_DEVICE_BYTES
    assert room_on(torch.device("cpu")) == 0
