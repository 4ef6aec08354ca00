"""A frozen copy of a project's files, named by the hash of what is in it: running jobs never see an edit."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.limits import MIB
from gpuwork.errors import Refused, StoreError
from gpuwork.shared_folder import make_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXECUTABLE: Final = stat.S_IXUSR
_CHUNK: Final = MIB


def hash_files(folder: Path, names: Iterable[str]) -> str:
    """Names the files: their paths, their content, whether they are executable, and where links lead."""
    whole = hashlib.sha256()
    for name in sorted(names):
        path = folder / name
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        else:
            with path.open("rb") as file:
                kind = "program" if os.fstat(file.fileno()).st_mode & _EXECUTABLE else "file"
                digest = hashlib.sha256()
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                content = digest.hexdigest()
        whole.update(f"{kind} {content} {name}\0".encode())
    return whole.hexdigest()


def hash_folder(folder: Path) -> str:
    """The hash of everything in a folder; what Python compiled there does not count."""
    names = []
    for here, folders, files in os.walk(folder):
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders[:] = [name for name in folders if name != "__pycache__"]
        names += [os.path.relpath(Path(here, name), folder) for name in [*files, *links]]
    return hash_files(folder, names)


def freeze(project: Path, names: Iterable[str], *, code: str, into: Path) -> None:
    """Make `into`/CODE, a copy of the files that nobody may write to; nothing is done if it is there.

    Args:
        project: Where the files are.
        names: Which files.
        code: Their hash, as `hash_files` gave it before.
        into: The folder of frozen copies.

    Raises:
        Refused: The files changed meanwhile.
        OSError: The copy cannot be written; nothing of it is left.
    """
    there = into / code
    make_folder(into)
    if there.is_dir():
        return
    for left in into.glob(".*"):  # by a process that was killed: whoever writes here holds the lock of the store
        remove_copy(left)
    copy = into / f".{code[:12]}-{os.getpid()}"
    try:
        for name in names:
            path = copy / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(project / name, path, follow_symlinks=False)
        copy.mkdir(exist_ok=True)
        if hash_folder(copy) != code:
            raise Refused(
                "the project changed while it was copied",
                evidence=f"it was {code[:12]}, the copy is {hash_folder(copy)[:12]}",
                fix="run the same command again",
            )
        _protect(copy)
        copy.rename(there)
    finally:
        if copy.exists():
            remove_copy(copy)


def check_copy(copy: Path) -> None:
    """Raise a StoreError if a frozen copy is not what it is named for."""
    found = hash_folder(copy) if copy.is_dir() else "missing"
    if found != copy.name:
        raise StoreError(
            "the frozen copy of the project was changed or removed",
            evidence=f"{copy} is {found[:12]}",
            fix=f"chmod -R u+w {copy}; rm -r {copy}; then submit the project again",
        )


def remove_copy(copy: Path) -> None:
    """Remove a copy, also one that nobody may write to."""
    for here, _, _ in os.walk(copy):
        Path(here).chmod(0o700)
    shutil.rmtree(copy)


def _protect(folder: Path) -> None:
    for here, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(here, name)
            if not path.is_symlink():
                path.chmod(0o555 if path.stat().st_mode & _EXECUTABLE else 0o444)
        Path(here).chmod(0o555)
