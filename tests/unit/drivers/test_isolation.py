"""Which rules a bridge gets, and by which steps: on what nft shows, without the kernel."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers import isolation
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.drivers.isolation import parse_chains, plan_isolation, plan_release, render_rules
from gpuprov.drivers.networks import NetworkState

if TYPE_CHECKING:
    from pathlib import Path

HOOK = {"type": "filter", "hook": "forward", "prio": -10, "policy": "accept"}


def listed(*bridges: str, **changed: object) -> str:
    """What `nft -j list table inet gpuprov` prints of these bridges."""
    found: list[dict[str, Any]] = [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "gpuprov"}}]
    for bridge in bridges:
        place = {"family": "inet", "table": "gpuprov", "handle": 7}
        found.append({"chain": {**place, "name": f"to.{bridge}", **HOOK, **changed}})
        found += [{"rule": {**place, "chain": f"to.{bridge}", "expr": expr}} for expr in render_rules(bridge)]
    return json.dumps({"nftables": found})


def test_a_bridge_with_its_rules_needs_nothing() -> None:
    chains = parse_chains(listed("gpbr0", "gpbr1"))
    assert plan_isolation("gpbr0", chains) == plan_isolation("gpbr1", chains) == []


def test_a_new_bridge_gets_a_chain_in_one_transaction() -> None:
    table, chain, *rules = plan_isolation("gpbr0", {})
    assert table == {"add": {"table": {"family": "inet", "name": "gpuprov"}}}
    assert chain["add"]["chain"].items() >= {"name": "to.gpbr0", **HOOK}.items()
    assert [rule["add"]["rule"]["expr"] for rule in rules] == render_rules("gpbr0")
    assert plan_isolation("gpbr0", parse_chains(listed("gpbr00"))) == [table, chain, *rules]


def test_who_is_let_through() -> None:
    """Its own nodes, answers, and ports that are exposed; what leads elsewhere is not looked at; the rest is told."""
    *let_through, last = render_rules("gpbr0")
    assert all(rule[-1] == {"accept": None} for rule in let_through)
    tests = [(rule[0]["match"]["op"], rule[0]["match"]["left"], rule[0]["match"]["right"]) for rule in let_through]
    assert tests == [
        ("!=", {"meta": {"key": "oifname"}}, "gpbr0"),
        ("==", {"meta": {"key": "iifname"}}, "gpbr0"),
        ("in", {"ct": {"key": "state"}}, ["established", "related"]),
        ("in", {"ct": {"key": "status"}}, "dnat"),
    ]
    assert last == [{"reject": {"type": "icmpx", "expr": "admin-prohibited"}}]


@pytest.mark.parametrize("changed", [{"hook": "input"}, {"policy": "drop"}, {"prio": 5}])
def test_a_chain_in_another_place_is_made_anew(changed: dict[str, object]) -> None:
    verbs = [next(iter(step)) for step in plan_isolation("gpbr0", parse_chains(listed("gpbr0", **changed)))]
    assert verbs == ["add", "flush", "delete", *["add"] * 6]


def test_a_rule_that_was_changed_added_or_removed_is_seen() -> None:
    rules = render_rules("gpbr0")
    for others in ([*rules, [{"accept": None}]], rules[:-1], rules[::-1], render_rules("gpbr1"), []):
        assert plan_isolation("gpbr0", {"to.gpbr0": others})


def test_the_table_goes_with_its_last_chain() -> None:
    both, one = parse_chains(listed("gpbr0", "gpbr1")), parse_chains(listed("gpbr0"))
    assert plan_release("gpbr0", one) == [{"delete": {"table": {"family": "inet", "name": "gpuprov"}}}]
    assert [next(iter(step.items()))[1]["chain"]["name"] for step in plan_release("gpbr0", both)] == ["to.gpbr0"] * 2
    assert plan_release("gpbr2", both) == []


@pytest.mark.parametrize(("uid", "path", "reason"), [(1000, "/bin", "only root"), (0, "/none", "nft is missing")])
def test_who_cannot_is_told_why(monkeypatch: pytest.MonkeyPatch, uid: int, path: str, reason: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("PATH", path)
    assert reason in isolation.isolate("gpbr0")
    network = NetworkState(name="gpbr0", managed=True, labels={LABEL_CLUSTER: "lab"})
    assert isolation.tell_isolated([network]) == [network]
    assert network.isolated is None


@pytest.mark.parametrize(
    ("answer", "isolated"),
    [
        (f"cat <<'END'\n{listed('gpbr0')}\nEND", True),
        (f"cat <<'END'\n{listed('gpbr1')}\nEND", False),
        ("echo 'Error: No such file or directory' >&2; exit 1", False),
        ("echo 'Unable to initialize Netlink socket: Protocol not supported' >&2; exit 1", None),
    ],
)
def test_what_nft_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, isolated: bool | None) -> None:
    (tmp_path / "nft").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "nft").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    ours, foreign = (NetworkState(name="gpbr0", managed=True, labels=labels) for labels in ({LABEL_CLUSTER: "a"}, {}))
    assert [network.isolated for network in isolation.tell_isolated([ours, foreign])] == [isolated, None]
    if isolated is None:
        assert isolation.isolate("gpbr0") == "nft failed: Unable to initialize Netlink socket: Protocol not supported"
