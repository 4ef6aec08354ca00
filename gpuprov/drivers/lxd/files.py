"""Files in an instance, running or stopped, by LXD's file API."""

from __future__ import annotations

import contextlib
import posixpath
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.lxd.api import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.base import File
    from gpuprov.drivers.lxd.api import LxdApi

_FOLDERS = ("/", "/etc", "/root", "/tmp", "/opt", "/usr/local", "/var")  # noqa: S108 - every image has them


def write_files(api: LxdApi, name: str, files: Sequence[File]) -> None:
    """Write files into an instance that is being made; missing parent folders are made."""
    made = set(_FOLDERS)
    for file in files:
        _make_folders(api, name, posixpath.dirname(file.path), made)
        api.push(("instances", name), file.path, file.content, _headers("file", file.mode, file.uid, file.gid))


def replace_files(api: LxdApi, name: str, files: Sequence[File]) -> None:
    """Write files over those that are there, mode and owner too, which LXD leaves as they are."""
    for file in files:
        wanted = _headers("file", file.mode, file.uid, file.gid)
        with contextlib.suppress(NotFound):
            if not _is_as(wanted, api.file_headers(("instances", name), file.path)):
                api.delete_file(("instances", name), file.path)
    write_files(api, name, files)


def _is_as(wanted: Mapping[str, str], seen: Mapping[str, str]) -> bool:
    return all(seen[key] == value for key, value in wanted.items() if key in seen)


def _make_folders(api: LxdApi, name: str, folder: str, made: set[str]) -> None:
    if not folder.startswith("/"):
        raise EngineError(
            f"cannot write into {name}", evidence=f"{folder!r} is not an absolute path", fix="use the absolute path"
        )
    if folder in made:
        return
    _make_folders(api, name, posixpath.dirname(folder), made)
    # LXD answers success for a folder that exists and leaves its owner and mode as they are
    api.push(("instances", name), folder, b"", _headers("directory", 0o755, 0, 0))
    made.add(folder)


def _headers(kind: str, mode: int, uid: int, gid: int) -> dict[str, str]:
    values = {"type": kind, "mode": f"{mode:04o}", "uid": str(uid), "gid": str(gid)}
    # pylxd talks to LXD and Incus alike; each reads its own spelling and ignores the other's
    return {f"X-{engine}-{key}": value for engine in ("LXD", "Incus") for key, value in values.items()}
