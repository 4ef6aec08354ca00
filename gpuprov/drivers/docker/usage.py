"""What images, containers and volumes take of Docker's folder, as its own `df` tells: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.core.disk import StorageUse
from gpuprov.drivers.docker.documents import SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def parse_usage(said: Mapping[str, Any]) -> Iterator[StorageUse]:
    """The answer to /system/df, in which what images share belongs to none of them."""
    alone = 0
    for image in said.get("Images") or ():
        tag = next(iter(image.get("RepoTags") or ()), image["Id"].removeprefix("sha256:")[:12])
        size = image["Size"] - max(image.get("SharedSize") or 0, 0)
        alone += size
        yield StorageUse(kind="snapshot" if tag.startswith(f"{SNAPSHOTS}:") else "image", name=tag, size_bytes=size)
    shared = (said.get("LayersSize") or 0) - alone
    if shared > 0:
        yield StorageUse(kind="layers", name="that images share", size_bytes=shared)
    for container in said.get("Containers") or ():
        name = container["Names"][0].lstrip("/")
        yield StorageUse(kind="node", name=name, size_bytes=container.get("SizeRw") or 0)
    for volume in said.get("Volumes") or ():
        size = (volume.get("UsageData") or {}).get("Size") or 0
        yield StorageUse(kind="volume", name=volume["Name"], size_bytes=max(size, 0))
    built = sum(part.get("Size") or 0 for part in said.get("BuildCache") or () if not part.get("Shared"))
    if built:
        yield StorageUse(kind="cache", name="of builds", size_bytes=built)
