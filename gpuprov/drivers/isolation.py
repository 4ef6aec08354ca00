"""Clusters of one host are isolated from each other, and the host from their nodes, by rules for each bridge of ours.

The table `inet gpuprov` of the kernel's firewall is gpuprov's, on all engines (isolation_rules.py). A packet that
another chain of the same hook accepts, an engine's or the administrator's, still passes through it.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError
from gpuprov.core.execution import CommandMissing, run
from gpuprov.drivers.base import LABEL_HOST_PORTS
from gpuprov.drivers.isolation_rules import (
    FROM,
    TABLE,
    Chain,
    is_guarded,
    is_isolated,
    parse_chains,
    plan_isolation,
    plan_release,
)
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpuprov.core.execution import Completed
    from gpuprov.drivers.networks import NetworkState

_NO_TABLE = "No such file or directory"
_BUDGET_S = 10.0


def tell_isolated(bridges: Iterable[NetworkState]) -> list[NetworkState]:
    """The same networks, those of ours with whether they have their rules where that can be told."""
    networks = list(bridges)
    if not any(network.ours for network in networks):
        return networks
    chains, lack = _look()
    if lack:
        return networks
    return [_told(network, chains) if network.ours else network for network in networks]


def _told(network: NetworkState, chains: Mapping[str, Chain]) -> NetworkState:
    return changed(
        network,
        isolated=is_isolated(network.bridge, chains),
        guarded=is_guarded(network.bridge, chains, _ports_of(network.labels)),
        refused=chains.get(FROM + network.bridge, Chain()).refused,
    )


def isolate(bridge: str, labels: Mapping[str, str]) -> str:
    """Give a bridge with these labels its rules; returns why that is impossible here, in words, or nothing."""
    chains, lack = _look()
    return lack or _carry_out(plan_isolation(bridge, chains, _ports_of(labels)))


def _ports_of(labels: Mapping[str, str]) -> str:
    return labels.get(LABEL_HOST_PORTS, "")


@contextmanager
def released(bridge: str, labels: Mapping[str, str]) -> Iterator[None]:
    """Take a bridge's rules away before the block removes the bridge: killed in between, the next run finds it."""
    chains, lack = _look()
    if not lack:
        _carry_out(plan_release(bridge, chains))
    try:
        yield
    except EngineError:  # the bridge stays
        isolate(bridge, labels)
        raise


def _look() -> tuple[dict[str, Chain], str]:
    """The chains that there are, and why they are unknown."""
    if os.geteuid() != 0:
        return {}, "only root can read and set firewall rules"
    try:
        listed = run(["nft", "-j", "list", "table", *TABLE.values()], timeout_s=_BUDGET_S, check=False)
    except CommandMissing:
        return {}, "the command nft is missing"
    if listed.exit_code == 0:
        return parse_chains(listed.stdout), ""
    return {}, "" if _NO_TABLE in listed.stderr else _failure(listed)


def _carry_out(commands: list[dict[str, Any]]) -> str:
    if not commands:
        return ""
    done = run(["nft", "-j", "-f", "-"], timeout_s=_BUDGET_S, stdin=json.dumps({"nftables": commands}), check=False)
    return "" if done.exit_code == 0 else _failure(done)


def _failure(done: Completed) -> str:
    said = (done.stderr or done.stdout).strip().splitlines()
    return f"nft failed: {said[0] if said else done.exit_code}"
