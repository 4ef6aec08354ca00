"""Which packages a module of a project needs when it is imported, as far as its text tells; nothing of it is run.

gpuprov runs it on its host for what nodes are to have: `{"project": FOLDER, "files": [...], "module": NAME}` on stdin.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.limits import MIB
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MOST_FILES: Final = 200
MOST_BYTES: Final = MIB
_ALWAYS_THERE: Final = frozenset({*sys.stdlib_module_names, "gpuwork"})
# A project that says itself where its packages are
_SETTLES: Final = (b"sys.path", b"sys.meta_path", b"sys.modules", b"from sys import", b"addsitedir")


def find_imports(project: Path, files: Collection[str], module: str) -> dict[str, tuple[str, int]]:
    """The packages that importing a module takes beyond Python's own and the project's: name to file and line.

    Only imports that stand alone count, not those within `try`, `if` or a function. A project that changes where
    Python looks, and what is too large, tells nothing.

    Args:
        files: What belongs to it, relative to the folder.
        module: Where it begins, such as `src.job`.
    """
    own = _Own(files, module)
    found: dict[str, tuple[str, int]] = {}
    left, seen = own.files_of(module, PurePosixPath()), set[str]()
    while left:
        file = left.pop(0)
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
            if not inner and not level and top not in _ALWAYS_THERE and not own.has(top):
                found.setdefault(top, (file, line))
    return found


class _Own:
    """The modules of a project: below its folder, and below the folder of the module that is run."""

    def __init__(self, files: Collection[str], module: str) -> None:
        self._files = frozenset(files)
        self._tops = dict.fromkeys((PurePosixPath(), PurePosixPath(*module.split(".")[:-1])))
        parts = [PurePosixPath(file).parts for file in files]
        self._names = {
            part[len(top.parts)].partition(".")[0]
            for part in parts
            for top in self._tops
            if part[: len(top.parts)] == top.parts and len(part) > len(top.parts)
        }

    def has(self, name: str) -> bool:
        """Whether a file or folder of it has this name: a compiled module, say, or a folder without files of Python."""
        return name in self._names

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
        content = read_limited(path.resolve(), limit=MOST_BYTES)
        return None if content is None or any(words in content for words in _SETTLES) else ast.parse(content)
    except (OSError, ValueError, SyntaxError, RuntimeError, MemoryError):
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


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    told = find_imports(Path(asked["project"]), asked["files"], asked["module"])
    print(json.dumps({"imports": {name: f"{file}:{line}" for name, (file, line) in told.items()}}))  # noqa: T201
