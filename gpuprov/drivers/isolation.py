"""Clusters of one host are isolated from each other: who may open connections to the nodes on a bridge of ours.

The table `inet gpuprov` of the kernel's firewall is gpuprov's, on all engines, and has a chain for each bridge. A
packet that another chain of the same hook accepts, an engine's or the administrator's, still passes through it.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError
from gpuprov.core.execution import CommandMissing, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpuprov.core.execution import Completed
    from gpuprov.drivers.networks import NetworkState

    Rules = list[list[dict[str, Any]]]

TABLE = {"family": "inet", "table": "gpuprov"}
_PREFIX = "to."
# Before Docker's chains, which drop in silence: who is refused is to hear of it at once.
_HOOK = {"type": "filter", "hook": "forward", "prio": -10, "policy": "accept"}
_NO_TABLE = "No such file or directory"
_BUDGET_S = 10.0


def render_rules(bridge: str) -> Rules:
    """The rules of a bridge's chain, as nft reads and shows them in JSON.

    They see what the host forwards, and neither what it sends itself nor what it receives: the host reaches the nodes,
    and what listens on the host, such as an exposed port of LXD, can be reached. Docker's exposed ports are translated.
    """
    return [
        [_match("!=", {"meta": {"key": "oifname"}}, bridge), {"accept": None}],
        [_match("==", {"meta": {"key": "iifname"}}, bridge), {"accept": None}],
        [_match("in", {"ct": {"key": "state"}}, ["established", "related"]), {"accept": None}],
        [_match("in", {"ct": {"key": "status"}}, "dnat"), {"accept": None}],
        [{"reject": {"type": "icmpx", "expr": "admin-prohibited"}}],
    ]


def _match(operator: str, left: Mapping[str, object], right: object) -> dict[str, Any]:
    return {"match": {"op": operator, "left": left, "right": right}}


def parse_chains(listed: str) -> dict[str, Rules]:
    """The rules of each chain of the table, from `nft -j list`; none where the chain is not on its hook."""
    chains: dict[str, Rules] = {}
    hooked = set()
    for entry in json.loads(listed)["nftables"]:
        if "chain" in entry:
            name = entry["chain"]["name"]
            chains.setdefault(name, [])
            if {key: entry["chain"].get(key) for key in _HOOK} == _HOOK:
                hooked.add(name)
        elif "rule" in entry:
            chains.setdefault(entry["rule"]["chain"], []).append(entry["rule"]["expr"])
    return {name: rules if name in hooked else [] for name, rules in chains.items()}


def plan_isolation(bridge: str, chains: Mapping[str, Rules]) -> list[dict[str, Any]]:
    """The commands of nft that give a bridge its rules, all or none; empty where it has them."""
    chain, rules = _PREFIX + bridge, render_rules(bridge)
    if chains.get(chain) == rules:
        return []
    return [
        {"add": {"table": {"family": TABLE["family"], "name": TABLE["table"]}}},
        *(_removal(chain) if chain in chains else ()),
        {"add": {"chain": {**TABLE, "name": chain, **_HOOK}}},
        *({"add": {"rule": {**TABLE, "chain": chain, "expr": expression}}} for expression in rules),
    ]


def plan_release(bridge: str, chains: Mapping[str, Rules]) -> list[dict[str, Any]]:
    """The commands of nft that take a bridge's rules away, and with the last ones the table."""
    chain = _PREFIX + bridge
    if chain not in chains:
        return []
    if len(chains) == 1:
        return [{"delete": {"table": {"family": TABLE["family"], "name": TABLE["table"]}}}]
    return _removal(chain)


def _removal(chain: str) -> list[dict[str, Any]]:
    return [{verb: {"chain": {**TABLE, "name": chain}}} for verb in ("flush", "delete")]


def tell_isolated(bridges: Iterable[NetworkState]) -> list[NetworkState]:
    """The same networks, those of ours with whether they have their rules where that can be told."""
    networks = list(bridges)
    if not any(network.ours for network in networks):
        return networks
    chains, lack = _look()
    if lack:
        return networks
    return [
        replace(network, isolated=not plan_isolation(network.name, chains)) if network.ours else network
        for network in networks
    ]


def isolate(bridge: str) -> str:
    """Give a bridge its rules; returns why that is impossible here, in words, or nothing."""
    chains, lack = _look()
    return lack or _carry_out(plan_isolation(bridge, chains))


@contextmanager
def released(bridge: str) -> Iterator[None]:
    """Take a bridge's rules away before the block removes the bridge: killed in between, the next run finds it."""
    chains, lack = _look()
    if not lack:
        _carry_out(plan_release(bridge, chains))
    try:
        yield
    except EngineError:  # the bridge stays
        isolate(bridge)
        raise


def _look() -> tuple[dict[str, Rules], str]:
    """The chains that there are, and why they cannot be told."""
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
