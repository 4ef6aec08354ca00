"""What a killed LXD leaves of a node that it was starting, stopping or removing, and never removes itself."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.execution import CommandMissing, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.execution import Completed

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


def remove_links(document: Mapping[str, Any], *, links: Path = _LINKS) -> None:
    """Remove what is on the host of a node's network: its own end of a veth pair, or its macvlan.

    LXD makes them there, moves them into the node, and back; they bear the node's own MAC addresses. To be called
    once the node has started or stopped: whatever is on the host then is lost.
    """
    config = document["config"]
    nics = {name: device for name, device in document["devices"].items() if device["type"] == "nic"}
    addresses = {device.get("hwaddr", config.get(f"volatile.{name}.hwaddr")) for name, device in nics.items()}
    for link in links.iterdir():
        with suppress(OSError, CommandMissing):  # it went meanwhile, as the other end of a pair does
            if (link / "address").read_text().strip() in addresses and _kind(link.name) in ("veth", "macvlan"):
                _ip("link", "delete", link.name)


def _kind(link: str) -> str | None:
    described = _ip("-j", "-d", "link", "show", "dev", link)
    (found,) = json.loads(described.stdout) if described.exit_code == 0 else [{}]
    kind: str | None = found.get("linkinfo", {}).get("info_kind")
    return kind


def _ip(*arguments: str) -> Completed:
    return run(["ip", *arguments], timeout_s=_BUDGET_S, check=False)
