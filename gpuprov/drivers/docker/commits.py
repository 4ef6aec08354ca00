"""Images made of a container's file system, which Docker writes to the host's disk a second time."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.core.units import GIB
from gpuprov.drivers.docker import documents
from gpuprov.drivers.docker.blueprint import NODE_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpuprov.drivers.docker.api import DockerApi

_RESERVE_BYTES = GIB


def commit(
    api: DockerApi, container: str, tag: str, *, hide: Iterable[str], labels: Mapping[str, str] | None = None
) -> None:
    """Make an image of a container's file system; a running container is paused meanwhile.

    Args:
        container: Running or not.
        tag: The image's, with its repository.
        hide: Keys of container labels that the image must not have.
        labels: Labels of the image.

    Raises:
        EngineError: The files do not fit into Docker's storage.
    """
    repository, _, name = tag.partition(":")
    body = {"Labels": {**documents.blank([*hide, NODE_LABEL]), **(labels or {})}}
    with _paused(api, container):
        _require_room(api, container)
        api.post("/commit", body, container=container, repo=repository, tag=name)


@contextmanager
def _paused(api: DockerApi, container: str) -> Iterator[None]:
    """Docker itself pauses only while it commits, and a node could grow its files between our look and that."""
    if api.get(f"/containers/{container}/json")["State"]["Status"] != "running":
        yield
        return
    api.post(f"/containers/{container}/pause")
    try:
        yield
    finally:
        api.post(f"/containers/{container}/unpause")


def _require_room(api: DockerApi, container: str) -> None:
    """Docker writes the holes of sparse files in full: one file of 1 TB without blocks would fill the disk."""
    document = api.get(f"/containers/{container}/json", size=True)
    name = document["Name"].lstrip("/")
    needed = int(document.get("SizeRw", -1))
    if needed < 0:  # as Docker says where it fails; what it cannot look at, a copy would lack without a word
        raise EngineError(
            f"docker cannot measure the files of {name}, so they are not copied",
            evidence="the size is unknown; this happens if folders are nested beyond the maximum path length",
            fix=f"read docker's log for the path, and remove it: gpuprov exec {name} -- rm -rf PATH",
        )
    folder = Path(api.get("/info")["DockerRootDir"])
    free = shutil.disk_usage(folder).free
    if needed + _RESERVE_BYTES <= free:
        return
    raise EngineError(
        f"the files of {name} do not fit into Docker's storage a second time",
        evidence=f"{needed / GIB:.1f} GiB, the holes of sparse files included; {free / GIB:.1f} GiB free in {folder}, "
        f"of which {_RESERVE_BYTES // GIB} GiB stays free",
        fix=f"find large files: gpuprov exec {name} -- find / -xdev -size +1G; or free some space: docker system df",
    )
