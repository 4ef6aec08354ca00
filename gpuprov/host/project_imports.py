"""Which packages a module of a project needs when it is imported, as far as its text tells; nothing of it is run."""

from __future__ import annotations

import ast
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.core.units import MIB

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

MOST_FILES: Final = 200
MOST_BYTES: Final = MIB
_IN_NODES: Final = frozenset({*sys.stdlib_module_names, "gpuwork"})
_SETTLES: Final = ("sys.path", "site.addsitedir")  # a project that says itself where packages are


def find_imports(project: Path, files: Collection[str], module: str) -> Mapping[str, str]:
    """The packages that importing a module takes beyond Python's own and the project's: name to `FILE:LINE`.

    Only imports that stand alone count, not those within `try`, `if` or a function. A project that changes `sys.path`,
    and what is too large, tells nothing.

    Args:
        project: Its folder.
        files: What belongs to it, relative to the folder.
        module: Where it begins, such as `src.job`.
    """
    own = _Own(files, module)
    found: dict[str, str] = {}
    left, seen = own.files_of(module, PurePosixPath()), set[str]()
    while left:
        file = left.pop()
        if file in seen:
            continue
        seen.add(file)
        tree = _parse(project / file) if len(seen) <= MOST_FILES else None
        if tree is None:
            return {}
        for name, level, line in _imports(tree):
            inner = own.files_of(name, PurePosixPath(file).parent, level)
            left += inner
            top = name.partition(".")[0]
            if not inner and not level and top not in _IN_NODES and not own.has(top):
                found.setdefault(top, f"{file}:{line}")
    return found


class _Own:
    """The modules of a project: below its folder, and below the folder of the module that is run."""

    def __init__(self, files: Collection[str], module: str) -> None:
        self._files = frozenset(files)
        self._tops = {PurePosixPath(), PurePosixPath(*module.split(".")[:-1])}
        parts = [PurePosixPath(file).parts for file in files]
        self._names = {
            part[len(top.parts)].removesuffix(".py")
            for part in parts
            for top in self._tops
            if part[: len(top.parts)] == top.parts and len(part) > len(top.parts)
        }

    def has(self, name: str) -> bool:
        """Whether a file or folder of it has this name: a compiled module, say, or a folder without files of Python."""
        return any(name == own.partition(".")[0] for own in self._names)

    def files_of(self, module: str, here: PurePosixPath, level: int = 0) -> list[str]:
        """The files that importing a module runs; `level` is that of a relative import in the folder `here`."""
        up = max(0, level - 1)
        below = here.parents[up - 1] if 0 < up <= len(here.parents) else here
        found = []
        for top in [below] if level else self._tops:
            path = top
            for part in [part for part in module.split(".") if part]:
                path /= part
                found += [name for name in (f"{path}.py", f"{path}/__init__.py") if name in self._files]
        return found


def _parse(path: Path) -> ast.Module | None:
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        text = path.read_text(encoding="utf-8")
        return None if any(words in text for words in _SETTLES) else ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _imports(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Module, level and line of each import that stands alone; of `from .a import b` also `a.b`, which may be one."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module or not node.level:
                yield module, node.level, node.lineno
            for alias in node.names:
                yield f"{module}.{alias.name}".lstrip("."), node.level, node.lineno
