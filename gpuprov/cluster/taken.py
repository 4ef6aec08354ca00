"""What a host and its engines have already, so that a new cluster keeps clear of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpuprov.machine.links import Link


@dataclass(frozen=True, kw_only=True)
class Holder:
    """What has a name that a network is to have.

    Attributes:
        cluster: The cluster that it belongs to; empty where gpuprov did not make it.
        evidence: What shows it.
    """

    cluster: str = ""
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What the host and its engines have already, without what belongs to the cluster that asks.

    Attributes:
        names: Of interfaces and networks.
        links: IPv4 networks in use: addresses, routes, and the subnets that only an engine or a recorded spec tells.
        nodes: Names of instances.
        prefixes: Of other clusters' node names.
    """

    names: Mapping[str, Holder] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    nodes: Collection[str] = ()
    prefixes: Collection[str] = ()
