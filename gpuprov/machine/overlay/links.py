"""Links of a host, and the commands that change them, as the parts of an overlay see them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class OverlayLink:
    """A link of the host, with what matters of it here.

    Attributes:
        apart: Whether it is a port of a bridge that sends nothing to other such ports.
    """

    name: str
    kind: str = ""
    alias: str = ""
    mtu: int = 0
    master: str = ""
    apart: bool = False
    up: bool = False
    vni: int | None = None
    port: int | None = None
    local: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command, and what it does in words; several may have the same.

    Attributes:
        optional: Whether the overlay works without.
        fix: What to do where it fails; empty for the command itself.
    """

    argv: tuple[str, ...]
    words: str
    optional: bool = False
    fix: str = ""


def alias_of(cluster: str) -> str:
    """By which a link is known as ours."""
    return f"gpuprov:{cluster}"


def parse_overlay_links(text: str) -> dict[str, OverlayLink]:
    """All links, from `ip -j -d link show`."""
    links = {}
    for link in json.loads(text or "[]"):
        info = link.get("linkinfo", {})
        data: Mapping[str, Any] = info.get("info_data", {}) if info.get("info_kind") == "vxlan" else {}
        links[link["ifname"]] = OverlayLink(
            name=link["ifname"],
            kind=info.get("info_kind", ""),
            alias=link.get("ifalias", ""),
            mtu=link.get("mtu", 0),
            master=link.get("master", ""),
            apart=info.get("info_slave_data", {}).get("isolated", False),
            up="UP" in link.get("flags", []),
            vni=data.get("id"),
            port=data.get("port"),
            local=data.get("local", ""),
        )
    return links


def step(words: str, command: str, *more: object, optional: bool = False, fix: str = "") -> Step:
    """A command; no argument of it has a space in it."""
    return Step(argv=tuple(" ".join([command, *map(str, more)]).split()), words=words, optional=optional, fix=fix)
