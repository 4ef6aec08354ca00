"""The Ansible roles of a user's own that a node image gets: hashed, and applied as copies that nobody edits."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.provision.unfinished import unfinished_folder
from gpuprov.spec.own_roles import FORM, list_role_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def hash_role(folder: Path) -> str:
    """Hash all of a role that `copied_roles` copies: names, contents, links, and what may be executed.

    Raises:
        HostNotReady: It is no longer a role, or cannot be read.
    """
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(b"%s\0" % os.fsencode(path.relative_to(folder)))
        try:
            kind, content = _read(path)
        except OSError as error:
            raise _unreadable(folder, str(error)) from error
        digest.update(b"%s %d\0" % (kind, len(content)))
        digest.update(content)
    return digest.hexdigest()


@contextmanager
def copied_roles(folders: Sequence[Path], cache: Path) -> Iterator[tuple[Path, ...]]:
    """Copies, beside each other in a folder of their own; what an editor does meanwhile is not in the image.

    A role that they depend on is therefore found only if it is one of them, or gpuprov's, and so is in the fingerprint.

    Raises:
        HostNotReady: One is no longer a role, or cannot be read.
    """
    if not folders:
        yield ()
        return
    place = unfinished_folder(cache, "roles")
    try:
        yield tuple(_copy(folder, place / folder.name) for folder in folders)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy(folder: Path, copy: Path) -> Path:
    try:
        for path in _files(folder):
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target, follow_symlinks=False)
    except OSError as error:
        raise _unreadable(folder, str(error)) from error
    return copy


def _read(path: Path) -> tuple[bytes, bytes]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return b"link", os.fsencode(path.readlink())
    return b"program" if mode & stat.S_IXUSR else b"file", path.read_bytes()


def _files(folder: Path) -> list[Path]:
    try:
        return list_role_files(folder)
    except (OSError, ValueError) as error:
        raise _unreadable(folder, str(error)) from error


def _unreadable(folder: Path, why: str) -> HostNotReady:
    return HostNotReady(
        f"the role {folder.name} of image.roles cannot be used",
        evidence=f"{folder} {why}" if str(folder) not in why else why,
        fix=f"make it {FORM}: ls -lR {folder}",
    )
