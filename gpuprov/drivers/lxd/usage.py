"""What the volumes of a storage pool take of it: as LXD tells, or, on btrfs and in folders, as this host counts."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.core.disk import COUNT_S, StorageUse
from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.execution import run
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.drivers.lxd.documents import IMAGE_INSTANCE
from gpuprov.drivers.lxd.members import is_here

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpuprov.drivers.lxd.api import Document, LxdApi

    Count = Callable[[Document, float], int | None]

_AT_ONCE: Final = 4
_ID: Final = 12  # of the digits that name a base
_FOLDERS: Final = {"container": "containers", "image": "images", "custom": "custom"}
_IMAGE, _BASE = "image", "base"
_BEGUN: Final = re.compile(r"^ID \d+ gen \d+ cgen (\d+) top level \d+ path (\S+)$", re.MULTILINE | re.ASCII)
# The extents that were written since a subvolume was made, as from an image: what it does not share with its origin
_WRITTEN: Final = (
    """btrfs subvolume find-new "$1" "$2" | awk '$1 == "inode" { sum += $7 } END { printf "%.0f", sum }'"""
)


def pool_usage(api: LxdApi, pool: str) -> list[StorageUse]:
    """Nodes and snapshots are counted before images, for as long as that may take.

    On btrfs, LXD would know it only with quotas, and in a folder not at all; there, only root of the host can count.
    """
    end_s = time.monotonic() + COUNT_S
    driver = str(api.get("storage-pools", pool)["driver"])
    listed: list[Document] = api.get("storage-pools", pool, "volumes", recursion=1)
    named = [(_kind(volume), volume) for volume in listed if is_here(volume, api.member)]
    count = _counter(api, pool, driver)

    def look(kind: str, volume: Document) -> StorageUse:
        left_s = end_s - time.monotonic()
        name = volume["name"][:_ID] if kind == _BASE else volume["name"]
        return StorageUse(kind=kind, name=name, size_bytes=count(volume, left_s) if left_s > 0 else None)

    ordered = sorted(named, key=lambda one: one[0] in (_IMAGE, _BASE))
    return ask_side_by_side([partial(look, kind, volume) for kind, volume in ordered], workers=_AT_ONCE)


def _kind(volume: Document) -> str:
    if volume["type"] != "container":
        return _BASE if volume["type"] == "image" else "volume"
    if volume["name"].startswith(IMAGE_INSTANCE):
        return _IMAGE
    return "snapshot" if "/" in volume["name"] else "node"


def _counter(api: LxdApi, pool: str, driver: str) -> Count:
    """What tells the bytes of a volume within some seconds; None where nothing does."""
    folder = api.storage_pools / pool
    if driver == "btrfs":
        return partial(_written, folder, _begun(folder))
    if driver == "dir":
        return lambda volume, left_s: _said(["du", "-s", "-x", "-B1", "--", _place(folder, volume)], left_s, column=0)
    return lambda volume, _: _told(api, pool, volume)


def _told(api: LxdApi, pool: str, volume: Document) -> int | None:
    """As LXD says; of snapshots it says nothing."""
    try:
        state = api.get("storage-pools", pool, "volumes", volume["type"], volume["name"], "state")
    except EngineError:
        return None
    used = (state.get("usage") or {}).get("used")
    return used if isinstance(used, int) else None


def _begun(folder: Path) -> dict[str, str]:
    """The generation in which each subvolume of a pool was made; empty where this user may not see that."""
    try:
        listed = run(["btrfs", "subvolume", "list", "-c", str(folder)], timeout_s=COUNT_S, check=False).stdout
    except GpuprovError:
        return {}
    return {path: generation for generation, path in _BEGUN.findall(listed)}


def _written(folder: Path, begun: Mapping[str, str], volume: Document, left_s: float) -> int | None:
    """What was written into a subvolume since it was made; of a snapshot, what nothing else has any more."""
    place = _place(folder, volume)
    if "/" in volume["name"]:
        return _said(["btrfs", "filesystem", "du", "-s", "--raw", "--", place], left_s, column=1)
    generation = begun.get(place.removeprefix(f"{folder}/"))
    return _said(["sh", "-c", _WRITTEN, "sh", place, generation], left_s, column=0) if generation else None


def _place(folder: Path, volume: Document) -> str:
    kind = _FOLDERS.get(str(volume["type"]), str(volume["type"]))
    return str(folder / (f"{kind}-snapshots" if "/" in volume["name"] else kind) / volume["name"])


def _said(argv: list[str], left_s: float, *, column: int) -> int | None:
    """The number in a column of the last line that a command says."""
    try:
        return int(run(argv, timeout_s=left_s, check=False).stdout.splitlines()[-1].split()[column])
    except (GpuprovError, ValueError, IndexError):
        return None
