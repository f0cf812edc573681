"""Every module imports only from floors below its own (ruff TID252 bans relative imports)."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "relmo"
FLOORS = (
    {"errors", "types", "progress"},
    {"config", "files", "layers"},
    {"text", "kernels", "vectors"},
    {"nn"},
    {"runtime"},
    {"weights", "lm"},
    {"elmo"},
    {"elmo_layer", "training"},
    {"tasks", "senses", "batch"},
    {"search"},
    {"serve", "compat", "lab"},
    {"cli"},
)
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}
PATHS = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """First-level relmo names that a file imports, at top level or inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "relmo":
            found |= {alias.name for alias in node.names} & FLOOR_OF.keys()
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("relmo."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found |= {name.split(".")[1] for name in names if name.startswith("relmo.")}
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_floors_below(path: Path) -> None:
    room = room_of(path)
    if room in {"__init__", "__main__"}:
        return
    for other in imported_rooms(path) - {room}:
        assert FLOOR_OF[other] < FLOOR_OF[room], f"{room} may not import {other}: it is not below"


def test_only_the_commands_import_the_lab() -> None:
    users = {room_of(path) for path in PATHS if "lab" in imported_rooms(path)}
    assert users <= {"lab", "cli"}
