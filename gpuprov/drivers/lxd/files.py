"""Files in an instance, running or stopped, by LXD's file API."""

from __future__ import annotations

import contextlib
import posixpath
import stat
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import READ_S
from gpuprov.drivers.calls import Intake
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.sftp import look
from gpuprov.drivers.node_files import no_regular_file, too_large

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.drivers.base import File
    from gpuprov.drivers.lxd.api import LxdApi

_FOLDERS = ("/", "/etc", "/root", "/tmp", "/opt", "/usr/local", "/var")  # noqa: S108 - every image has them


def write_files(api: LxdApi, name: str, files: Sequence[File]) -> None:
    """Write files into an instance that is being made; missing parent folders are made."""
    made = set(_FOLDERS)
    for file in files:
        _make_folders(api, name, posixpath.dirname(file.path), made)
        api.push(("instances", name), file.path, file.content, _headers(api, "file", file.mode, file.uid, file.gid))


def replace_files(api: LxdApi, name: str, files: Sequence[File]) -> None:
    """Write files into an instance that does not run, in place of whatever is there; a FIFO there is never opened."""
    for file in files:
        with contextlib.suppress(NotFound):
            api.delete_file(("instances", name), file.path)
    write_files(api, name, files)


def look_at_file(api: LxdApi, name: str, path: str, *, most_bytes: int) -> tuple[str | None, bytes]:
    """A file of an instance that does not run, or the target of a link, as `read_at_rest` asks for it."""
    entry = look(api, name, path)
    if entry.kind not in (stat.S_IFREG, stat.S_IFLNK):
        raise no_regular_file(name, path)
    if entry.size > most_bytes:
        raise too_large(name, path, most_bytes)
    intake = Intake(most_bytes)
    api.read("instances", name, "files", path=path, take=partial(intake.take, "stdout"), timeout_s=READ_S)
    content = intake.output().stdout
    if entry.kind == stat.S_IFLNK:
        return content.decode("utf-8", "surrogateescape").strip(), b""
    return None, content


def _make_folders(api: LxdApi, name: str, folder: str, made: set[str]) -> None:
    if not folder.startswith("/"):
        raise EngineError(
            f"cannot write into {name}", evidence=f"{folder!r} is not an absolute path", fix="use the absolute path"
        )
    if folder in made:
        return
    _make_folders(api, name, posixpath.dirname(folder), made)
    # LXD answers success for a folder that exists and leaves its owner and mode as they are
    api.push(("instances", name), folder, b"", _headers(api, "directory", 0o755, 0, 0))
    made.add(folder)


def _headers(api: LxdApi, kind: str, mode: int, uid: int, gid: int) -> dict[str, str]:
    values = {"type": kind, "mode": f"{mode:04o}", "uid": str(uid), "gid": str(gid)}
    return {f"X-{api.kin.title}-{key}": value for key, value in values.items()}
