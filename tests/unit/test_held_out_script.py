"""scripts/held_out.py: the documents that pretraining keeps out, without copies of the others."""

import json
import lzma
import random

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.tasks.lm.token_cache import CacheSettings, CorpusPart, is_held_out
from relmo.text.documents import read_documents
from scripts import held_out
from scripts.held_out import copied_shares

RNG = random.Random(0)


def document() -> str:
    """Two lines of words that hardly occur twice."""
    return "\n".join(" ".join(f"w{RNG.randrange(10**6)}" for _ in range(20)) for _ in range(2))


def held_out_document() -> str:
    """One that the recipes keep out of training."""
    while not is_held_out((text := document()).split("\n"), CacheSettings()):
        pass
    return text


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A corpus of two files and one of another name, with a copy among the held-out documents."""
    folder = tmp_path_factory.mktemp("corpora")
    while True:  # a held-out document that is a training document with another last word
        trained = document()
        copies = (f"{trained} {i}" for i in range(1000))
        copy = next((c for c in copies if is_held_out(c.split("\n"), CacheSettings())), None)
        if copy is not None and not is_held_out(trained.split("\n"), CacheSettings()):
            break
    own = [held_out_document() for _ in range(4)]
    files = {
        "wiki-1.txt.xz": [document(), own[1], document()],
        "wiki-0.txt": [own[0], trained, document()],
        "news.txt": [copy, own[2], document(), own[3]],
    }
    for name, documents in files.items():
        raw = "\n\n".join(documents).encode()
        (folder / name).write_bytes(lzma.compress(raw) if name.endswith("xz") else raw)
    output = folder / "output"
    held_out.main(["--data", str(folder / "*.txt*"), "--output", str(output)])
    return output, own


def lines(text: str) -> list[str]:
    return text.split("\n")


def test_held_out_documents_are_written_by_corpus_without_copies(run):
    output, own = run
    assert sorted(path.name for path in output.glob("*.txt")) == ["news.txt", "wiki.txt"]
    assert list(read_documents(output / "wiki.txt")) == [lines(own[0]), lines(own[1])]
    assert list(read_documents(output / "news.txt")) == [lines(own[2]), lines(own[3])]


def test_all_that_is_written_is_held_out(run):
    for path in run[0].glob("*.txt"):
        assert all(is_held_out(each, CacheSettings()) for each in read_documents(path))


def test_what_was_found_is_recorded(run):
    found = json.loads((run[0] / "near_duplicates.json").read_text())
    assert found["max_copied"] == 0.5
    news, wiki = found["corpora"]["news"], found["corpora"]["wiki"]
    assert (wiki["documents"], wiki["dropped"], wiki["words"], wiki["max"]) == (2, 0, 80, 0.0)
    assert (news["documents"], news["dropped"], news["words_kept"]) == (3, 1, 80)
    assert news["words"] == 121
    assert news["max"] == 33 / 34  # 41 words: the last run alone is new
    assert news["mean"] == pytest.approx(11 / 34)
    assert news["p50"] == 0.0


def test_more_copies_may_be_allowed_and_the_cache_lies_where_it_is_told_to(run, tmp_path, capsys):
    output, _ = run
    data, cache = str(output.parent / "*.txt*"), str(tmp_path / "cache")
    held_out.main(["--data", data, "--output", str(tmp_path), "--cache", cache, "--max-copied=1"])
    assert len(list(read_documents(tmp_path / "news.txt"))) == 3
    assert [path.name[:7] for path in (tmp_path / "cache").iterdir()] == ["tokens-"]
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header.startswith("| corpus | documents | words | dropped |")
    assert [row.split(" | ")[0] for row in rows] == ["| news", "| wiki"]


@pytest.mark.parametrize(
    ("name", "corpus"),
    [
        ("en-wikipedia-3.txt.xz", "en-wikipedia"),
        ("en-wikinews.txt.xz", "en-wikinews"),
        ("a-12.txt", "a"),
        ("a.b", "a.b"),
        ("7.txt.gz", "7"),
    ],
)
def test_a_corpus_is_named_after_its_files(name, corpus, tmp_path):
    assert held_out.corpus_of(tmp_path / name) == corpus


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit, match="1"):
        held_out.main(["--data", str(tmp_path / "none"), "--output", str(tmp_path / "out")])
    assert "none: no files found" in capsys.readouterr().err


# ── near-duplicates ───────────────────────────────────────────────────────────────────────────────


DRAWS = np.random.default_rng(0)


def words(count: int, first: int = 3) -> list[int]:
    """Distinct words, so that no run occurs twice by chance."""
    return list(range(first, first + count))


def sentences(ids: list[int], length: int = 5) -> list[int]:
    """The words with sentence boundaries among them."""
    parts = [ids[i : i + length] for i in range(0, len(ids), length)]
    return [each for part in parts for each in (0, *part, 1)]


def part(*documents: list[int]) -> CorpusPart:
    """Documents of words as a cache holds them."""
    bounded = [sentences(document) for document in documents]
    ends = np.cumsum([0, *map(len, bounded)])
    flat = [each for document in bounded for each in document]
    return CorpusPart(np.array(flat, dtype=np.uint32), ends.astype(np.int64))


def by_hand(train: list[list[int]], held_out: list[list[int]], width: int) -> list[float]:
    def runs(document: list[int]) -> list[tuple[int, ...]]:
        return [tuple(document[i : i + width]) for i in range(len(document) - width + 1)]

    seen = {run for document in train for run in runs(document)}
    found = [[run in seen for run in runs(document)] for document in held_out]
    return [sum(each) / len(each) if each else 0.0 for each in found]


def test_a_document_copied_whole_shares_all():
    copy = words(40)
    assert copied_shares(part(words(30, 100), copy), part(copy)).tolist() == [1.0]


def test_an_unrelated_document_shares_nothing():
    assert copied_shares(part(words(50)), part(words(50, 100))).tolist() == [0.0]


def test_a_document_copied_by_half_shares_about_half():
    train, half = words(200), words(50, 20) + words(50, 1000)
    assert copied_shares(part(train), part(half)).tolist() == [43 / 93]  # (50 - 7) of 100 - 7 runs


def test_the_order_of_words_counts():
    assert copied_shares(part(words(40)), part(words(40)[::-1])).tolist() == [0.0]


def test_sentence_boundaries_do_not_matter():
    ids = words(40)
    train = CorpusPart(np.array(sentences(ids, 3), dtype=np.uint32), np.array([0, 68]))
    held_out = CorpusPart(np.array(sentences(ids, 9), dtype=np.uint32), np.array([0, 50]))
    assert copied_shares(train, held_out).tolist() == [1.0]


def test_a_run_ends_with_its_document():
    ids = words(14)
    together, apart = part(ids), part(ids[:7], ids[7:])
    assert copied_shares(together, apart).tolist() == [0.0, 0.0]  # seven words each: no run
    assert copied_shares(apart, together).tolist() == [0.0]
    assert copied_shares(together, together).tolist() == [1.0]


def test_documents_without_a_run_have_a_share_of_zero():
    train = part(words(40))
    held_out = part([], words(7), words(8), [], words(3))
    assert copied_shares(train, held_out).tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_nothing_held_out_and_nothing_trained_on():
    assert copied_shares(part(words(9)), part()).tolist() == []
    assert copied_shares(part(), part(words(9))).tolist() == [0.0]
    assert copied_shares(part([]), part([], words(2))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("piece", [1, 50, 1 << 20])
def test_pieces_of_any_size_give_what_is_found_by_hand(piece, width, monkeypatch):
    monkeypatch.setattr("scripts.held_out.PIECE", piece)
    train, held_out = (
        [DRAWS.integers(2, 12, size=DRAWS.integers(0, 30)).tolist() for _ in range(count)]
        for count in (60, 20)
    )
    found = copied_shares(part(*train), part(*held_out), width)
    assert found == pytest.approx(by_hand(train, held_out, width))
    assert width == 1 or 0 < found.mean() < 1


@pytest.mark.parametrize("bits", [1, 8])
def test_a_crowded_filter_changes_nothing(bits, monkeypatch):
    monkeypatch.setattr("scripts.held_out.FILTER_BITS", bits)
    train, held_out = ([DRAWS.integers(2, 6, size=400).tolist()] for _ in range(2))
    found = copied_shares(part(*train), part(*held_out), 4)
    assert found == pytest.approx(by_hand(train, held_out, 4))


def test_large_ids_are_told_apart():
    top = 2**32 - 50
    train, held_out = words(40, top), words(40, top)
    held_out[20] = 3
    assert copied_shares(part(train), part(held_out)).tolist() == [25 / 33]


def test_a_run_of_no_words_is_refused():
    with pytest.raises(ConfigError, match="width must be an integer ≥ 1, got 0"):
        copied_shares(part(words(9)), part(words(9)), 0)
