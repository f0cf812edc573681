"""Checksums of a model's files, verified at every load.

The native layout records them in config.json. The official one has no place for them: there they
are in SHA256SUMS, a file that the program `sha256sum` writes and checks, too:

    sha256sum options.json weights.hdf5 > SHA256SUMS

What has no recorded checksum is not verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from relmo.errors import WeightError
from relmo.files import read_limited, replacing, sha256

SUMS = "SHA256SUMS"
MAX_SUMS_BYTES = 2**20
LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
ADVICE = "copy or download it again, or pass verify=False to load it nevertheless"


def verify(expected: Mapping[Path, str], advice: str = ADVICE) -> None:
    """Raise WeightError unless each file has its checksum, sha256 in hexadecimal."""
    with ThreadPoolExecutor(4, "relmo-verify") as pool:  # hashing does not hold Python's lock
        found = dict(zip(expected, pool.map(checksum_of, expected), strict=True))
    for path, checksum in expected.items():
        if found[path] != checksum.lower():
            raise WeightError(
                f"{path}: damaged or changed: its checksum is {found[path][:12]}…, recorded is "
                f"{checksum[:12]}…; {advice}"
            )


def checksum_of(path: Path) -> str:
    """The checksum of a model's file."""
    try:
        return sha256(path)
    except OSError as error:
        raise WeightError(f"{path}: cannot be read ({error.strerror}); copy it again") from error


def read_sums(folder: Path) -> dict[Path, str]:
    """The checksums that the SHA256SUMS of a folder lists; none if there is no such file."""
    return {folder / name: checksum for name, checksum in _listed(folder).items()}


def _listed(folder: Path) -> dict[str, str]:
    """The checksums by the names in the file, which may be of files elsewhere."""
    path = folder / SUMS
    if not path.is_file():
        return {}
    try:
        lines = read_limited(path, MAX_SUMS_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WeightError(f"{path}: cannot be read ({error}); delete it or make it anew") from error
    found = [LINE.fullmatch(line) for line in lines if line.strip()]
    if None in found:
        raise WeightError(
            f"{path}: each line must be a sha256, two spaces and a file name; "
            f"delete it or make it anew with sha256sum"
        )
    return {match[2]: match[1] for match in found if match}


def verify_listed(paths: Iterable[Path], advice: str = ADVICE) -> None:
    """Verify the files that the SHA256SUMS beside them lists."""
    wanted = list(paths)
    sums: dict[Path, str] = {}
    for folder in {path.parent for path in wanted}:
        sums |= read_sums(folder)
    verify({path: sums[path] for path in wanted if path in sums}, advice)


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write SHA256SUMS for these files of the folder; lines about other files stay."""
    new = {name: sha256(folder / name) for name in names}
    paths = {folder / name for name in new}
    sums = {name: value for name, value in _listed(folder).items() if folder / name not in paths}
    sums |= new
    lines = [f"{value}  {name}\n" for name, value in sums.items()]
    with replacing(folder / SUMS) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8", newline="\n")
