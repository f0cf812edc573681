"""The probe of senses, end to end on toy sets."""

import pytest

from relmo.errors import ConfigError
from relmo.lab.probes.wsd import WsdSettings, find_sets, probe_wsd
from tests.support.toy_probes import sense_xml, write_set, write_wsd


def test_sets_are_found_below_the_folder_and_all_is_no_set(tmp_path):
    folder = write_wsd(tmp_path)
    write_set(folder / "ALL", "ALL", sense_xml("a/a/NOUN/i"), "")
    assert list(find_sets(folder)) == ["semcor", "one", "two"]


def test_linked_folders_are_looked_into_and_rings_end(tmp_path):
    folder, data = tmp_path / "data", write_wsd(tmp_path / "elsewhere")
    folder.mkdir()
    (folder / "linked").symlink_to(data)
    (folder / "ring").symlink_to(folder)
    assert list(find_sets(folder)) == ["semcor", "one", "two"]


def test_every_reading_is_scored_on_each_set_and_on_all_together(tiny, tmp_path):
    found = probe_wsd(tiny, write_wsd(tmp_path), settings=WsdSettings(held_out=3))
    names = ["layer_0", "layer_1", "layer_2", "mean", "static"]
    names += [f"plain_{name}" for name in names] + ["first_sense", "most_frequent"]
    wanted = {f"{part}_f1_{name}" for part in ("dev", "one", "two", "test") for name in names}
    assert found.results.keys() == wanted
    assert found.results["one_f1_first_sense"] == pytest.approx(100 * 2 / 3, abs=1e-3)
    assert found.results["two_f1_first_sense"] == 50  # old: the second sense is right
    assert found.results["test_f1_first_sense"] == 60
    assert found.results["one_f1_plain_layer_1"] == 100
    assert found.data["semcor"] == {"sentences": 12, "instances": 12}
    assert (found.settings["test_instances"], found.settings["test_instances_unseen"]) == (5, 2)


def test_what_is_missing_is_named(tiny, tmp_path):
    with pytest.raises(ConfigError, match=r"semcor\.data\.xml is needed"):
        probe_wsd(tiny, tmp_path)
    folder = write_wsd(tmp_path)
    (folder / "wordnet" / "index.sense").unlink()
    with pytest.raises(ConfigError, match=r"index\.sense is needed"):
        probe_wsd(tiny, folder)
    for path in [*folder.rglob("one.*"), *folder.rglob("two.*")]:
        path.unlink()
    with pytest.raises(ConfigError, match="no test set"):
        probe_wsd(tiny, folder)


def test_too_few_documents_to_choose_a_rule_are_refused(tiny, tmp_path):
    with pytest.raises(ConfigError, match=r"semcor.* holds 12 documents; every 99th is held out"):
        probe_wsd(tiny, write_wsd(tmp_path), settings=WsdSettings(held_out=99))


def test_settings_that_choose_nothing_are_refused():
    with pytest.raises(ConfigError, match="held_out of 2 or more"):
        WsdSettings(held_out=1)
