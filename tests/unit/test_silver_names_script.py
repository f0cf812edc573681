"""Names labeled by teachers: which tags are kept, which sentences are read."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from relmo.tasks.layer_cache import LayerCache
from relmo.tasks.output_embeddings import OutputEmbeddings
from relmo.tasks.static_vectors import random_vectors

SCRIPTS = Path(__file__).parents[2] / "scripts"
spec = importlib.util.spec_from_file_location("silver_names", SCRIPTS / "silver_names.py")
script = importlib.util.module_from_spec(spec)
sys.modules["silver_names"] = script
spec.loader.exec_module(script)

ROW = "{}\t{}\t{}\t{}\t_\t_\t0\troot\t_\t_\n"


@pytest.mark.parametrize(
    ("names", "others", "wanted"),
    [
        ("O O S-PER", "S-MISC O S-MISC", "S-MISC O S-PER"),
        ("O O O", "B-MISC I-MISC E-MISC", "B-MISC I-MISC E-MISC"),
        ("O S-LOC O O", "B-MISC E-MISC O S-MISC", "O S-LOC O S-MISC"),
        ("B-ORG E-ORG", "S-PER O", "B-ORG E-ORG"),
    ],
)
def test_misc_is_added_where_no_other_name_stands(names, others, wanted):
    assert script.with_misc(names.split(), others.split()) == wanted.split()


def test_sentences_of_both_files_are_matched_by_their_words(tmp_path):
    words = [("Ada", "PROPN"), ("sang", "VERB")]
    rows = [ROW.format(n, word, word, tag) for n, (word, tag) in enumerate(words, 1)]
    (tmp_path / "en_ewt-ud-dev.conllu").write_text("".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "uner-ewt").mkdir()
    uner = "# newdoc id = d1\n1\tAda\tB-PER\t-\t-\n2\tsang\tO\t-\t-\n\n1\tBob\tB-PER\t-\t-\n"
    (tmp_path / "uner-ewt" / "dev.iob2").write_text(uner, encoding="utf-8")
    found = list(script.uner(tmp_path, tmp_path, "dev"))  # Bob is tokenized otherwise there
    assert found == [
        ("# newdoc id = d1", script.Example(("Ada", "sang"), ("PROPN", "VERB"), ("S-PER", "O"), 0))
    ]


def test_batches_hold_every_example_once_and_similar_lengths():
    examples = [script.Example(("a",) * n, ("X",) * n, (), 0) for n in (5, 1, 4, 2, 3)]
    found = list(script.batches(examples, 2))
    assert found == [[1, 3], [4, 2], [0]]


def test_a_teacher_learns_names_from_parts_of_speech(tiny_lm, tmp_path):
    """Words alone do not tell here: only a proper noun of the first set is a name."""
    torch.manual_seed(0)
    words = ("cat", "bank")
    examples = []
    for upos in (("PROPN", "NOUN"), ("NOUN", "NOUN")):
        for number in (0, 1):
            name = "S-PER" if upos[0] == "PROPN" and number == 0 else "O"
            examples.append(script.Example(words, upos, (name, "O"), number))
    tags = ["O", "S-PER"]
    output = OutputEmbeddings(tiny_lm)
    cache = LayerCache(tiny_lm, [words], tmp_path)
    static = random_vectors(words, 4)
    reader = script.Reader(cache, output, static, ["NOUN", "PROPN"], "cpu")
    teacher = script.Teacher(tiny_lm, output, static, 2, tags)
    script.train_teacher(teacher, reader, examples * 200, tags, 20, seed=0)
    found = script.find([teacher, teacher], reader, examples, tags)
    assert found == [list(example.tags) for example in examples]


def test_titles_are_marked_where_the_longest_stands():
    titles = script.Titles(
        {"New York": "LOC", "New York Times": "ORG", "Time": "MISC"}, {"Ada": 3}, {"York": 1}
    )
    marks = titles.marks(
        ["The", "new", "York", "Times", "had", "Time", "for", "Ada", ",", "no", "time"]
    )
    (token, column) = (place.tolist() for place in marks[:, :-4].nonzero())
    # B, I and E of ORG, B and E of LOC do not stand inside; one word needs a capital.
    assert list(zip(token, column, strict=True)) == [(1, 9), (2, 10), (3, 11), (5, 12)]
    assert marks[7, -4:].tolist() == pytest.approx([0.3466, 0, 1, 0], abs=1e-3)
    assert marks[2, -1] == 1


def test_a_word_is_written_in_one_of_four_ways():
    assert [script.shape(word) for word in ("bank", "NATO", "Oslo", "I", "?", "iPod")] == [
        1, 2, 3, 3, 4, 4,
    ]  # fmt: skip
