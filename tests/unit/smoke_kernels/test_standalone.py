"""The package is copied into nodes by itself, and only one of its modules knows numba."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "smoke_kernels"
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names |= {str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_nothing_of_gpuprov_and_no_numba(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported_names(path)}
    assert "gpuprov" not in roots
    assert ("numba" in roots) == (path.name == "backend.py")
