"""scripts/release_task.py: a package of task models that is built, installed and used by name."""

import dataclasses
import importlib
import site
import sys
import tomllib
import zipfile

import pytest
from hatchling import build

import relmo
from relmo.weights import find
from scripts import release_task
from tests.support.toy_tasks import TOYS, train_toy

ABOUT = """
name = "{name}"
summary = "A toy."
example = ["ada saw"]
[[sources]]
name = "Toy {name}"
url = "https://toys.example"
terms = "CC BY 4.0"
terms_url = "https://creativecommons.org/licenses/by/4.0/"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny):
    """Runs of two tasks, what is said of them, and their ELMo."""
    root = tmp_path_factory.mktemp("release")
    tiny.save_pretrained(root / "elmo")
    for task in ("pos", "ner"):
        data = TOYS[task].write_parts(root / f"{task}-data", 16, 6)
        train_toy(task, data, root / task, root / "elmo", "training.epochs=1")
        (root / f"{task}.toml").write_text(ABOUT.format(name=f"relmo-xx-{task}"))
    return root


@pytest.fixture
def package(made, tmp_path):
    root = tmp_path / "models" / "relmo-xx-tasks"
    for task in ("pos", "ner"):
        options = ["--about", made / f"{task}.toml", "--package", root]
        release_task.main([str(each) for each in (made / task, *options)])
    return root


def test_an_installed_package_of_several_models_is_used_by_name(
    made, package, tmp_path, monkeypatch
):
    place = tmp_path / "site-packages"
    monkeypatch.chdir(package)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as file:
        file.extractall(place)
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    site.addsitedir(str(place))
    importlib.invalidate_caches()
    assert find.find_model("relmo-xx-pos") == place / "relmo_xx_tasks" / "pos"
    assert not (place / "relmo_xx_tasks" / "pos" / "__init__.py").exists()
    assert {"relmo-xx-pos", "relmo-xx-ner"} <= set(find.known_models("task"))
    assert not {"relmo-xx-pos", "relmo-xx-ner"} & set(find.known_models("ELMo"))
    pos = relmo.load("relmo-xx-pos", elmo=made / "elmo", device="cpu")
    assert [token.text for token in pos("ada saw the fox")] == ["ada", "saw", "the", "fox"]
    assert relmo.load("relmo-xx-ner", elmo=made / "elmo", device="cpu").name == "relmo-xx-ner"
    assert "relmo_xx_tasks" not in sys.modules  # found, not imported
    [about] = place.glob("*.dist-info")
    assert "License-Expression: CC-BY-SA-4.0" in (about / "METADATA").read_text()
    licence = (about / "licenses" / "LICENSE").read_text()
    for wanted in ("Toy relmo-xx-pos", "Toy relmo-xx-ner", "Section 8 -- Interpretation"):
        assert wanted in licence


def test_a_package_names_the_models_that_it_contains(made, package):
    settings = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert settings["name"] == "relmo-xx-tasks"
    assert settings["version"] == "0.1.0"
    assert settings["entry-points"]["relmo.models"] == {
        "relmo-xx-ner": "relmo_xx_tasks.ner",
        "relmo-xx-pos": "relmo_xx_tasks.pos",
    }
    arguments = [made / "pos", "--about", made / "pos.toml", "--package", package]
    release_task.main([*map(str, arguments), "--version", "0.2.0"])
    release_task.main([*map(str, arguments)])
    again = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert again == {**settings, "version": "0.2.0"}


def test_a_model_has_its_own_card_and_licence(package):
    folder = package / "src" / "relmo_xx_tasks" / "pos"
    card, licence = ((folder / name).read_text() for name in ("README.md", "LICENSE"))
    assert "In a clone of relmo: `pip install ./models/relmo-xx-tasks`." in card
    assert "pos(\"ada saw\")\n# [TaggedToken(text='ada', tag=" in card
    assert licence.startswith("The files of relmo-xx-pos are licensed under")
    assert "- Toy relmo-xx-pos. https://toys.example\n  CC BY 4.0, https://creative" in licence
    assert "\n=======" in licence
    assert "Wikipedia" not in licence


@pytest.mark.parametrize(
    ("about", "package", "message"),
    [
        ('name = "other-pos"', "relmo-xx-tasks", "relmo-xx-tasks cannot contain other-pos"),
        ('name = "relmo-xx-base-pos"', "relmo-xx-tasks", "cannot contain relmo-xx-base-pos"),
        ('name = "relmo-xx-pos"', "relmo-xx", "a package FAMILY-tasks has models FAMILY-NAME"),
        ('name = "relmo-xx-pos"\nsumary = ""', "relmo-xx-tasks", "did you mean 'summary'?"),
        ('name = "relmo-xx-pos"\nlicence = "MIT"', "relmo-xx-tasks", "no licence but CC-BY-SA"),
        ("name = ", "relmo-xx-tasks", "not a TOML file"),
    ],
)
def test_what_does_not_fit_is_not_released(made, tmp_path, capsys, about, package, message):
    text = f'{about}\n[[sources]]\nname = "Toy"\n'
    (tmp_path / "about.toml").write_text(text)
    options = ["--about", tmp_path / "about.toml", "--package", tmp_path / package]
    with pytest.raises(SystemExit):
        release_task.main([str(each) for each in (made / "pos", *options)])
    assert message in capsys.readouterr().err
    assert not (tmp_path / package).exists()


def test_what_is_said_of_a_model_may_be_like_what_is_said_of_another(made):
    wanted = "Verbs."
    path = made / "base.toml"
    path.write_text(f'like = "pos.toml"\nname = "relmo-xx-base-pos"\nwrong = "{wanted}"\n')
    small, base = release_task.read_about(made / "pos.toml"), release_task.read_about(path)
    assert base == dataclasses.replace(small, name="relmo-xx-base-pos", wrong=wanted)


def test_data_without_terms_are_not_released(made, tmp_path, capsys):
    (tmp_path / "about.toml").write_text('name = "relmo-xx-pos"\n')
    options = ["--about", tmp_path / "about.toml", "--output", tmp_path / "out"]
    with pytest.raises(SystemExit):
        release_task.main([str(each) for each in (made / "pos", *options)])
    assert "must name [[sources]]" in capsys.readouterr().err
