"""scripts/audit_dependencies.py and the list that it wrote."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/audit_dependencies.py"


@pytest.fixture(scope="module")
def audit():
    if not SCRIPT.is_file():
        pytest.skip("scripts/ is not part of this copy of the tests")
    spec = importlib.util.spec_from_file_location("audit_dependencies", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_names_every_dependency(audit):
    page = (ROOT / "docs/licenses.md").read_text()
    missing = [name for name in audit.direct_dependencies() if f"| {name} |" not in page]
    assert not missing, (
        "write it anew: python scripts/audit_dependencies.py licenses docs/licenses.md"
    )
    assert "not installed here" not in page


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "1 of 1 packages"),
        (json.dumps({"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]},
                                      {"name": "b", "skip_reason": "unknown"}]}), 1, "a 1: CVE-1"),
        ("no network", 0, "skipped"),
    ],
)  # fmt: skip
def test_only_a_known_vulnerability_fails(audit, monkeypatch, capsys, answer, status, said):
    done = subprocess.CompletedProcess([], 1, stdout=answer)
    monkeypatch.setattr(audit.subprocess, "run", lambda *args, **options: done)
    assert audit.find_vulnerabilities() == status
    assert said in capsys.readouterr().out
