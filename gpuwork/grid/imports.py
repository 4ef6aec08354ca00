"""What the code of a project imports first of all and this machine lacks, by its text alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuwork.errors import Fault
from gpuwork.packages import is_there, lacks
from gpuwork.shared_folder import read_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

_OF_PATH: Final = frozenset({"addsitedir", "meta_path", "modules", "path", "path_hooks"})


@dataclass(frozen=True, kw_only=True)
class LackedModule(Fault):
    """A module that code of the project needs and this machine lacks."""

    module: str


def find_lacked(folder: Path, files: Collection[str], first: str) -> list[LackedModule]:
    """The modules that a run would fail to import, each once, with the line.

    Only imports at the top level of a module count, those of the project's own modules included. Of a project that
    changes where Python looks for modules, everything is believed to be there.

    Args:
        folder: Of the project.
        files: What belongs to it, relative to the folder.
        first: The file that is imported.
    """
    found: dict[str, LackedModule] = {}
    seen, left = {first}, [first]
    roots = dict.fromkeys((PurePosixPath(), PurePosixPath(first).parent))
    while left:
        file = left.pop(0)
        body = _read(folder / file)
        if any(map(_changes_path, body)):
            return []
        for name, line in _imports(body):
            top = name.partition(".")[0]
            if any(_has(root, top, files) for root in roots):
                own = {path for root in roots for path in _paths(root, name) if path in files} - seen
                left += sorted(own)
                seen |= own
            elif not is_there(top):
                message = f"imports {name}, which is not installed"
                found.setdefault(top, LackedModule(file=file, line=line, message=message, module=top))
    return [*found.values()]


def refuse_lacked(faults: Sequence[Fault]) -> None:
    """Refuse a machine that lacks modules of a project which has no other faults.

    Raises:
        HostLacks: With all of them, and the command that installs their packages.
    """
    lacked = [fault for fault in faults if isinstance(fault, LackedModule)]
    if lacked and len(lacked) == len(faults):
        raise lacks([fault.module for fault in lacked], [str(fault) for fault in lacked])


def _read(path: Path) -> list[ast.stmt]:
    try:
        return ast.parse(read_limited(path) or b"").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _imports(body: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    """The absolute names that a module imports whenever it is imported itself, with their lines."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module, node.lineno


def _changes_path(node: ast.stmt) -> bool:
    """Whether a statement may change where modules are found."""
    names = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return bool(names & _OF_PATH) or (isinstance(node, ast.ImportFrom) and node.module == "sys")


def _paths(root: PurePosixPath, name: str) -> tuple[str, ...]:
    """The files that a module may be, and those that are imported before it."""
    parts = name.split(".")
    packages = tuple(str(root.joinpath(*parts[:most], "__init__.py")) for most in range(1, len(parts) + 1))
    return (*packages, str(root.joinpath(*parts[:-1], f"{parts[-1]}.py")))


def _has(root: PurePosixPath, top: str, files: Collection[str]) -> bool:
    """Whether the project has a module, a folder or a link of this name."""
    place = str(root / top)
    return any(file == place or file.startswith((f"{place}/", f"{place}.")) for file in files)
