"""scripts/held_out.py: the documents that pretraining keeps out, without copies of the others."""

import json
import lzma
import random

import pytest

from relmo.tasks.lm.token_cache import CacheSettings, is_held_out
from relmo.text.documents import read_documents
from scripts import held_out

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
