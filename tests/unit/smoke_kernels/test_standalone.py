"""The package is copied into nodes by itself, and only one of its modules knows numba."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.sources import nodes_of, parsed

PACKAGE = Path(__file__).parents[3] / "smoke_kernels"
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in nodes_of(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names |= {str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return names


def test_its_modules_import_nothing_of_gpuprov_and_one_of_them_numba() -> None:
    roots = {path: {name.split(".")[0] for name in imported_names(path)} for path in MODULES}
    assert [path for path, names in roots.items() if "gpuprov" in names] == []
    assert [path.name for path, names in roots.items() if "numba" in names] == ["backend.py"]
