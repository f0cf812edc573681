"""Which file of a folder is which part."""

import pytest

from relmo.errors import ConfigError
from relmo.tasks.data_files import PARTS, find_part, need_part

LAYOUTS = {
    "CoNLL-2003": ("eng.train", "eng.testa", "eng.testb"),
    "SST": ("train.txt", "dev.txt", "test.txt"),
    "SICK": ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"),
    "UD": ("en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", "en_ewt-ud-test.conllu"),
    "PropBank": ("x.train.conll.xz", "x.dev.conll.xz", "x.test.conll.xz"),
    "camel case": ("wikiTrain.csv", "wikiDevelopment.csv", "wikiTest.csv"),
    "val": ("train.csv", "val.csv", "test.csv"),
    "digits": ("wnut17train.conll", "wnut17validation.conll", "wnut17testing.conll"),
}


def fill(folder, *names):
    for name in names:
        (folder / name).write_text("")
    return folder


@pytest.mark.parametrize("names", LAYOUTS.values(), ids=LAYOUTS)
def test_the_parts_of_known_sets_are_found(tmp_path, names):
    fill(tmp_path, *names, "readme.txt", "LICENSE", ".train.swp", "._test.txt")
    (tmp_path / "train").mkdir()
    assert [find_part(tmp_path, part).name for part in PARTS] == list(names)


def test_a_word_in_the_middle_of_another_says_nothing(tmp_path):
    fill(tmp_path, "latest.train.txt", "contest.dev.txt")
    assert need_part(tmp_path, "train").name == "latest.train.txt"
    assert find_part(tmp_path, "test") is None


def test_suffixes_and_a_prefix_choose_among_files(tmp_path):
    fill(tmp_path, "a.train.jsonl.gz", "a.train.txt", "b.train.txt")
    assert find_part(tmp_path, "train", (".jsonl", ".txt")).name == "a.train.jsonl.gz"
    assert find_part(tmp_path, "train", (".txt",), prefix="b").name == "b.train.txt"
    assert find_part(tmp_path, "train", (".csv",)) is None


def test_two_files_that_could_be_a_part_are_both_named(tmp_path):
    fill(tmp_path, "litbank.train.conll", "ontogum.train.conll")
    with pytest.raises(ConfigError, match=r"litbank.*, ontogum.* could each be the train part"):
        find_part(tmp_path, "train")


def test_a_file_that_names_two_parts_is_refused(tmp_path):
    fill(tmp_path, "train-and-test.txt")
    with pytest.raises(ConfigError, match=r"train or the test part; rename it"):
        find_part(tmp_path, "train")


def test_a_word_that_only_begins_with_val_says_nothing(tmp_path):
    assert find_part(fill(tmp_path, "values.csv"), "dev") is None


def test_a_folder_of_folders_names_those(tmp_path):
    for name in ("conll2003", "wnut17", ".git"):
        (tmp_path / name).mkdir()
    with pytest.raises(
        ConfigError, match="no train part.*; is it in one of its folders, conll2003, wnut17"
    ):
        need_part(tmp_path, "train")


def test_a_part_or_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no dev part; a file with dev or testa or valid"):
        need_part(fill(tmp_path, "train.txt"), "dev")
    with pytest.raises(ConfigError, match="gone is no folder; give the one that holds the data"):
        find_part(tmp_path / "gone", "train")
