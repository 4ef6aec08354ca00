"""The rules of a bridge of ours in the kernel's firewall, as nft reads and shows them in JSON: pure functions.

The table `inet gpuprov` has two chains for each bridge: `to.BRIDGE` is about what the host forwards to its nodes, and
`from.BRIDGE` about what its nodes send to the host itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpuprov.spec.host_ports import read_host_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    Rules = list[list[dict[str, Any]]]

TABLE: Final = {"family": "inet", "table": "gpuprov"}
TO, FROM = "to.", "from."
# Before Docker's chains, which drop in silence: who is refused is to hear of it at once.
_HOOKS: Final = {
    prefix: {"type": "filter", "hook": hook, "prio": -10, "policy": "accept"}
    for prefix, hook in ((TO, "forward"), (FROM, "input"))
}
_ACCEPT: Final = {"accept": None}
_REJECT: Final = {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}
_COUNT: Final[dict[str, Any]] = {"counter": None}
_NAMES: Final = 53  # port of a name server
_ECHO: Final = "echo-request"
_NEIGHBOURS: Final = ["nd-neighbor-solicit", "nd-neighbor-advert"]


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A chain of the table.

    Attributes:
        rules: None of it where the chain is not on its hook; counters are without their values.
        refused: Packets that its counters have counted.
    """

    rules: Rules = field(default_factory=list)
    refused: int = 0


def render_forward_rules(bridge: str) -> Rules:
    """Who may open connections to the nodes on a bridge.

    They see what the host forwards, and neither what it sends itself nor what it receives: the host reaches the nodes.
    Docker's exposed ports are translated; LXD's are received by the host.
    """
    return [
        [_match("!=", {"meta": {"key": "oifname"}}, bridge), _ACCEPT],
        [_match("==", {"meta": {"key": "iifname"}}, bridge), _ACCEPT],
        [_match("in", {"ct": {"key": "state"}}, ["established", "related"]), _ACCEPT],
        [_match("in", {"ct": {"key": "status"}}, "dnat"), _ACCEPT],
        [_REJECT],
    ]


def render_input_rules(bridge: str, ports: str = "") -> Rules:
    """What the nodes on a bridge may open to the host: its name server on this bridge, an echo, and these ports.

    There is no DHCP. Of ICMP, errors belong to connections; of a name server, only that with this bridge's address.
    """
    own_address = _match("==", {"fib": {"result": "type", "flags": ["daddr", "iif"]}}, "local")
    return [
        [_match("!=", {"meta": {"key": "iifname"}}, bridge), _ACCEPT],
        [_match("in", {"ct": {"key": "state"}}, ["established", "related"]), _ACCEPT],
        [_match("==", _payload("icmp", "type"), _ECHO), _ACCEPT],
        [_match("==", _payload("icmpv6", "type"), {"set": [_ECHO, *_NEIGHBOURS]}), _ACCEPT],
        *([_match("==", _payload(kind, "dport"), _NAMES), own_address, _ACCEPT] for kind in ("udp", "tcp")),
        *([_match("==", _payload(port.protocol, "dport"), port.number), _ACCEPT] for port in read_host_ports(ports)),
        [_COUNT, _REJECT],
    ]


def _payload(protocol: str, name: str) -> dict[str, Any]:
    return {"payload": {"protocol": protocol, "field": name}}


def _match(operator: str, left: Mapping[str, object], right: object) -> dict[str, Any]:
    return {"match": {"op": operator, "left": left, "right": right}}


def parse_chains(listed: str) -> dict[str, Chain]:
    """The chains of the table, by name, from `nft -j list`."""
    rules: dict[str, Rules] = {}
    refused: dict[str, int] = {}
    hooked = set()
    for entry in json.loads(listed)["nftables"]:
        if "chain" in entry:
            name = entry["chain"]["name"]
            rules.setdefault(name, [])
            hook = _HOOKS.get(f"{name.partition('.')[0]}.", {})
            if hook and {key: entry["chain"].get(key) for key in hook} == hook:
                hooked.add(name)
        elif "rule" in entry:
            name, told = entry["rule"]["chain"], entry["rule"]["expr"]
            rules.setdefault(name, []).append([_COUNT if "counter" in part else part for part in told])
            counted = [part["counter"] for part in told if "counter" in part]
            refused[name] = refused.get(name, 0) + sum(one["packets"] for one in counted if one)
    return {
        name: Chain(rules=found if name in hooked else [], refused=refused.get(name, 0))
        for name, found in rules.items()
    }


def is_isolated(bridge: str, chains: Mapping[str, Chain]) -> bool:
    """Whether only its own nodes and the host can open connections to the nodes on a bridge."""
    return _has(TO + bridge, render_forward_rules(bridge), chains)


def is_guarded(bridge: str, chains: Mapping[str, Chain], ports: str) -> bool:
    """Whether its nodes reach no more of the host than they may."""
    return _has(FROM + bridge, render_input_rules(bridge, ports), chains)


def _has(name: str, rules: Rules, chains: Mapping[str, Chain]) -> bool:
    return name in chains and chains[name].rules == rules


def plan_isolation(bridge: str, chains: Mapping[str, Chain], ports: str = "") -> list[dict[str, Any]]:
    """The commands of nft that give a bridge its rules, all or none; empty where it has them."""
    steps: list[dict[str, Any]] = []
    for prefix, rules in ((TO, render_forward_rules(bridge)), (FROM, render_input_rules(bridge, ports))):
        name = prefix + bridge
        if not _has(name, rules, chains):
            steps += [
                *(_removal(name) if name in chains else ()),
                {"add": {"chain": {**TABLE, "name": name, **_HOOKS[prefix]}}},
                *({"add": {"rule": {**TABLE, "chain": name, "expr": expression}}} for expression in rules),
            ]
    return [{"add": _whole_table()}, *steps] if steps else []


def plan_release(bridge: str, chains: Mapping[str, Chain]) -> list[dict[str, Any]]:
    """The commands of nft that take a bridge's rules away, and with the last ones the table."""
    own = [name for name in (TO + bridge, FROM + bridge) if name in chains]
    if own and len(chains) == len(own):
        return [{"delete": _whole_table()}]
    return [step for name in own for step in _removal(name)]


def _removal(chain: str) -> list[dict[str, Any]]:
    return [{verb: {"chain": {**TABLE, "name": chain}}} for verb in ("flush", "delete")]


def _whole_table() -> dict[str, Any]:
    return {"table": {"family": TABLE["family"], "name": TABLE["table"]}}
