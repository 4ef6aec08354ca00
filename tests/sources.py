"""This repository's Python, parsed: a second for all of it, which tests of several files ask for."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """A module; nobody changes it."""
    return ast.parse(path.read_text())


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Everything in a module, as `ast.walk` gives it."""
    return tuple(ast.walk(tree))
