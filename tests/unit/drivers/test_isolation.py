"""Which rules a bridge gets, and by which steps: on what nft shows, without the kernel."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers import isolation
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_HOST_PORTS
from gpuprov.drivers.isolation_rules import (
    Chain,
    is_guarded,
    is_isolated,
    parse_chains,
    plan_isolation,
    plan_release,
    render_forward_rules,
    render_input_rules,
)
from gpuprov.drivers.networks import NetworkState
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from pathlib import Path

INPUT = render_input_rules
HOOK = {"type": "filter", "prio": -10, "policy": "accept"}
PORTS = "53/udp,8080/tcp"


def listed(*bridges: str, ports: str = "", refused: int = 0, **changed: object) -> str:
    """What `nft -j list table inet gpuprov` prints of these bridges."""
    counted = {"counter": {"packets": refused, "bytes": 60 * refused}}
    found: list[dict[str, Any]] = [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "gpuprov"}}]
    for bridge in bridges:
        place = {"family": "inet", "table": "gpuprov", "handle": 7}
        for prefix, hook, rules in (
            ("to", "forward", render_forward_rules(bridge)),
            ("from", "input", render_input_rules(bridge, ports)),
        ):
            name = f"{prefix}.{bridge}"
            found.append({"chain": {**place, "name": name, "hook": hook, **HOOK, **changed}})
            for rule in rules:
                expr = [counted if "counter" in part else part for part in rule]
                found.append({"rule": {**place, "chain": name, "expr": expr}})
    return json.dumps({"nftables": found})


def test_a_bridge_with_its_rules_needs_nothing() -> None:
    chains = parse_chains(listed("gpbr0", "gpbr1", refused=7))
    assert plan_isolation("gpbr0", chains) == plan_isolation("gpbr1", chains) == []
    assert (chains["from.gpbr0"].refused, chains["to.gpbr0"].refused) == (7, 0)


def test_a_new_bridge_gets_its_chains_in_one_transaction() -> None:
    table, *steps = plan_isolation("gpbr0", {}, PORTS)
    assert table == {"add": {"table": {"family": "inet", "name": "gpuprov"}}}
    chains = [step["add"]["chain"] for step in steps if "chain" in step["add"]]
    assert [(chain["name"], chain["hook"]) for chain in chains] == [("to.gpbr0", "forward"), ("from.gpbr0", "input")]
    assert all(chain.items() >= HOOK.items() for chain in chains)
    rules = [step["add"]["rule"]["expr"] for step in steps if "rule" in step["add"]]
    assert rules == [*render_forward_rules("gpbr0"), *render_input_rules("gpbr0", PORTS)]
    assert plan_isolation("gpbr0", parse_chains(listed("gpbr00")), PORTS) == [table, *steps]


def test_a_bridge_of_an_earlier_version_gets_what_it_lacks() -> None:
    chains = {name: chain for name, chain in parse_chains(listed("gpbr0")).items() if name.startswith("to.")}
    assert (is_isolated("gpbr0", chains), is_guarded("gpbr0", chains, "")) == (True, False)
    names = {step["add"]["chain"]["name"] for step in plan_isolation("gpbr0", chains) if "chain" in step["add"]}
    assert names == {"from.gpbr0"}


def test_other_ports_of_the_host_replace_one_chain() -> None:
    chains = parse_chains(listed("gpbr0", ports=PORTS))
    assert (is_guarded("gpbr0", chains, PORTS), is_guarded("gpbr0", chains, "")) == (True, False)
    verbs = [next(iter(step)) for step in plan_isolation("gpbr0", chains, "80/tcp")]
    assert verbs == ["add", "flush", "delete", *["add"] * (1 + len(render_input_rules("gpbr0", "80/tcp")))]


def test_what_nodes_reach_of_the_host() -> None:
    """Its name server on their own bridge alone, an echo, neighbours, and the ports that are opened."""
    *let_through, last = render_input_rules("gpbr0", PORTS)
    assert all(rule[-1] == {"accept": None} for rule in let_through)
    own = {"match": {"op": "==", "left": {"fib": {"result": "type", "flags": ["daddr", "iif"]}}, "right": "local"}}
    tests = [
        (*rule[0]["match"]["left"].get("payload", {}).values(), rule[0]["match"]["right"], own in rule)
        for rule in let_through
    ]
    assert tests == [
        ("gpbr0", False),
        (["established", "related"], False),
        ("icmp", "type", "echo-request", False),
        ("icmpv6", "type", {"set": ["echo-request", "nd-neighbor-solicit", "nd-neighbor-advert"]}, False),
        ("udp", "dport", 53, True),
        ("tcp", "dport", 53, True),
        ("udp", "dport", 53, False),
        ("tcp", "dport", 8080, False),
    ]
    assert last == [{"counter": None}, {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}]
    assert render_input_rules("gpbr0", "x,70000/tcp,0/udp") == render_input_rules("gpbr0")


def test_who_is_let_through() -> None:
    """Its own nodes, answers, and ports that are exposed; what leads elsewhere is not looked at; the rest is told."""
    *let_through, last = render_forward_rules("gpbr0")
    assert all(rule[-1] == {"accept": None} for rule in let_through)
    tests = [(rule[0]["match"]["op"], rule[0]["match"]["left"], rule[0]["match"]["right"]) for rule in let_through]
    assert tests == [
        ("!=", {"meta": {"key": "oifname"}}, "gpbr0"),
        ("==", {"meta": {"key": "iifname"}}, "gpbr0"),
        ("in", {"ct": {"key": "state"}}, ["established", "related"]),
        ("in", {"ct": {"key": "status"}}, "dnat"),
    ]
    assert last == [{"reject": {"type": "icmpx", "expr": "admin-prohibited"}}]


@pytest.mark.parametrize("changed", [{"hook": "output"}, {"policy": "drop"}, {"prio": 5}])
def test_a_chain_in_another_place_is_made_anew(changed: dict[str, Any]) -> None:
    verbs = [next(iter(step)) for step in plan_isolation("gpbr0", parse_chains(listed("gpbr0", **changed)))]
    made = [["flush", "delete", *["add"] * (1 + len(make("gpbr0")))] for make in (render_forward_rules, INPUT)]
    assert verbs == ["add", *made[0], *made[1]]


def test_a_rule_that_was_changed_added_or_removed_is_seen() -> None:
    whole = parse_chains(listed("gpbr0"))
    for name, make in (("to.gpbr0", render_forward_rules), ("from.gpbr0", INPUT)):
        rules = make("gpbr0")
        for others in ([*rules, [{"accept": None}]], rules[:-1], rules[::-1], make("gpbr1"), []):
            assert plan_isolation("gpbr0", {**whole, name: Chain(rules=others)})


def test_the_table_goes_with_its_last_chain() -> None:
    both, one = parse_chains(listed("gpbr0", "gpbr1")), parse_chains(listed("gpbr0"))
    assert plan_release("gpbr0", one) == [{"delete": {"table": {"family": "inet", "name": "gpuprov"}}}]
    released = [next(iter(step.items()))[1]["chain"]["name"] for step in plan_release("gpbr0", both)]
    assert released == ["to.gpbr0"] * 2 + ["from.gpbr0"] * 2
    half = {name: chain for name, chain in one.items() if name.startswith("from.")}
    assert plan_release("gpbr0", half) == plan_release("gpbr0", one)
    assert plan_release("gpbr2", both) == []


@pytest.mark.parametrize(("uid", "path", "reason"), [(1000, "/bin", "only root"), (0, "/none", "nft is missing")])
def test_who_cannot_is_told_why(monkeypatch: pytest.MonkeyPatch, uid: int, path: str, reason: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("PATH", path)
    assert reason in isolation.isolate("gpbr0", {})
    network = NetworkState(name="gpbr0", managed=True, labels={LABEL_CLUSTER: "lab"})
    assert isolation.tell_isolated([network]) == [network]
    assert network.isolated is network.guarded is network.refused is None


@pytest.mark.parametrize(
    ("answer", "isolated"),
    [
        (f"cat <<'END'\n{listed('gpbr0', ports=PORTS, refused=3)}\nEND", True),
        (f"cat <<'END'\n{listed('gpbr1')}\nEND", False),
        ("echo 'Error: No such file or directory' >&2; exit 1", False),
        ("echo 'Unable to initialize Netlink socket: Protocol not supported' >&2; exit 1", None),
    ],
)
@pytest.mark.parametrize("overlaid", [False, True])
def test_what_nft_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, isolated: bool | None, *, overlaid: bool
) -> None:
    (tmp_path / "nft").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "nft").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    own = {LABEL_CLUSTER: "a", LABEL_HOST_PORTS: PORTS}
    ours, foreign = (NetworkState(name="gpbr0", managed=True, labels=labels) for labels in (own, {}))
    ours = changed(ours, name="gpbr1", overlaid="gpbr0") if overlaid else ours
    told = isolation.tell_isolated([ours, foreign])
    assert [network.isolated for network in told] == [network.guarded for network in told] == [isolated, None]
    assert told[0].refused == (None if isolated is None else 3 if isolated else 0)
    if isolated is None:
        lack = isolation.isolate("gpbr0", {})
        assert lack == "nft failed: Unable to initialize Netlink socket: Protocol not supported"
