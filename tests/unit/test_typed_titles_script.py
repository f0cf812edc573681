"""Names and their kinds from the beginnings of articles."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "typed_titles.py"
TEXT = """\
Ada Sol
Ada Sol (born 1 May 1901) was a Norwegian poet and painter.
She wrote.

Port Mira, Tuva
Port Mira is the capital and largest city of Tuva.

Sol Records
Sol Records was an independent record label based in Oslo.

Blue
Blue refers to a color.

"""
VECTORS = "the 1 2\nport 3 4\nsol 5 6\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("titles")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "vectors.txt").write_text(VECTORS, encoding="utf-8")
    places = {"--output": "titles.json", "--vectors": "vectors.txt", "--vectors-to": "more.txt"}
    options = [part for name, to in places.items() for part in (name, folder / to)]
    subprocess.run(
        [sys.executable, SCRIPT, folder / "text.txt", *options, "--first=2", "--more=2"], check=True
    )
    return folder


def test_a_title_has_the_kind_that_its_first_sentence_says(made):
    found = json.loads((made / "titles.json").read_text())
    assert found["titles"] == {"Ada Sol": "PER", "Port Mira": "LOC", "Sol Records": "ORG"}
    assert (found["first"], found["last"]) == ({"Ada": 1}, {"Sol": 1})


def test_frequent_words_and_those_of_titles_have_twelve_more_columns(made):
    lines = [line.split() for line in (made / "more.txt").read_text().splitlines()]
    assert [line[0] for line in lines] == ["the", "port", "sol", "ada"]
    assert {len(line) for line in lines} == {1 + 2 + 12}
    columns = {line[0]: [n for n, x in enumerate(line[3:]) if x != "0"] for line in lines}
    # PER, LOC, ORG, MISC: first, inside, last each
    assert columns == {"the": [], "port": [3], "sol": [2, 6], "ada": [0]}
    assert lines[3][1:3] == ["0", "0"], "a word without a vector"
    assert float(lines[1][1 + 2 + 3]) == pytest.approx(0.208, abs=1e-3)
