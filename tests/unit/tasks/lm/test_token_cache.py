"""A corpus as ids on disk: ranked, split the same in every run, whole or not there."""

import json
import os
import shutil
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from relmo.errors import ConfigError, OutputError, TextError, WeightError
from relmo.files import locked
from relmo.tasks.lm import token_cache
from relmo.tasks.lm.token_cache import SPECIAL, CacheSettings, TokenCache, is_held_out, open_cache
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import make_tokenizer
from tests.support.leftovers import leftover

TEXT = "b a a . C a\nA b .\n\nc b a\n"
ALL = CacheSettings(held_out=0.0)
ODD = [
    "👩‍🚀 on the 🇰🇷 moon 👍🏽 .",
    "NUL \x00 and\x00inside , \x07 bell , \ufeff mark , zero\u200bwidth \ufffd",
    "one\u2028two\x85three\rfour\x0bfive\x1csix\u3000seven",
    "x" * 400 + " " + "é" * 400,
    "e\u0301a\u0300 n\u0303",
    "שלום עולם ! مرحبا بالعالم",
    "<UNK> is a word , <s> too",
    "\u200b",
]


def build(tmp_path, text: str | bytes, settings=ALL, workers=1, name="text.txt") -> TokenCache:
    """The cache of one file."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_cache([path], tmp_path / "cache", settings, workers)


def decode(cache: TokenCache, ids) -> list[str]:
    return [cache.words[i] for i in ids]


def documents_of(cache: TokenCache, part) -> list[str]:
    """Each document's words, without boundaries, joined by spaces."""
    ids = [part.document(i) for i in range(len(part.documents) - 1)]
    return [" ".join(decode(cache, each[each > 1])) for each in ids]


def contents(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_words_id_is_its_rank_after_the_special_words(tmp_path):
    cache = build(tmp_path, TEXT)
    assert cache.words == ["<S>", "</S>", "<UNK>", "a", "b", ".", "A", "C", "c"]
    assert cache.counts.tolist() == [4, 4, 0, 4, 3, 2, 1, 1, 1]
    assert SPECIAL == ("<S>", "</S>", "<UNK>")


def test_every_sentence_stands_between_its_boundaries_and_documents_one_after_the_other(tmp_path):
    part = build(tmp_path, TEXT).train
    a, b, dot, A, C, c = range(3, 9)
    first = [0, b, a, a, dot, 1, 0, C, a, 1, 0, A, b, dot, 1]
    assert part.tokens.tolist() == [*first, 0, c, b, a, 1]
    assert part.documents.tolist() == [0, 15, 20]
    assert part.document(0).tolist() == first
    assert part.document(1).tolist() == [0, c, b, a, 1]


@pytest.mark.parametrize("tokenizer", ["relmo", "whitespace"])
def test_ids_give_the_tokenizers_words_back(tokenizer, tmp_path):
    text = "\n".join(["It's 5 %. Mr. Hill didn't go!", *ODD])
    cache = build(tmp_path, text, CacheSettings(held_out=0.0, tokenizer=tokenizer))
    split = make_tokenizer(tokenizer).tokens
    wanted = []
    for line in text.split("\n"):
        for start, end in split_sentences(line):
            wanted += ["<S>", *(token.text for token in split(line[start:end])), "</S>"]
    assert decode(cache, cache.train.tokens) == wanted
    assert set(cache.words) == set(wanted) | set(SPECIAL)


def test_odd_words_have_a_line_of_words_txt_each(tmp_path):
    cache = build(tmp_path, "\n".join(ODD))
    lines = (cache.folder / "words.txt").read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert [line.decode() for line in lines] == cache.words
    assert len(set(cache.words)) == len(cache.words) == len(cache.counts)


def test_a_boundary_in_the_text_is_left_out(tmp_path):
    settings = CacheSettings(held_out=0.0, tokenizer="whitespace")
    cache = build(tmp_path, "<S> a b </S>\n</S>\na </S> <S> <UNK>\n\n<S>\n", settings)
    wanted = "<S> a b </S> <S> a <UNK> </S>"
    assert decode(cache, cache.train.tokens) == wanted.split()
    assert cache.counts.tolist() == [2, 2, 1, 2, 1]
    assert cache.train.documents.tolist() == [0, 8, 8]


def test_files_follow_each_other_and_end_a_document(tmp_path):
    (tmp_path / "1").write_text("a b")
    (tmp_path / "2").write_text("c")
    cache = open_cache([tmp_path / "1", tmp_path / "2"], tmp_path, ALL)
    assert documents_of(cache, cache.train) == ["a b", "c"]


def test_what_it_was_made_from_stands_beside_it(tmp_path):
    meta = json.loads((build(tmp_path, TEXT).folder / "meta.json").read_text())
    assert meta["tokens"] == {"train": 20, "held_out": 0}
    assert meta["documents"] == {"train": 2, "held_out": 0}
    assert (meta["version"], meta["tokenizer"], meta["seed"]) == (token_cache.VERSION, "relmo", 0)


def test_coverage_is_the_share_of_words_that_a_vocabulary_holds(tmp_path):
    cache = build(tmp_path, TEXT)
    shares = [cache.coverage(cache.words[:size]) for size in (0, 3, 4, 5, 9, 100)]
    assert shares == pytest.approx([0, 0, 4 / 12, 7 / 12, 1, 1])


def test_the_lexicon_is_the_first_words_or_all(tmp_path):
    cache = build(tmp_path, TEXT)
    assert cache.lexicon(5).words == ("<S>", "</S>", "<UNK>", "a", "b")
    assert cache.lexicon(5).rows(["b", "c"]).tolist() == [4, 2]
    assert cache.lexicon(100).words == tuple(cache.words)


NUMBERS = [f"of many documents this is {i}" for i in range(3000)]
TENTH = CacheSettings(held_out=0.1, tokenizer="whitespace")


def test_about_the_share_asked_for_is_held_out_and_all_else_is_trained_on(tmp_path):
    cache = build(tmp_path, "\n\n".join(NUMBERS), TENTH)
    train, held_out = (documents_of(cache, part) for part in (cache.train, cache.held_out))
    assert len(held_out) == pytest.approx(300, abs=60)  # 3.6 standard deviations
    assert sorted(train + held_out) == sorted(NUMBERS)
    assert len(cache.held_out.tokens) == 8 * len(held_out)


def test_a_document_is_on_the_same_side_whatever_else_is_in_the_corpus(tmp_path):
    cache = build(tmp_path, "\n\n".join(NUMBERS), TENTH)
    kept_out = set(documents_of(cache, cache.held_out))
    some = NUMBERS[2000:500:-3]
    other = build(tmp_path, "\n\n".join([*some, "another", "one"]), TENTH)
    assert set(documents_of(other, other.held_out)) & set(some) == kept_out & set(some)


def test_of_a_small_text_enough_is_held_out_to_be_scored(tmp_path, monkeypatch):
    monkeypatch.setattr(token_cache, "SMALL", 20_000)
    monkeypatch.setattr(token_cache, "FEW", 200)
    usual = CacheSettings(tokenizer="whitespace")
    cache = build(tmp_path, "\n\n".join(NUMBERS), usual)
    out = documents_of(cache, cache.held_out)
    assert 200 <= len(cache.held_out.tokens) < 400
    assert sorted(documents_of(cache, cache.train) + out) == sorted(NUMBERS)
    share = replace(usual, held_out=cache.meta["held_out_share"])
    assert out == [text for text in NUMBERS if is_held_out([text], share)], "the next by their hash"
    assert {text for text in NUMBERS if is_held_out([text], usual)} <= set(out)
    monkeypatch.setattr(token_cache, "SMALL", 30_000)
    smaller = build(tmp_path / "less", "\n\n".join(NUMBERS), usual)
    assert "held_out_share" not in smaller.meta


def test_of_many_documents_none_but_the_share_asked_for_is_held_out(tmp_path, monkeypatch):
    monkeypatch.setattr(token_cache, "SMALL", 20_000)
    monkeypatch.setattr(token_cache, "FEW", 200)
    cache = build(tmp_path, "\n\n".join(NUMBERS), TENTH)
    out = [text for text in NUMBERS if is_held_out([text], TENTH)]
    assert documents_of(cache, cache.held_out) == out
    assert "held_out_share" not in cache.meta


def test_another_seed_holds_other_documents_out(tmp_path):
    text = "\n\n".join(NUMBERS[:300])
    sides = []
    for seed in (0, 1):
        cache = build(tmp_path, text, CacheSettings(held_out=0.3, seed=seed))
        sides.append(set(documents_of(cache, cache.held_out)))
    assert sides[0] != sides[1]
    assert sides[0] & sides[1]


def test_words_of_held_out_documents_alone_count_zero_and_come_last(tmp_path):
    texts = [f"w{i} same" for i in range(40)]
    cache = build(tmp_path, "\n\n".join(texts), CacheSettings(held_out=0.3))
    unseen = {document.split()[0] for document in documents_of(cache, cache.held_out)}
    assert unseen
    assert set(cache.words[-len(unseen) :]) == unseen
    assert not cache.counts[-len(unseen) :].any()
    assert cache.counts[3:].tolist() == sorted(cache.counts[3:].tolist(), reverse=True)


def test_two_workers_make_the_same_bytes_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(token_cache, "CHUNK_CHARACTERS", 300)  # many chunks, some out of order
    text = "\n\n".join([*NUMBERS[:60], *ODD, *NUMBERS[30:90]])
    settings = CacheSettings(held_out=0.2)
    folder = build(tmp_path, text, settings).folder
    one = contents(folder)
    shutil.rmtree(folder)
    assert contents(build(tmp_path, text, settings, workers=2).folder) == one


def test_chunks_and_pieces_of_any_size_make_the_same_bytes(tmp_path, monkeypatch):
    text = "\n\n".join(NUMBERS[:50] + ODD)
    folder = build(tmp_path, text, TENTH).folder
    wanted = contents(folder)
    for size in (1, 1000):
        shutil.rmtree(folder)
        monkeypatch.setattr(token_cache, "CHUNK_CHARACTERS", size)
        monkeypatch.setattr(token_cache, "PIECE", size)
        assert contents(build(tmp_path, text, TENTH).folder) == wanted


def test_a_second_call_reads_what_the_first_made(tmp_path, monkeypatch):
    first = build(tmp_path, TEXT)
    monkeypatch.setattr(token_cache, "_Writer", None)
    second = build(tmp_path, TEXT, workers=2, name="under another name.txt")
    assert second.folder == first.folder
    assert second.words == first.words
    np.testing.assert_array_equal(second.train.tokens, first.train.tokens)


def test_another_text_or_setting_has_a_folder_of_its_own(tmp_path):
    settings = [
        ALL,
        CacheSettings(held_out=0.0, tokenizer="whitespace"),
        CacheSettings(held_out=0.0, seed=1),
        CacheSettings(held_out=0.01),
    ]
    folders = {build(tmp_path, TEXT, each).folder for each in settings}
    folders.add(build(tmp_path, TEXT + "more").folder)
    assert len(folders) == 5


def test_the_order_of_files_counts(tmp_path):
    paths = [tmp_path / "1", tmp_path / "2"]
    for path in paths:
        path.write_text(f"file {path.name}")
    there, back = (open_cache(each, tmp_path / "cache", ALL) for each in (paths, paths[::-1]))
    assert documents_of(there, there.train) == documents_of(back, back.train)[::-1]


def test_what_an_interrupted_build_left_is_made_anew(tmp_path):
    folder = build(tmp_path, TEXT).folder
    wanted = contents(folder)
    (folder / "meta.json").unlink()
    (folder / "train.u32").write_bytes(b"half")
    temporary = folder.with_name(leftover(folder.name))
    temporary.mkdir()
    (temporary / "train.u32").write_bytes(b"old ids that must not stay")
    assert contents(build(tmp_path, TEXT).folder) == wanted
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", [*token_cache.FILES, "meta.json"])
def test_a_damaged_file_is_named(tmp_path, name):
    path = build(tmp_path, TEXT * 20, CacheSettings(held_out=0.3)).folder / name
    path.write_bytes(b"\x01" + path.read_bytes()[1:])
    with pytest.raises(WeightError, match=f"{name}: (damaged .* delete .*tokens-|not valid JSON)"):
        build(tmp_path, TEXT * 20, CacheSettings(held_out=0.3))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.u32", b"abc"), ("train.u32", b""), ("train.u32", b"\xff"), ("words.txt", b"\xff\n"),
        ("words.txt", b"a\n"), ("meta.json", b"{}"), ("meta.json", b'{"tokens": 5}'),
        ("train.docs", np.array([0, 10**12]).tobytes()), ("held_out.docs", b""),
        ("held_out.docs", np.array([-5, 10**12]).tobytes()), ("counts.u64", b"x" * 8),
        ("train.docs", None), ("train.u32", None), ("counts.u64", b"x"), ("train.chars", b"x" * 8),
    ],
)  # fmt: skip
def test_files_that_do_not_belong_together_are_refused(tmp_path, name, content):
    """Without checksums, too, and a pipe is not waited for."""
    path = build(tmp_path, TEXT).folder / name
    (path.parent / "SHA256SUMS").unlink()
    size = path.stat().st_size
    path.unlink()
    if content is None:
        os.mkfifo(path)
    else:  # ids of no word, as many as there were
        path.write_bytes(content * size if content == b"\xff" else content)
    with pytest.raises(WeightError, match="damaged .* delete .*tokens-"):
        build(tmp_path, TEXT)


def test_a_cache_of_an_earlier_release_is_used(tmp_path):
    before = build(tmp_path, TEXT)
    (before.folder / "SHA256SUMS").unlink()
    assert build(tmp_path, TEXT).words == before.words


def test_a_second_process_waits_for_the_cache(tmp_path, monkeypatch):
    folder = build(tmp_path, TEXT).folder
    folder.rename(tmp_path / "aside")
    monkeypatch.setattr(token_cache, "_build", None)  # calling it would fail
    found = []
    with locked(folder.with_name(f"{folder.name}.lock")):  # as the process that builds it does
        waiting = threading.Thread(target=lambda: found.append(build(tmp_path, TEXT).folder))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        (tmp_path / "aside").rename(folder)
    waiting.join(20)
    assert found == [folder]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_build_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "bad").write_bytes(b"\xff")
    (tmp_path / "good").write_text(TEXT)
    with pytest.raises(TextError, match="bad: line 1 is not UTF-8"):
        open_cache([tmp_path / "good", tmp_path / "bad"], tmp_path / "cache", ALL)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("text", ["", "\n \n\t\n", "\ufeff"])
def test_a_corpus_without_words_is_refused(text, workers, tmp_path):
    with pytest.raises(TextError, match=r"no words to train on in .*text\.txt"):
        build(tmp_path, text, workers=workers)


def test_no_files_at_all_are_refused(tmp_path):
    with pytest.raises(TextError, match="no words to train on in no files"):
        open_cache([], tmp_path, ALL)


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(TextError, match="gone: cannot be read"):
        open_cache([tmp_path / "gone"], tmp_path, ALL)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_that_leaves_nothing_to_train_on_is_refused(share):
    with pytest.raises(ConfigError, match="held_out must be a number ≥ 0 and < 1"):
        CacheSettings(held_out=share)


def test_an_unknown_tokenizer_is_refused():
    with pytest.raises(ConfigError, match="tokenizer must be one of .*, got 'spacy'"):
        CacheSettings(tokenizer="spacy")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(
        OutputError, match=r"cannot write .*cache.*; check that the folder is writable"
    ):
        build(tmp_path, TEXT)


def test_wherever_the_disk_is_full_it_is_said_and_nothing_is_left(tmp_path):
    resource = pytest.importorskip("resource", reason="only Unix bounds the size of files")
    text = "\n\n".join(NUMBERS[:100])
    folder = build(tmp_path, text, TENTH).folder
    wanted = contents(folder)
    shutil.rmtree(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sizes = sorted({len(raw) for raw in wanted.values()})
    for size in sizes:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, hard))
            with pytest.raises(OutputError, match="there is space on the disk"):
                open_cache([tmp_path / "text.txt"], tmp_path / "cache", TENTH)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert list(folder.parent.iterdir()) == []
    assert contents(build(tmp_path, text, TENTH).folder) == wanted


def test_a_worker_that_dies_is_explained(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    script = tmp_path / "without_a_guard.py"
    script.write_text(
        "from pathlib import Path\n"
        "from relmo.tasks.lm.token_cache import CacheSettings, open_cache\n"
        "open_cache([Path('text.txt')], Path('.'), CacheSettings(held_out=0.0), workers=2)\n"
    )
    run = [sys.executable, str(script)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "RelmoError: a worker process that tokenizes text died" in done.stderr
    assert not list(tmp_path.glob("tokens-*"))


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(token_cache, "CHUNK_CHARACTERS", 20_000)
    monkeypatch.setattr(token_cache, "PIECE", 1000)
    peaks = []
    for num_documents in (100, 800):  # 0.5 and 4 MB
        document = "\n".join(["long " * 3 + "word" * 100] * 12)
        path = tmp_path / "text.txt"
        path.write_text("\n\n".join(f"{i % 50}\n{document}" for i in range(num_documents)))
        tracemalloc.start()
        cache = open_cache([path], tmp_path, TENTH)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert sum(cache.meta["tokens"].values()) == num_documents * (3 + 12 * 6)
    assert peaks[1] < 1.2 * peaks[0]


def test_a_name_that_fills_one_document_is_not_a_common_word(tmp_path):
    text = "Zorro " * 50 + "\n\n" + "\n\n".join(["the cat"] * 4) + "\n"
    cache = build(tmp_path, text)
    assert cache.words[3:] == ["cat", "the", "Zorro"]
    assert cache.counts[3:].tolist() == [4, 4, 50]


def test_some_documents_are_split_as_treebanks_are(tmp_path):
    text = "".join(f"a well-known man number {i} of 1,000\n\n" for i in range(200))
    cache = build(tmp_path, text, CacheSettings(held_out=0.0, whole=0.3))
    whole, parts = cache.words.index("well-known"), cache.words.index("well")
    counts = cache.counts.tolist()
    assert counts[whole] + counts[parts] == 200
    assert 30 < counts[whole] < 90
    assert counts[cache.words.index("1,000")] == counts[whole]


def test_compounds_that_are_kept_whole_stay_out_of_the_softmax(tmp_path):
    text = "".join(f"a well-known man number {i} of 1,000\n\n" for i in range(200))
    cache = build(tmp_path, text, CacheSettings(held_out=0.0, whole=0.3))
    assert cache.words.index("well-known") > cache.words.index("well")
    assert cache.words.index("1,000") > cache.words.index("000")


def test_held_out_documents_are_never_kept_whole(tmp_path):
    text = "".join(f"a well-known man number {i}\n\n" for i in range(400))
    cache = build(tmp_path, text, CacheSettings(held_out=0.3, whole=0.5))
    assert len(cache.held_out.documents) > 50
    assert not (cache.held_out.tokens == cache.words.index("well-known")).any()


@pytest.mark.parametrize("name", ["held_out", "whole"])
def test_a_share_is_below_one(name):
    with pytest.raises(ConfigError, match=f"{name} must be a number ≥ 0 and < 1, got 1.5"):
        CacheSettings(**{name: 1.5})


@pytest.mark.parametrize("text", [
    "".join(f"line {i} of a single document\n" for i in range(1000)),
    "\n\n".join(f"chapter {n}\n" + "".join(f"{n} and {i}\n" for i in range(40)) for n in range(19)),
    "one\ntwo\nthree\n",
])  # fmt: skip
def test_of_few_documents_blocks_of_lines_are_held_out(tmp_path, text):
    settings = CacheSettings()
    cache = build(tmp_path, text, settings)
    parts = [documents_of(cache, part) for part in (cache.train, cache.held_out)]
    assert all(parts)
    words = [len(" ".join(part).split()) for part in parts]
    assert words[1] <= max(0.06 * sum(words), 1)
    assert sum(words) == len(text.split())
    assert cache.meta["held_out_blocks"] >= 1
    assert contents(build(tmp_path / "again", text, settings).folder) == contents(cache.folder)


def test_nothing_is_held_out_unless_asked_for(tmp_path):
    cache = build(tmp_path, "one\ntwo\nthree\n", ALL)
    assert not len(cache.held_out.tokens)
    assert "held_out_blocks" not in cache.meta
