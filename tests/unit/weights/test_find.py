"""A model by name: a folder, bundled with relmo, or an installed package."""

import importlib
import shutil
import site
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling import build

from relmo import Elmo
from relmo.errors import ModelNotFound
from relmo.weights import find

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "models" / "relmo-en-base"
NO_BASE = "a source archive does not contain relmo-en-base"
SENTENCE = [["The", "bank", "of", "the", "river"]]


@pytest.fixture
def package(tiny, tmp_path):
    """The source of a model package laid out as ours, with another name and a tiny model."""
    if not PACKAGE.is_dir():
        pytest.skip(NO_BASE)
    root = tmp_path / "relmo-en-test"
    home = root / "src" / "relmo_en_test"
    home.mkdir(parents=True)
    shutil.copy(PACKAGE / "LICENSE", root)
    shutil.copy(PACKAGE / "src/relmo_en_base/__init__.py", home)
    settings = (PACKAGE / "pyproject.toml").read_text()
    settings = settings.replace("relmo-en-base", "relmo-en-test")
    (root / "pyproject.toml").write_text(settings.replace("relmo_en_base", "relmo_en_test"))
    tiny.save_pretrained(home, shard_bytes=10_000)
    return root


@pytest.fixture
def install(package, tmp_path, monkeypatch):
    """Build the package and unpack it where Python looks, as pip does."""

    def install(editable=False):
        place = tmp_path / "site-packages"
        monkeypatch.chdir(package)
        with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as file:
            file.extractall(place)
        if editable:
            shutil.rmtree(place / "relmo_en_test")
            (place / "_relmo_en_test.pth").write_text(f"{package / 'src'}\n")
        monkeypatch.chdir(place)
        monkeypatch.setattr(sys, "path", [str(place), *sys.path])
        site.addsitedir(str(place))  # reads the .pth file of an editable install
        importlib.invalidate_caches()
        return place

    return install


@pytest.mark.parametrize("editable", [False, True])
def test_an_installed_model_package_is_found_by_name(tiny, install, package, editable):
    place = install(editable)
    home = package / "src" if editable else place
    assert find.find_model("relmo-en-test") == home / "relmo_en_test"
    assert "relmo-en-test" in find.known_models()
    found = Elmo.from_pretrained("relmo-en-test")
    assert (found.embed(SENTENCE)[0] == tiny.embed(SENTENCE)[0]).all()
    assert "relmo_en_test" not in sys.modules  # found, not imported


def test_a_model_package_carries_its_licence(install):
    place = install()
    [about] = place.glob("*.dist-info")
    assert "License-Expression: CC-BY-SA-4.0" in (about / "METADATA").read_text()
    licence = (about / "licenses" / "LICENSE").read_text()
    for wanted in (
        "https://creativecommons.org/licenses/by-sa/4.0/legalcode",
        "English Wikipedia",
        "Wikinews",
        "Gutenberg",
        "Section 8 -- Interpretation",
    ):
        assert wanted in licence


def test_a_slip_in_a_name_is_corrected_first():
    with pytest.raises(ModelNotFound, match=r"'relmo-en-smal'; did you mean 'relmo-en-small'\? "):
        find.find_model("relmo-en-smal")


@pytest.mark.parametrize("entry", ["no_such_module", "no_such.module", "json", "sys"])
def test_a_package_that_is_half_gone_is_not_found(monkeypatch, entry):
    class Entry:
        name, module = "gone", entry

    monkeypatch.setattr(find, "entry_points", lambda group, name="": [Entry()])
    if entry == "json":  # a package without a model
        assert find.find_model("gone").name == "json"
        return
    with pytest.raises(ModelNotFound, match="no model 'gone': it is neither"):
        find.find_model("gone")


def test_a_bundled_model_is_found_by_name_and_a_folder_wins(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(find, "_bundled", lambda: tmp_path / "models")
    tiny.save_pretrained(tmp_path / "models" / "relmo-en-small")
    assert find.find_model("relmo-en-small") == tmp_path / "models" / "relmo-en-small"
    assert "relmo-en-small" in find.known_models()
    monkeypatch.chdir(tmp_path)
    tiny.save_pretrained("relmo-en-small")
    assert find.find_model("relmo-en-small") == Path("relmo-en-small")


def test_our_own_package_that_is_not_installed_comes_with_its_install_line(monkeypatch):
    monkeypatch.setattr(find, "entry_points", lambda group, name="": [])
    with pytest.raises(ModelNotFound, match=r"in a clone of relmo, pip install ./models/relmo-en-"):
        find.find_model("relmo-en-base")
    if not PACKAGE.is_dir():
        pytest.skip(NO_BASE)
    assert all((ROOT / place / "pyproject.toml").is_file() for place in find.PACKAGES.values())


def test_our_task_packages_contain_the_models_that_are_named():
    homes = {path.parent: path for path in (ROOT / "models").glob("*-tasks/pyproject.toml")}
    named = {ROOT / place for place in find.TASK_PACKAGES.values()}
    assert named == homes.keys()
    for home, path in homes.items():
        settings = tomllib.loads(path.read_text())["project"]["entry-points"]
        ours = {name for name, place in find.TASK_PACKAGES.items() if ROOT / place == home}
        assert settings[find.ENTRY_POINTS].keys() == ours


@pytest.mark.parametrize("is_package", [True, False])
def test_a_model_inside_a_package_needs_no_code(tmp_path, monkeypatch, is_package):
    home = tmp_path / "site" / "relmo_xx_models"
    (home / "one").mkdir(parents=True)
    if is_package:
        (home / "__init__.py").write_text("raise SystemExit('imported')")

    class Entry:
        name, module = "xx-one", "relmo_xx_models.one"

    class Missing:
        name, module = "xx-two", "relmo_xx_models.two"

    entries = {each.name: each for each in (Entry, Missing)}
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    monkeypatch.setattr(find, "entry_points", lambda group, name: [entries[name]])
    importlib.invalidate_caches()
    assert find.find_model("xx-one") == home / "one"
    monkeypatch.setattr(find, "entry_points", lambda group, name="": [Missing])
    with pytest.raises(ModelNotFound, match="no model 'xx-two'"):
        find.find_model("xx-two")


# ── what relmo itself ships ─────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What a build of relmo reads, with small files where the models' weights are."""
    root = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, root)
    for name in ("scripts", "experiments"):
        (root / name).mkdir()
        (root / name / "some.toml").touch()
    ignored = shutil.ignore_patterns("__pycache__", "models")
    shutil.copytree(ROOT / "src", root / "src", ignore=ignored)
    for folder in ("src/relmo/models/relmo-en-small", "models/relmo-en-base/src/relmo_en_base"):
        (root / folder).mkdir(parents=True)
        for name in ("config.json", "model-00001-of-00002.safetensors", "vocab.txt", "LICENSE"):
            (root / folder / name).write_bytes(b"\x00")
    return root


def test_the_wheel_holds_the_small_model_and_not_the_base_one(clone, tmp_path, monkeypatch):
    monkeypatch.chdir(clone)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as archive:
        names = archive.namelist()
    assert "relmo/models/relmo-en-small/model-00001-of-00002.safetensors" in names
    assert "relmo/models/relmo-en-small/LICENSE" in names
    assert not [name for name in names if "base/" in name or "en_base" in name]


def test_the_source_archive_does_so_too(clone, tmp_path, monkeypatch):
    monkeypatch.chdir(clone)
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as archive:
        inner = {name.partition("/")[2] for name in archive.getnames()}
    assert "src/relmo/models/relmo-en-small/model-00001-of-00002.safetensors" in inner
    assert not [name for name in inner if name.startswith("models/")]
    assert {"scripts/some.toml", "experiments/some.toml"} <= inner  # the tests read them


def test_the_folder_of_a_run_is_told_from_a_model(tmp_path, tiny):
    run = tmp_path / "run"
    (run / "checkpoint").mkdir(parents=True)
    with pytest.raises(ModelNotFound, match="unfinished run, which has no model yet; .*--resume"):
        find.detect(run)
    tiny.save_pretrained(run / "model")
    with pytest.raises(ModelNotFound, match=r"run is a run; its model is .*run.model"):
        find.detect(run)
