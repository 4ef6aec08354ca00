"""The simulation of many hosts: what it measures is what it says, for a few of them."""

from __future__ import annotations

from benchmarks.many_hosts import (
    GPUS,
    inventory,
    judge,
    measure,
    members_of,
    offers_of,
    overlay,
    render_table,
    spec_of,
    told,
    whole_of,
)
from gpuprov.cluster.placement import place_nodes
from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.spec.addressing import node_name
from gpuprov.spec.validate import find_problems

HOSTS = 3


def test_every_gpu_of_every_host_is_offered_once_and_held_once() -> None:
    spec, empty, full = spec_of(HOSTS), members_of(HOSTS, empty=True), members_of(HOSTS, empty=False)
    assert find_problems(spec, roles=ROLE_NAMES) == []
    offers = offers_of(spec, empty)
    assert [(offer.more, offer.free, offer.lack) for offer in offers] == [(GPUS, GPUS, "")] * HOSTS
    assert told(offers) == offers
    assert [offer.more for offer in offers_of(spec, full)] == [0] * HOSTS
    names = [node_name("c", number) for number in range(HOSTS * GPUS)]
    assert place_nodes(spec, names, offers) == whole_of(full).homes
    uuids = {unit.uuid for member in full for unit in member.place.gpus.units}
    assert len(uuids) == HOSTS * GPUS


def test_the_table_has_a_column_for_each_number_of_hosts() -> None:
    found = {hosts: measure(hosts, 1) for hosts in (2, HOSTS)}
    lines = render_table(found).splitlines()
    assert lines[0] == "|  | 2 hosts | 3 hosts |"
    assert {line.count("|") for line in lines} == {4}
    assert found[HOSTS]["times"]["status"] > 0
    assert inventory(members_of(HOSTS, empty=False), members_of(1, empty=True)[0].place.gpus) == HOSTS * GPUS
    assert judge(HOSTS) == HOSTS * 7
    assert overlay(HOSTS) == overlay(2) + 1
