"""Files as tars, which engines and nodes take and give."""

from __future__ import annotations

import io
import posixpath
import tarfile
import time
from contextlib import suppress
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


def find_member(stream: IO[bytes], path: str | None = None, *, most_bytes: int) -> tuple[str | None, bytes] | None:
    """One file of a tar that is read as it comes; what is behind the file is not read, nor what is over the limit.

    Args:
        path: The file; the tar's first member where None.
        most_bytes: Of the file; a byte more is read, so that a larger one is known.

    Returns:
        (None, content) of a regular file, (target, b"") of a link; None if it is absent or neither.
    """
    with suppress(tarfile.TarError), tarfile.open(fileobj=stream, mode="r|") as tar:  # Docker breaks off at a socket
        for member in tar:
            if path is None or posixpath.join("/", member.name) == path:
                if member.issym():
                    return member.linkname, b""
                if member.islnk():
                    return posixpath.join("/", member.linkname), b""
                opened = tar.extractfile(member) if member.isfile() else None
                return (None, opened.read(most_bytes + 1)) if opened else None
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
