"""Files as the tars that Docker takes and gives: pure functions."""

from __future__ import annotations

import io
import posixpath
import tarfile
import time
from typing import IO, TYPE_CHECKING

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import File


def pack(files: Iterable[File], *, folders: Iterable[str] = ()) -> bytes:
    """A tar to unpack at the root; `folders` are made as root's.

    Raises:
        EngineError: a path is not absolute.
    """
    packed = io.BytesIO()
    now = int(time.time())
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in folders:
            member = tarfile.TarInfo(folder.strip("/") + "/")
            member.type, member.mode, member.mtime = tarfile.DIRTYPE, 0o755, now
            tar.addfile(member)
        for file in files:
            if not file.path.startswith("/"):
                raise EngineError(
                    "cannot write into a node",
                    evidence=f"{file.path!r} is not an absolute path",
                    fix="use the absolute path",
                )
            member = tarfile.TarInfo(file.path.lstrip("/"))
            member.size, member.mode, member.uid, member.gid, member.mtime = (
                len(file.content),
                file.mode,
                file.uid,
                file.gid,
                now,
            )
            tar.addfile(member, io.BytesIO(file.content))
    return packed.getvalue()


def unpack(content: bytes) -> bytes | str | None:
    """The content of a tar's one file; the target, as text, if it is a link; None if it is neither."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        member = tar.next()
        if member is None:
            return None
        if member.issym():
            return member.linkname
        opened = tar.extractfile(member) if member.isfile() else None
        return opened.read() if opened else None


def extract_file(stream: IO[bytes], path: str) -> bytes | str | None:
    """One file of a long tar, as `unpack` returns it; None also if it is not there. Nothing behind it is read."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if posixpath.join("/", member.name) == path:
                opened = tar.extractfile(member) if member.isfile() else None
                return opened.read() if opened else member.linkname or None
    return None


def folders_above(paths: Iterable[str]) -> list[str]:
    """Every folder that leads to one of the paths, outer ones first, without the root."""
    found: set[str] = set()
    for path in paths:
        folder = posixpath.dirname(path)
        while folder not in ("/", ""):
            found.add(folder)
            folder = posixpath.dirname(folder)
    return sorted(found)
