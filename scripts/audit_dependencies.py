"""Licenses and known vulnerabilities of what relmo depends on.

    python scripts/audit_dependencies.py licenses docs/licenses.md    # write the list
    python scripts/audit_dependencies.py vulnerabilities              # ask the advisory database

The second needs pip-audit and the internet; where either is missing it says so and succeeds, so
that a build without a network is not broken by it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

HEAD = """# Licenses of dependencies

Written by `scripts/audit_dependencies.py` from the metadata of the installed packages: what relmo
and its extras name themselves, without the packages that those need in turn.

| package | needed for | license |
|---|---|---|
"""


def direct_dependencies() -> dict[str, str]:
    """Package -> the extra that needs it ("core" if relmo itself does), as pyproject.toml says."""
    found: dict[str, str] = {}
    for line in requires("relmo") or []:
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        use = extra[1] if extra else "core"
        if name and name[0] != "relmo" and found.get(name[0].lower(), "dev") == "dev":
            found[name[0].lower()] = use  # dev repeats what the other extras name
    return found


def license_of(package: str) -> str:
    """The license as its metadata states it: the expression, the field or the classifiers."""
    try:
        facts = metadata(package)
    except PackageNotFoundError:
        return "not installed here"
    if expression := facts.get("License-Expression"):
        return str(expression)
    ends = [each.rpartition(" :: ")[2] for each in facts.get_all("Classifier") or []
            if each.startswith("License ::")]  # fmt: skip
    stated = str(facts.get("License") or "").strip()
    return ", ".join(ends) or (stated if 0 < len(stated) < 60 else "see the package")


def list_licenses() -> str:
    """The page of licenses."""
    rows = sorted((extra != "core", name, extra) for name, extra in direct_dependencies().items())
    lines = [f"| {name} | {extra} | {license_of(name)} |" for _, name, extra in rows]
    return HEAD + "\n".join(lines) + "\n"


def find_vulnerabilities(timeout: float = 90) -> int:
    """Exit status: 1 if the advisory database knows a vulnerability of an installed version."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--local",
        "--format",
        "json",
        "--progress-spinner",
        "off",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
        packages = json.loads(done.stdout)["dependencies"]
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        print("dependency audit skipped: pip-audit or its database cannot be reached")
        return 0
    asked = [package for package in packages if "skip_reason" not in package]
    if not asked:
        print(f"dependency audit skipped: nothing known about the {len(packages)} packages")
        return 0
    bad = [package for package in asked if package.get("vulns")]
    for package in bad:
        names = ", ".join(each["id"] for each in package["vulns"])
        print(f"{package['name']} {package['version']}: {names}")
    print(
        f"dependency audit: {len(asked)} of {len(packages)} packages asked, {len(bad)} vulnerable"
    )
    return int(bool(bad))


def main() -> int:
    """Do what the arguments say."""
    if sys.argv[1:2] == ["licenses"] and len(sys.argv) == 3:
        Path(sys.argv[2]).write_text(list_licenses(), encoding="utf-8")
        return 0
    if sys.argv[1:] == ["vulnerabilities"]:
        return find_vulnerabilities()
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
