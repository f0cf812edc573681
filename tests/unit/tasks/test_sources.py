"""One file of labeled data: how it is split, what is said and kept of it."""

import gzip
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relmo.errors import ConfigError, DataError, TextError
from relmo.tasks.data_files import PARTS, reading
from relmo.tasks.ner.data import TaggedSentence
from relmo.tasks.ner.task import NerTask
from relmo.tasks.registry import data_facts, find_task, read_parts
from relmo.tasks.run import TaskCard, load_task
from relmo.tasks.snli.data import SentencePair
from relmo.tasks.snli.task import SnliTask
from relmo.tasks.sources import Source, read_examples, read_texts, split_examples
from relmo.tasks.sst.data import LabelledText
from relmo.tasks.sst.task import ClassifyTask
from relmo.tasks.static_vectors import read_vectors
from relmo.tasks.tables import NO_COLUMNS, Columns
from relmo.training.run import read_record
from tests.support.toy_tasks import TOYS, Rng, train_toy


@pytest.fixture
def reviews(tmp_path):
    """One table of 60 reviews."""
    path = tmp_path / "reviews.csv"
    TOYS["classify"].write(path, 60, Rng(0))
    return path


def texts(*counts):
    labels = [label for label, count in zip("abcd", counts, strict=False) for _ in range(count)]
    return [LabelledText((f"w{i}",), label) for i, label in enumerate(labels)]


def sizes(parts):
    return [len(parts[part]) for part in PARTS]


# ── the split ───────────────────────────────────────────────────────────────────────────────


def test_a_tenth_of_each_label_is_held_out_twice():
    parts = split_examples(ClassifyTask, texts(700, 200, 100), 0)
    assert sizes(parts) == [800, 100, 100]
    for part in ("dev", "test"):
        assert Counter(text.label for text in parts[part]) == {"a": 70, "b": 20, "c": 10}


def test_parts_are_disjoint_complete_and_in_order():
    examples = texts(50, 50)
    parts = split_examples(ClassifyTask, examples, 0)
    everything = [text for part in PARTS for text in parts[part]]
    assert sorted(everything, key=examples.index) == examples
    for found in parts.values():
        assert found == sorted(found, key=examples.index)


def test_the_seed_decides_the_split():
    one, again, other = (split_examples(ClassifyTask, texts(50, 50), seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize("counts", [(40, 1, 1, 1), (30, 2, 3, 2), (10, 10)])
def test_every_label_is_trained_on(counts):
    for seed in range(20):
        parts = split_examples(ClassifyTask, texts(*counts), seed)
        assert len({text.label for text in parts["train"]}) == len(counts)


def test_equal_texts_stay_together():
    examples = [LabelledText((f"w{i % 20}",), "ab"[i % 2]) for i in range(200)]
    parts = split_examples(ClassifyTask, examples, 0)
    words = [{text.words for text in parts[part]} for part in PARTS]
    assert sum(map(len, words)) == len(set.union(*words)) == 20


def test_documents_and_premises_stay_together():
    sentences = [TaggedSentence((f"w{i}",), ("O",), document=1 + i // 7) for i in range(140)]
    parts = split_examples(NerTask, sentences, 0)
    assert sizes(parts) == [112, 14, 14]
    assert len({s.document for s in parts["dev"]}) == 2
    pairs = [SentencePair((f"p{i // 3}",), (f"h{i}",), "xyz"[i % 3]) for i in range(90)]
    parts = split_examples(SnliTask, pairs, 0)
    assert sizes(parts) == [72, 9, 9]
    assert len({pair.premise for pair in parts["test"]}) == 3


# ── one file ────────────────────────────────────────────────────────────────────────────────


def test_the_split_and_the_columns_are_said_aloud(reviews, capsys):
    source = Source(reviews, split_seed=3)
    assert sizes(read_parts("classify", source)) == [48, 6, 6]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "relmo: reviews.csv: text from 'review', label from 'mood'",
        "relmo: reviews.csv: 60 texts split 48/6/6 by seed 3; give --data a folder with train, dev "
        "and test files for a split of your own",
    ]


@pytest.mark.parametrize("name", ["ner", "pos", "snli", "squad", "srl", "coref", "sst"])
def test_every_task_takes_one_file(tmp_path, name):
    path = tmp_path / f"all{TOYS[name].suffix}"
    TOYS[name].write(path, 30, Rng(0))
    parts = read_parts(name, path)
    assert all(parts.values())
    assert data_facts(name, path, parts)["split"]["seed"] == 0


def test_phrases_of_one_file_would_be_tested_on_what_was_learned(tmp_path):
    TOYS["sst"].write(tmp_path / "all.txt", 30, Rng(0))
    with pytest.raises(ConfigError, match="is one file; give the folder"):
        read_parts("sst-phrases", tmp_path / "all.txt")


def test_too_few_examples_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,x\nb,y\n")
    with pytest.raises(ConfigError, match="2 texts are too few to split into train, dev"):
        read_parts("classify", tmp_path / "a.csv")


def test_columns_are_for_tables_of_tasks_that_read_some(tmp_path, reviews):
    TOYS["sst"].write(tmp_path / "all.txt", 30, Rng(0))
    with pytest.raises(ConfigError, match=r"but all.txt does not end in .csv or .tsv or"):
        read_parts("sst", Source(tmp_path / "all.txt", Columns("review")))
    with pytest.raises(ConfigError, match="but this task reads none"):
        read_parts("snli", Source(reviews, Columns("review")))
    with pytest.raises(ConfigError, match=r"expected a table; its name must end in .csv"):
        read_parts("classify", tmp_path / "all.txt")


def test_a_folder_s_tables_have_columns_too(tmp_path):
    data = TOYS["classify"].write_parts(tmp_path / "data")
    source = Source(data, Columns("id", "mood"))
    assert read_parts("classify", source)["dev"][0].words == ("0",)
    assert data_facts("classify", source, {})["columns"] == {"text": "id", "label": "mood"}


# ── what is learned from it, and what is kept ───────────────────────────────────────────────


def test_one_label_or_labels_that_are_numbers_of_their_own_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"a b{i},x\n" for i in range(40)))
    with pytest.raises(TextError, match="all 40 texts have the label 'x'; expected"):
        train_toy("classify", path, tmp_path / "run")
    path.write_text("text,label\n" + "".join(f"a b{i},{i / 7:.3f}\n" for i in range(40)))
    with pytest.raises(TextError, match=r"different labels \('0.000', .*choose another column"):
        train_toy("classify", path, tmp_path / "run")


def test_a_run_keeps_columns_and_split_and_reads_other_data_alike(tmp_path, reviews, capsys):
    source = Source(reviews, Columns("review", "mood"), split_seed=5)
    scores = train_toy("classify", source, tmp_path / "run", None, "training.epochs=1")
    data = read_record(tmp_path / "run" / "run.json")["data"]
    assert data["split"] == {"seed": 5, "shares": {"train": 0.8, "dev": 0.1, "test": 0.1}}
    assert data["columns"] == {"text": "review", "label": "mood"}
    assert (data["train"], data["dev"], data["test"]) == (48, 6, 6)
    assert data["files"]["all"]["name"] == "reviews.csv"

    known = TaskCard.read(tmp_path / "run").facts["source"]
    capsys.readouterr()
    own = read_examples(ClassifyTask, reviews, NO_COLUMNS, known)
    assert own == read_parts("classify", source)["test"]
    assert "the run was trained on this file; scored are the 6 texts" in capsys.readouterr().err
    task = load_task(tmp_path / "run", device="cpu")
    assert task.score_on(own)["accuracy"] == pytest.approx(scores["test_accuracy"])

    other = tmp_path / "other.jsonl"
    rows = [{"body": "x y", "review": "a b c", "mood": "mood 0"}]
    other.write_text("\n".join(map(json.dumps, rows)))
    assert read_examples(ClassifyTask, other, NO_COLUMNS, known)[0].words == ("a", "b", "c")
    assert read_examples(ClassifyTask, other, Columns("body"), known)[0].words == ("x", "y")
    assert list(read_texts(other, NO_COLUMNS, known)) == ["a b c"]
    assert list(read_texts(other, Columns("body"), known)) == ["x y"]


def test_a_run_does_not_resume_on_another_split(tmp_path, reviews):
    changes = ["training.steps=2", "training.checkpoint_every=1"]
    train_toy("classify", reviews, tmp_path / "run", None, *changes)
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(ConfigError, match="split"):
        train_toy(
            "classify", Source(reviews, split_seed=1), tmp_path / "run", None, *changes, resume=True
        )


# ── what parsers choke on ───────────────────────────────────────────────────────────────────

DEEP, DIGITS = "[" * 100_000, "1" * 5000


@pytest.mark.parametrize(
    ("task", "name", "text"),
    [
        ("squad", "a.json", f'{{"data": {DEEP}'),
        ("squad", "a.json", f'{{"data": [], "x": {DIGITS}}}'),
        ("coref", "a.conll", f"#begin document (a); part {DIGITS}\n0\tShe\t(3)\n#end document\n"),
        ("classify", "a.jsonl", DEEP),
        ("classify", "a.jsonl", f'{{"text": "a", "label": {DIGITS}}}'),
        ("snli", "a.jsonl", DEEP),
    ],
    ids=lambda each: each[:12],
)
def test_content_that_cannot_be_parsed_is_named(tmp_path, task, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises((TextError, DataError), match=name):
        read_parts(task, tmp_path / name)
    with pytest.raises((TextError, DataError), match=name):
        read_examples(find_task(task), tmp_path / name, NO_COLUMNS, {})


def test_parquet_that_is_not_utf_8_is_named(tmp_path):
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32))
    bad = pa.Array.from_buffers(pa.utf8(), 2, [None, offsets, pa.py_buffer(b"\xff\xfeab")])
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"text": bad, "label": ["a", "b"]}), path)
    with pytest.raises(TextError, match=r"bad\.parquet"):
        read_parts("classify", path)
    with pytest.raises(TextError, match=r"bad\.parquet"):
        list(read_texts(path, NO_COLUMNS, {}))


@pytest.mark.parametrize("header", [f"5 {DIGITS}", "٣ " + "٣" * 5000])
def test_a_width_of_thousands_of_digits_is_named(tmp_path, header):
    (tmp_path / "v.txt").write_text(f"{header}\nthe 1 2\n")
    with pytest.raises(TextError, match=r"v\.txt: cannot be read"), reading(tmp_path / "v.txt"):
        read_vectors(tmp_path / "v.txt", {"the"})


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("relmo.tasks.data_files.MAX_WHOLE", 1000)
    path = tmp_path / "a.json.gz"
    for text in (b" " * 2000, b"\n" * 2000):
        path.write_bytes(gzip.compress(text))
        with pytest.raises(DataError, match="has more than 1,000 characters"):
            read_parts("squad", path)
