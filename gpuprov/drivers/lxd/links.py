"""What this host has of the engine's networks: links and rules, which others can take away behind its back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.execution import CommandMissing, run
from gpuprov.drivers.lxd.settings import LINK, NAT, bridged_nics

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_LINKS = Path("/sys/class/net")
_BUDGET_S = 10.0


def unplugged(document: Mapping[str, Any], *, links: Path = _LINKS) -> Collection[str]:
    """Nic devices of a running instance whose veth is not a port of its bridge, as after the bridge was recreated."""
    return [name for name, link, bridge in bridged_nics(document) if not (links / bridge / "brif" / link).exists()]


def find_lost(name: str, config: Mapping[str, str], rules: str | None, *, links: Path = _LINKS) -> Collection[str]:
    """What of a bridge, LINK or NAT, the host does not have.

    Args:
        name: Of the bridge.
        config: Of the network, as LXD has it.
        rules: The engine's nftables rules; None where they cannot be read, or it uses another firewall.
        links: Where the kernel shows its links.
    """
    if not (links / name).exists():
        return [LINK]
    if rules is not None and config.get("ipv4.nat") == "true" and not _masquerades(name, rules):
        return [NAT]
    return []


def _masquerades(name: str, rules: str) -> bool:
    listed = (entry.get("rule", {}) for entry in json.loads(rules)["nftables"])
    return any(rule.get("chain") == f"pstrt.{name}" and "masquerade" in str(rule["expr"]) for rule in listed)


def read_rules(firewall: str, table: str) -> str | None:
    """The engine's nftables rules as JSON; None where this user may not read them, or it uses another firewall."""
    if firewall != "nftables" or os.geteuid() != 0:
        return None
    try:
        listed = run(["nft", "-j", "list", "table", "inet", table], timeout_s=_BUDGET_S, check=False)
    except CommandMissing:
        return None
    return listed.stdout if listed.exit_code == 0 else '{"nftables": []}'
