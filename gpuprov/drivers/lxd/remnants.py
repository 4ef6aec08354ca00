"""What LXD leaves of a node where it is killed or fails, and never removes itself."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.execution import CommandMissing, run
from gpuprov.core.limits import Limits
from gpuprov.core.silence_limit import silence_limit_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.execution import Completed
    from gpuprov.drivers.lxd.api import LxdApi

_REMNANT = re.compile(r'Failed setting subvolume writable "(/[^"]+)"')
_LINKS = Path("/sys/class/net")
_BUDGET_S = 10.0


def remove_remnant(name: str, reason: str) -> bool:
    """Whether an empty folder was all that was left of a node, and is removed.

    LXD, killed after it removed a node's subvolume, makes a folder in its place when it starts again, takes that for
    the subvolume, and fails to remove it for ever.
    """
    found = _REMNANT.search(reason)
    if found is None or Path(found[1]).name != name:
        return False
    try:
        Path(found[1]).rmdir()
    except OSError:  # not empty, or not where this process can see it
        return False
    return True


def remove_unlisted_snapshots(api: LxdApi, name: str) -> bool:
    """Whether snapshots of a node were on disk that LXD does not list, and are removed.

    LXD fails in the middle of a snapshot if root in the node nests folders deeper than a path may be long. What it
    made until then stays, and from then on it refuses to remove the node.
    """
    document = api.get("instances", name)
    pool = document["expanded_devices"]["root"]["pool"]
    folder = api.storage_pools / pool / "containers-snapshots" / name
    listed = {path.rsplit("/", 1)[-1] for path in api.get("instances", name, "snapshots")}
    left = [path for path in folder.iterdir() if path.name not in listed] if folder.is_dir() else []
    removed = [_remove_tree(path) for path in left]
    return bool(left) and all(removed)


def _remove_tree(path: Path) -> bool:
    with suppress(CommandMissing):
        for command in (["btrfs", "subvolume", "delete"], ["rm", "-rf", "--one-file-system"]):
            if path.exists():
                run([*command, str(path)], timeout_s=Limits(silence_s=silence_limit_s()), check=False)
    return not path.exists()


def remove_links(document: Mapping[str, Any], *, links: Path = _LINKS) -> None:
    """Remove what is on the host of a node's network: its own end of a veth pair, or its macvlan.

    LXD makes them there, moves them into the node, and back; they bear the node's own MAC addresses. To be called
    once the node has started or stopped: whatever is on the host then is lost.
    """
    for link in links_of_node(document, list_links(links)):
        _ip("link", "delete", link)  # which fails where it went meanwhile, as the other end of a pair does


def list_links(links: Path = _LINKS) -> Mapping[str, Sequence[str]]:
    """The host's links by their MAC addresses."""
    found: dict[str, list[str]] = {}
    for link in links.iterdir():
        with suppress(OSError):  # it went meanwhile
            found.setdefault((link / "address").read_text().strip(), []).append(link.name)
    return found


def links_of_node(document: Mapping[str, Any], links: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Those of the host's veths and macvlans that bear a MAC address of a node."""
    config = document["config"]
    nics = {name: device for name, device in document["devices"].items() if device["type"] == "nic"}
    addresses = {device.get("hwaddr", config.get(f"volatile.{name}.hwaddr")) for name, device in nics.items()}
    found = sorted(chain.from_iterable(links.get(address, ()) for address in addresses))
    return tuple(link for link in found if _kind(link) in ("veth", "macvlan"))


def _kind(link: str) -> str | None:
    """None also where there is no such link, or no command that tells."""
    try:
        described = _ip("-j", "-d", "link", "show", "dev", link)
    except CommandMissing:
        return None
    (found,) = json.loads(described.stdout) if described.exit_code == 0 else [{}]
    kind: str | None = found.get("linkinfo", {}).get("info_kind")
    return kind


def _ip(*arguments: str) -> Completed:
    return run(["ip", *arguments], timeout_s=_BUDGET_S, check=False)
