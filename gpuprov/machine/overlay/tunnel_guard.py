"""What keeps out frames of an encrypted overlay that did not come through its tunnel: pure functions.

The kernel takes a VXLAN's packets at every address of the host, so anybody on the network between the hosts could send
frames to the nodes past the encryption. A rule of nftables drops what has the number of the VXLAN and comes otherwise.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuprov.machine.overlay.links import step

if TYPE_CHECKING:
    from gpuprov.machine.overlay.links import Step

_VNI_AT = 96  # bits from the beginning of the UDP header: that has 64, flags and reserved bits of VXLAN 32


def guard_table(cluster: str) -> str:
    """Name of the table of a cluster's overlay; names of clusters have no _."""
    return f"gpuprov_wg_{cluster.replace('-', '_')}"


def plan_guard(cluster: str, device: str, *, vni: int, port: int, shown: str) -> tuple[Step, ...]:
    """What the guard lacks: one transaction.

    Args:
        cluster: Whose overlay it is.
        device: The end of the tunnel, through which alone frames may come.
        vni: The number of the VXLAN.
        port: Its UDP port.
        shown: What `nft -j list table` says of the table; empty where there is none.
    """
    table, chain = guard_table(cluster), f"from_{device}_{port}"
    if chain in _chains_with_rules(shown):
        return ()
    commands = (
        f"add table inet {table}",
        f"delete table inet {table}",
        f"add table inet {table}",
        f"add chain inet {table} {chain} {{ type filter hook input priority -10 ; }}",
        f"add rule inet {table} {chain} udp dport {port} @th,{_VNI_AT},24 {vni} iifname != {device} drop",
    )
    return (step(f"let frames in by {device} alone", "nft", " ; ".join(commands)),)


def plan_guard_removal(cluster: str, shown: str) -> tuple[Step, ...]:
    """The command that removes it; empty where there is none."""
    if not shown:
        return ()
    return (
        step(
            f"remove the packet filter of the overlay of cluster {cluster}",
            "nft delete table inet",
            guard_table(cluster),
        ),
    )


def _chains_with_rules(shown: str) -> set[str]:
    listed = json.loads(shown or "{}").get("nftables", [])
    return {item["rule"]["chain"] for item in listed if "rule" in item}
