"""Release a trained task model: a small folder with its card and licence, inside a model package.

    python scripts/release_task.py runs/pos-0 runs/pos-1 runs/pos-2 --about pos.toml \
        --package models/relmo-en-tasks --test en_ewt-ud-test.conllu

The first run is released, the others are the same with other seeds. `--about` is a TOML file with
the fields of `relmo.tasks.model_card.About`:

    name = "relmo-en-pos"
    summary = "Parts of speech of English words."
    example = ["Ada Lovelace lived in London."]
    wrong = "Lower-case names and headlines."
    [[sources]]
    name = "Universal Dependencies, English Web Treebank"
    url = "https://universaldependencies.org"
    terms = "CC BY-SA 4.0"
    terms_url = "https://creativecommons.org/licenses/by-sa/4.0/"

`like = "small.toml"`, a file beside it, takes from there all that the file does not say.

A package relmo-en-tasks has the models relmo-en-NAME in src/relmo_en_tasks/NAME. Its pyproject.toml
and LICENSE are written anew from the models that it contains, so a model is withdrawn by deleting
its folder and running this script for another one. `--output` writes a folder without a package.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relmo.config import build
from relmo.errors import ConfigError, RelmoError, exit_code
from relmo.files import replacing
from relmo.tasks.installed import task_facts
from relmo.tasks.model_card import About, DataSource
from relmo.tasks.released import TaskStorage, export_task
from relmo.weights.find import TASK_CARD

LICENCE = "CC-BY-SA-4.0"
LEGAL_TEXT = Path(__file__).parents[1] / "src/relmo/models/relmo-en-small/LICENSE"
RULE = "\n====="
"""Before it, a licence file says what is licensed; from it on, it is the text of the licence."""
NOTICE = """\
The files of {what} are licensed under

    Creative Commons Attribution-ShareAlike 4.0 International (CC BY-SA 4.0)
    https://creativecommons.org/licenses/by-sa/4.0/legalcode

Copyright 2026 The relmo authors. The code of relmo is under the Apache License 2.0.

The weights and the word list were made from these labeled texts, which are not part of it:

{sources}

If you share the model or a changed one: name the relmo authors and the sources above, say what you
changed, and use this licence. The text of the licence follows.
"""
PYPROJECT = """\
# Task models for relmo, installed beside it: pip install ./models/{package}
# Written by scripts/release_task.py. No dependencies: there is no code in it, relmo finds the
# models by their entry points.

[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{package}"
version = "{version}"
description = "{about}"
readme = {{ text = "{about} Model cards lie beside the weights.", content-type = "text/markdown" }}
license = "{licence}"
license-files = ["LICENSE"]
requires-python = ">=3.11"
keywords = ["elmo", "nlp"]
classifiers = ["Topic :: Text Processing :: Linguistic"]

[project.entry-points."relmo.models"]
{entries}

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]

[tool.hatch.build.targets.sdist]
include = ["/src", "/LICENSE"]
"""


def release(
    runs: Sequence[Path],
    about: Path,
    package: Path | None = None,
    output: Path | None = None,
    version: str | None = None,
    storage: TaskStorage = "int8",
    test: Path | None = None,
    elmo: str | None = None,
) -> dict[str, Any]:
    """Export the first run to `output`, or into the package; return what is known of it then."""
    known = read_about(about)
    if package is not None:
        output = folder_in(package, known.name)
        install = f"In a clone of relmo: `pip install ./models/{package.name}`."
        known = dataclasses.replace(known, install=known.install or install)
    if output is None:
        raise ConfigError("give --package or --output")
    facts = export_task(
        runs[0], output, known, storage=storage, others=runs[1:], test=test, elmo=elmo,
        licence_text=licence_of(known.name, known.sources),
    )  # fmt: skip
    if package is not None:
        write_package(package, version)
    return facts


def read_about(path: Path) -> About:
    """What is said of the model, from a TOML file, under our licence and in English by default."""
    values = read_toml(path)
    if "like" in values:
        values = {**read_toml(path.parent / values.pop("like")), **values}
    sources = [build(DataSource, each, f"{path}: sources") for each in values.pop("sources", [])]
    found = build(About, {"licence": LICENCE, "language": "en", **values}, str(path))
    if not sources or found.licence != LICENCE:
        raise ConfigError(f"{path}: must name [[sources]], and no licence but {LICENCE}")
    return dataclasses.replace(found, sources=tuple(sources))


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a TOML file ({error})") from error


def folder_in(package: Path, name: str) -> Path:
    """Where a model is in a package: of relmo-en-pos in relmo-en-tasks, src/relmo_en_tasks/pos."""
    family = package.name.removesuffix("-tasks")
    task = name.removeprefix(f"{family}-")
    if not package.name.endswith("-tasks") or not re.fullmatch("[a-z0-9_]+", task):
        raise ConfigError(
            f"{package.name} cannot contain {name}; a package FAMILY-tasks has models FAMILY-NAME"
        )
    return package / "src" / package.name.replace("-", "_") / task


def licence_of(what: str, sources: Sequence[DataSource]) -> str:
    """The text of LICENSE."""
    lines = []
    for each in dict.fromkeys(sources):
        lines += [f"- {each.name}. {each.url}", f"  {each.terms}, {each.terms_url}".rstrip(", ")]
    notice = NOTICE.format(what=what, sources="\n".join(line.rstrip(" .") for line in lines))
    _, rule, legal = LEGAL_TEXT.read_text(encoding="utf-8").partition(RULE)
    return notice + rule + legal


def write_package(root: Path, version: str | None = None) -> None:
    """Write pyproject.toml, LICENSE and __init__.py of a package from the models in it."""
    module = root.name.replace("-", "_")
    home, family = root / "src" / module, root.name.removesuffix("-tasks")
    folders = sorted(path.parent for path in home.glob(f"*/{TASK_CARD}"))
    models = {f"{family}-{folder.name}": folder for folder in folders}
    sources = [
        DataSource(**each)
        for name, folder in models.items()
        for each in task_facts(folder, name)["sources"]
    ]
    about = f"Trained task models for relmo: {', '.join(models)}."
    settings = PYPROJECT.format(
        package=root.name,
        module=module,
        version=version or version_of(root / "pyproject.toml"),
        about=about,
        licence=LICENCE,
        entries="\n".join(f'{name} = "{module}.{path.name}"' for name, path in models.items()),
    )
    one = next(iter(models))
    texts = {
        root / "pyproject.toml": settings,
        root / "LICENSE": licence_of(f"the models {', '.join(models)}", sources),
        home / "__init__.py": f'"""Each folder is a model: `relmo.load("{one}")`."""\n',
    }
    for path, text in texts.items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def version_of(path: Path) -> str:
    """The version that a package has; 0.1.0 of a new one."""
    if not path.is_file():
        return "0.1.0"
    return str(tomllib.loads(path.read_text(encoding="utf-8"))["project"]["version"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and write the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs; the first is released")
    parser.add_argument("--about", type=Path, required=True, help="TOML file for the model card")
    parser.add_argument("--package", type=Path, help="folder of the package, FAMILY-tasks")
    parser.add_argument("--output", type=Path, help="folder to write instead of a package's")
    parser.add_argument("--version", help="of the package; by default it stays")
    parser.add_argument("--storage", default="int8", help="int8, float16 or float32")
    parser.add_argument("--test", type=Path, help="test file, to score the stored weights on")
    parser.add_argument("--elmo", help="name or folder of the runs' ELMo, if it has moved")
    args = parser.parse_args(arguments)
    try:
        facts = release(**vars(args))
    except RelmoError as error:
        parser.exit(exit_code(error), f"{parser.prog}: {error}\n")
    size = sum(facts["parts"].values())
    print(f"{facts['folder']}: {facts['model']}, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
