"""Whom the nodes of a host try to reach on the others."""

from __future__ import annotations

from gpuprov.cluster.between_hosts import MOST_BESIDE, nodes_beside
from gpuprov.shapes.whole import Member, WholeCluster


def whole_of(**hosts: int) -> WholeCluster:
    members = [
        Member(name=f"{host}{number:03d}", address="", private_address="10.0.5.9", role="slurm", host=host)
        for host, count in hosts.items()
        for number in range(count)
    ]
    return WholeCluster(members=tuple(members))


def test_every_other_host_is_tried_before_any_is_tried_more_often() -> None:
    whole = whole_of(a=30, b=30, c=2)
    found = nodes_beside(whole, "a", set(whole.homes))
    assert len(found) == MOST_BESIDE
    assert {name for name in found if name[0] == "c"} == {"c000", "c001"}
    assert not any(name.startswith("a") for name in found)


def test_of_more_hosts_than_are_tried_each_host_tries_those_behind_it() -> None:
    whole = whole_of(**{f"h{number:02d}x": 1 for number in range(40)})
    tried = {name for host in whole.homes.values() for name in nodes_beside(whole, host, set(whole.homes))}
    assert tried == set(whole.homes)


def test_nodes_that_do_not_run_are_not_tried() -> None:
    assert nodes_beside(whole_of(a=2, b=3), "a", {"b001"}) == ["b001"]
    assert nodes_beside(whole_of(a=2), "a", {"a000", "a001"}) == []
