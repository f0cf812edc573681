"""What the README shows is what happens."""

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_readmes_python_prints_what_it_says():
    plain = re.sub("^```.*$", "", README, flags=re.MULTILINE)  # a fence is no output
    test = doctest.DocTestParser().get_doctest(plain, {}, "README.md", None, None)
    found = doctest.DocTestRunner().run(test)
    assert found.attempted >= 10
    assert found.failed == 0


def test_the_first_code_stands_by_line_12_and_the_page_is_short():
    first = next(i for i, line in enumerate(README.splitlines(), 1) if line.startswith("```"))
    assert first <= 12
    assert len(README.splitlines()) <= 150


def test_ci_runs_exactly_the_readmes_test_command():
    command = re.search(r"^\$ (\S+ -m pytest)$", README, re.MULTILINE)[1]
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_every_page_that_is_linked_is_there():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            if link.startswith("models/") and not (ROOT / "models").exists():
                continue  # a source archive has no packages of models
            assert (page.parent / link).exists(), f"{page.name}: {link}"
