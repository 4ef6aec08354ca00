"""Files of containers, running or stopped."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import Call
from gpuprov.drivers.docker import archive
from gpuprov.drivers.docker.api import NotFound
from gpuprov.drivers.docker.execute import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.drivers.base import File
    from gpuprov.drivers.docker.api import DockerApi
    from gpuprov.spec.devices import Mount

    HasFolder = Callable[[str], bool]

# Docker mounts files of its own here and rewrites them at every start. So the wanted contents are kept elsewhere in
# the node, and the node's main process copies it when it starts.
KEPT = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_LINKS_MAX = 10


def kept_folder(uid: str) -> str:
    """Where a node keeps what is pushed to those paths; a copy of the node has another uid, and does not read it."""
    return f"/var/lib/gpuprov/{uid}"


def apply_kept(uid: str) -> str:
    """Shell lines that put the kept files in place."""
    folder = kept_folder(uid)
    return "\n".join(f"[ ! -f {folder}{path} ] || cat {folder}{path} > {path}" for path in KEPT)


def has_folder(api: DockerApi, container: str, folder: str) -> bool:
    """Whether a container has a folder."""
    return api.exists(f"/containers/{container}/archive", path=folder)


def put_files(api: DockerApi, container: str, uid: str, files: Sequence[File], *, has: HasFolder) -> None:
    """Write files into a container; missing parent folders are made, and are root's.

    Args:
        api: The engine.
        container: Running or not.
        uid: Of its node.
        files: What to write.
        has: Says whether it has a folder.
    """
    if not files:
        return
    folder = kept_folder(uid)
    placed = [replace(file, path=folder + file.path) if file.path in KEPT else file for file in files]
    missing = _missing_folders([file.path for file in placed], has)
    api.put(f"/containers/{container}/archive", archive.pack(placed, folders=missing), path="/")


def push_files(api: DockerApi, container: str, uid: str, files: Sequence[File], *, running: bool) -> None:
    """Write files into a node's container; what Docker mounts is put in place at once if it runs."""
    put_files(api, container, uid, files, has=lambda folder: has_folder(api, container, folder))
    if running and any(file.path in KEPT for file in files):
        result = execute(api, container, Call(argv=["sh", "-c", apply_kept(uid)], cwd="/"))
        if result.exit_code != 0:
            raise EngineError(
                "the files that docker mounts could not be written",
                evidence=result.stderr or result.stdout,
                fix="read the node's log: gpuprov logs NODE",
            )


def _missing_folders(paths: Sequence[str], has: HasFolder) -> list[str]:
    """Folders above the paths that are not there; asked from the inside out, and each once."""
    missing: list[str] = []
    present: set[str] = set()
    for folder in reversed(archive.folders_above(paths)):
        if folder in present:
            continue
        if has(folder):
            present |= {folder, *archive.folders_above([folder])}
        else:
            missing.append(folder)
    return missing[::-1]


def pull_file(api: DockerApi, container: str, uid: str, path: str, *, mounts: Sequence[Mount]) -> bytes:
    """Read a file of a container that has these mounts, through links."""
    gone = not all(Path(mount.source).exists() for mount in mounts)

    def read(path: str) -> bytes:
        return _read(lambda asked: (_look if gone else _take)(api, container, asked), path)

    if path in KEPT:
        try:
            return read(kept_folder(uid) + path)
        except NotFound:
            pass
    return read(path)


def _read(get: Callable[[str], bytes | str | None], path: str) -> bytes:
    asked = path
    for _ in range(_LINKS_MAX):
        content = get(asked)
        if isinstance(content, bytes):
            return content
        if content is None:
            break
        asked = posixpath.normpath(posixpath.join(posixpath.dirname(asked), content))
    raise EngineError(f"cannot read {path}", evidence="it is not a file", fix="use the path of a file")


def _take(api: DockerApi, container: str, path: str) -> bytes | str | None:
    return archive.unpack(api.get_bytes(f"/containers/{container}/archive", path=path))


def _look(api: DockerApi, container: str, path: str) -> bytes | str | None:
    """The same of a container that has a mount without a source, of which Docker says that it has no file at all."""
    with api.reading(f"/containers/{container}/export") as stream:
        content = archive.extract_file(stream, path)
    if content is None:
        raise NotFound(
            f"there is no file {path}",
            evidence="the container's archive does not contain it",
            fix="inspect the node: gpuprov shell NODE",
        )
    return content
