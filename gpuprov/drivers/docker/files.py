"""Files of containers, running or stopped."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.docker.api import NotFound
from gpuprov.drivers.docker.execute import execute
from gpuprov.drivers.node_files import (
    Absent,
    absent,
    no_regular_file,
    read_at_rest,
    read_in_node,
    unreadable,
    write_in_node,
)
from gpuprov.drivers.tars import find_member, folders_above, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.drivers.base import File
    from gpuprov.drivers.docker.api import DockerApi
    from gpuprov.shapes.node import Mount

    HasFolder = Callable[[str], bool]

# Docker mounts files of its own here and rewrites them at every start. So the wanted contents are kept elsewhere in
# the node, and the node's main process copies it when it starts.
KEPT = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


def kept_folder(uid: str) -> str:
    """Where a node keeps what is pushed to those paths; a copy of the node has another uid, and does not read it."""
    return f"/var/lib/gpuprov/{uid}"


def apply_kept(uid: str) -> str:
    """Shell lines that put the kept files in place; a FIFO there is not opened, and nothing waits for one."""
    folder = kept_folder(uid)
    return "\n".join(f"[ ! -f {folder}{path} ] || [ ! -f {path} ] || cat {folder}{path} > {path}" for path in KEPT)


def has_folder(api: DockerApi, container: str, folder: str) -> bool:
    """Whether a container has a folder."""
    return api.exists(f"/containers/{container}/archive", path=folder)


def put_files(api: DockerApi, container: str, uid: str, files: Sequence[File], *, has: HasFolder) -> None:
    """Write files into a container that does not run; missing parent folders are made, and are root's.

    Args:
        container: Its identity.
        uid: Of its node.
        files: What to write.
        has: Says whether it has a folder.
    """
    if not files:
        return
    placed = _placed(uid, files)
    missing = _missing_folders([file.path for file in placed], has)
    api.put(f"/containers/{container}/archive", pack(placed, folders=missing), path="/")


@dataclass(frozen=True, kw_only=True)
class NodeFiles:
    """The files of a node's container.

    Attributes:
        container: Its identity.
        node: The node's name.
        uid: The node's.
        running: Whether it runs.
        mounts: The node's.
    """

    api: DockerApi
    container: str
    node: str
    uid: str
    running: bool
    mounts: Sequence[Mount]

    def push(self, files: Sequence[File]) -> None:
        """Write files; what Docker mounts is put in place at once if the node runs."""
        if not self.running:
            has = partial(has_folder, self.api, self.container)
            put_files(self.api, self.container, self.uid, files, has=has)
            return
        then = apply_kept(self.uid) if any(file.path in KEPT for file in files) else ""
        write_in_node(partial(execute, self.api, self.container), self.node, _placed(self.uid, files), then=then)

    def pull(self, path: str, *, most_bytes: int, timeout_s: float) -> bytes:
        """Read a file."""
        if path in KEPT:
            with suppress(Absent):
                return self._read(kept_folder(self.uid) + path, most_bytes, timeout_s)
        return self._read(path, most_bytes, timeout_s)

    def _read(self, path: str, most_bytes: int, timeout_s: float) -> bytes:
        if self.running:
            run = partial(execute, self.api, self.container)
            return read_in_node(run, self.node, path, most_bytes=most_bytes, timeout_s=timeout_s)
        gone = not all(Path(mount.source).exists() for mount in self.mounts)
        look = partial(self._search if gone else self._take, most_bytes=most_bytes, timeout_s=timeout_s)
        return read_at_rest(look, self.node, path, most_bytes=most_bytes)

    def _take(self, path: str, *, most_bytes: int, timeout_s: float) -> tuple[str | None, bytes]:
        try:
            with self.api.reading(f"/containers/{self.container}/archive", timeout_s=timeout_s, path=path) as stream:
                found = find_member(stream, most_bytes=most_bytes)
        except NotFound as error:
            raise absent(self.node, path) from error
        except EngineError as error:  # links in a circle
            raise unreadable(self.node, path, error.evidence) from error
        if found is None:
            raise no_regular_file(self.node, path)
        return found

    def _search(self, path: str, *, most_bytes: int, timeout_s: float) -> tuple[str | None, bytes]:
        """The same of a container that has a mount without a source, of which Docker says it has no file at all."""
        with self.api.reading(f"/containers/{self.container}/export", timeout_s=timeout_s) as stream:
            found = find_member(stream, path, most_bytes=most_bytes)
        if found is None:
            raise absent(self.node, path)
        return found


def _placed(uid: str, files: Sequence[File]) -> list[File]:
    folder = kept_folder(uid)
    return [replace(file, path=folder + file.path) if file.path in KEPT else file for file in files]


def _missing_folders(paths: Sequence[str], has: HasFolder) -> list[str]:
    """Folders above the paths that are not there; asked from the inside out, and each once."""
    missing: list[str] = []
    present: set[str] = set()
    for folder in reversed(folders_above(paths)):
        if folder in present:
            continue
        if has(folder):
            present |= {folder, *folders_above([folder])}
        else:
            missing.append(folder)
    return missing[::-1]
