"""The list of models that need no path."""

import pytest

from relmo.weights import find, installed
from relmo.weights.installed import InstalledModel, installed_models

SMALL = find.find_model("relmo-en-small")


@pytest.fixture
def bundled(monkeypatch, tmp_path):
    """A folder of bundled models, and no package."""
    monkeypatch.setattr(find, "_bundled", lambda: tmp_path)
    for module in (find, installed):
        monkeypatch.setattr(module, "entry_points", lambda group, name="": [])
    return tmp_path


def test_a_model_is_described_without_its_weights(tiny, bundled, monkeypatch):
    tiny.save_pretrained(bundled / "mine")
    monkeypatch.setattr("relmo.weights.native.Native.read", None)
    mine, untrained = installed_models()
    size = sum(path.stat().st_size for path in (bundled / "mine").iterdir())
    assert mine == InstalledModel(
        "mine", "relmo", 3, 16, size, language=mine.language, folder=str(bundled / "mine")
    )
    assert untrained.name == "relmo-untrained"
    assert untrained.source == "relmo, random weights"


def test_the_card_names_the_language(tiny, bundled):
    tiny.save_pretrained(bundled / "mine")
    card = bundled / "mine" / "README.md"
    card.write_text("---\nlicense: mit\nlanguage: ko\n---\n")
    assert installed_models()[0].language == "ko"
    card.write_text("language: ko\n")
    assert installed_models()[0].language is None
    card.unlink()
    assert installed_models()[0].language is None


def test_a_softmax_is_listed(bundled):
    (bundled / "relmo-en-small").symlink_to(SMALL)
    small = installed_models()[0]
    assert (small.name, small.has_softmax) == ("relmo-en-small", True)
    assert (small.language, small.licence) == ("en", "CC-BY-SA-4.0")


def test_a_damaged_model_is_listed_with_its_problem(tiny, bundled):
    tiny.save_pretrained(bundled / "mine")
    (bundled / "mine" / "config.json").write_text("{")
    (bundled / "other").mkdir()
    mine, other, _ = installed_models()
    assert "not valid JSON" in mine.problem
    assert "unknown model layout" in other.problem


def test_a_package_is_named_with_its_version(tiny, bundled, monkeypatch):
    class Entry:
        name, module = "packed", "packed"

        class dist:
            name, version = "relmo-packed", "1.2"

    tiny.save_pretrained(bundled / "packed")
    monkeypatch.setattr(installed, "entry_points", lambda group: [Entry])
    packed = installed_models()[0]
    assert (packed.name, packed.source) == ("packed", "relmo-packed 1.2")


def test_an_official_layout_is_listed_too(official, bundled):
    official.rename(bundled / "official")
    found = installed_models()[0]
    assert (found.name, found.has_softmax, found.problem) == ("official", False, None)
