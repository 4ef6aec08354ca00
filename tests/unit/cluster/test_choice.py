from __future__ import annotations

from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster import choice
from gpuprov.cluster.choice import choose, describe_choice, refuse_taken_networks
from gpuprov.cluster.network_plan import network_requests
from gpuprov.cluster.taken import Holder, Taken
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.machine.links import Link
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NetworkSpec, NodesSpec, OverlaySpec
from gpuprov.spec.draft import CHOOSABLE, NETWORK_VALUES, Draft

if TYPE_CHECKING:
    from collections.abc import Iterable

TWO = ClusterSpec(name="two", nodes=NodesSpec(count=2))
FOREIGN = Holder(evidence="somebody's")
LAB_LINKS = ("10.0.3.1/24", "10.0.5.0/24")
NETWORKS = {
    1: NetworkSpec(),
    2: NetworkSpec(bridge="gpbr2", subnet="10.0.7.0/24", private_bridge="gpbr3", private_subnet="10.0.9.0/24"),
    3: NetworkSpec(bridge="gpbr4", subnet="10.0.11.0/24", private_bridge="gpbr5", private_subnet="10.0.13.0/24"),
}


def link(text: str, interface: str = "eth0") -> Link:
    """An address where it has a host part, else a route."""
    address = IPv4Interface(text)
    has_address = address.ip != address.network.network_address
    return Link(interface=interface, network=address.network, address=address if has_address else None)


def taken(
    names: Iterable[str] = (), subnets: Iterable[str] = (), nodes: Iterable[str] = (), prefixes: Iterable[str] = ()
) -> Taken:
    return Taken(
        names=dict.fromkeys(names, FOREIGN),
        links=tuple(map(link, subnets)),
        nodes=frozenset(nodes),
        prefixes=frozenset(prefixes),
    )


def chosen(found: Taken, *, said: Iterable[str] = (), spec: ClusterSpec = TWO) -> ClusterSpec:
    return choose(Draft(spec=spec, left=CHOOSABLE - frozenset(said)), found)


@pytest.mark.parametrize(
    ("found", "network"),
    [
        (taken(), NETWORKS[1]),
        (taken(["lo", "eth0", "gpbr0x"], ["127.0.0.1/8", "192.168.1.5/24"]), NETWORKS[1]),
        (taken(["gpbr0", "gpbr1"], LAB_LINKS), NETWORKS[2]),
        (taken(["gpbr0", "gpbr1", "gpbr3"], [*LAB_LINKS, "10.0.9.77/32"]), NETWORKS[3]),
        (taken(["gpbr1"]), changed(NETWORKS[1], bridge="gpbr2", private_bridge="gpbr3")),
        (taken(["lxcbr0"], ["10.0.3.1/24"]), changed(NETWORKS[2], bridge="gpbr0", private_bridge="gpbr1")),
        (taken(["tun0"], ["10.0.5.128/25"]), changed(NETWORKS[2], bridge="gpbr0", private_bridge="gpbr1")),
    ],
    ids=lambda value: "" if isinstance(value, Taken) else str(value),  # sets have no order
)
def test_pairs_are_free(found: Taken, network: NetworkSpec) -> None:
    spec = chosen(found)
    assert spec.network == network
    assert spec == changed(TWO, network=network)


def test_what_is_said_of_the_overlay_stays() -> None:
    spec = changed(TWO, network=changed(TWO.network, overlay=OverlaySpec(vni=77)))
    assert choose(Draft(spec=spec, left=CHOOSABLE), taken(["gpbr0", "gpbr1"], LAB_LINKS)).network == changed(
        NETWORKS[2], overlay=OverlaySpec(vni=77)
    )


@pytest.mark.parametrize(
    ("routes", "subnet"),
    [
        (["10.0.0.0/16"], "10.1.3.0/24"),
        (["10.0.0.0/9", "10.128.0.0/9"], "172.16.3.0/24"),
        (["10.0.0.0/8", "172.16.0.0/12"], "192.168.3.0/24"),
        (["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"], "10.0.3.0/24"),  # a VPN takes all: what it takes is lost
        (["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "10.0.3.0/24"], "10.0.7.0/24"),
        (["10.0.0.0/16", *(f"10.1.{third}.0/24" for third in range(3, 250, 4))], "10.1.251.0/24"),
    ],
    ids=lambda value: "" if isinstance(value, Taken) else str(value),  # sets have no order
)
def test_a_subnet_that_a_wider_route_covers_is_the_last_choice(routes: list[str], subnet: str) -> None:
    assert chosen(taken(subnets=routes)).network.subnet == subnet


def test_what_is_said_stays_and_the_rest_keeps_clear_of_it() -> None:
    spec = changed(TWO, network=changed(TWO.network, bridge="gpbr1", subnet="10.0.5.0/24"))
    found = chosen(taken(["gpbr0", "gpbr1"], LAB_LINKS), said=["network.bridge", "network.subnet"], spec=spec).network
    assert (found.bridge, found.subnet) == ("gpbr1", "10.0.5.0/24")  # and refused, if somebody else has it
    assert (found.private_bridge, found.private_subnet) == ("gpbr3", "10.0.9.0/24")
    whole = Draft(spec=spec)
    assert choose(whole, taken(["gpbr1"], ["10.0.5.0/24"])) == spec


@pytest.mark.parametrize(
    ("name", "found", "prefix"),
    [
        ("two", taken(), "c"),
        ("two", taken(nodes=["c002", "web"]), "c"),  # beyond the count
        ("two", taken(nodes=["c001"]), "two-"),
        ("two", taken(prefixes=["c"]), "two-"),
        ("two", taken(prefixes=["c", "two-"]), "two2-"),
        ("two", taken(nodes=["c000", "two-000", "two2-001"]), "two3-"),
        ("t" * 32, taken(prefixes=["c"]), "t" * 32 + "-"),
    ],
    ids=lambda value: "" if isinstance(value, Taken) else str(value),  # sets have no order
)
def test_the_names_of_nodes_are_unique(name: str, found: Taken, prefix: str) -> None:
    spec = chosen(found, spec=changed(TWO, name=name))
    assert spec.nodes.prefix == prefix
    assert choose(Draft(spec=TWO, left=NETWORK_VALUES), found).nodes.prefix == "c"


def test_where_nothing_is_free_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no bridge name is free for the networks of cluster two") as caught:
        chosen(taken([f"gpbr{number}" for number in range(1000)]))
    assert "1000 interfaces" in caught.value.evidence
    monkeypatch.setattr(choice, "_BLOCKS", ("10.0", "10.1"))
    everywhere = [f"10.{second}.{third}.1/32" for second in range(2) for third in range(3, 252, 4)]
    with pytest.raises(UsageError, match="no subnet is free"):
        chosen(taken(subnets=everywhere))
    assert chosen(taken(subnets=everywhere[:-1])).network.private_subnet == "10.1.253.0/24"


def test_a_choice_is_told_where_it_is_not_the_usual_one() -> None:
    draft = Draft(spec=TWO, left=CHOOSABLE)
    assert describe_choice(draft, TWO) == ""
    told = describe_choice(draft, changed(TWO, network=NETWORKS[2], nodes=changed(TWO.nodes, prefix="two-")))
    assert told.startswith("cluster two has gpbr2 instead of gpbr0, 10.0.7.0/24 instead of 10.0.3.0/24, ")
    assert "two-000 instead of c000" in told


@pytest.mark.parametrize(
    ("found", "words", "kind"),
    [
        (Taken(names={"gpbr0": FOREIGN}), "the network gpbr0 exists and was not created by gpuprov", NotOurs),
        (Taken(names={"gpbr1": Holder(cluster="lab", evidence="e")}), "gpbr1 belongs to cluster lab", UsageError),
        (Taken(links=(link("10.0.3.1/24"),)), r"the subnet 10\.0\.3\.0/24 is in use", UsageError),
        (Taken(links=(link("10.0.5.0/25"),)), r"the subnet 10\.0\.5\.0/24 is in use", UsageError),
    ],
    ids=lambda value: "" if isinstance(value, Taken) else str(value),  # sets have no order
)
def test_what_somebody_else_has_is_refused(found: Taken, words: str, kind: type[Exception]) -> None:
    requests = network_requests(TWO, version="1")
    with pytest.raises(kind, match=words):
        refuse_taken_networks(TWO, requests, found)
    refuse_taken_networks(TWO, (), found)  # nothing is to be made


def test_a_subnet_within_a_wider_route_can_be_had_by_who_asks_for_it() -> None:
    refuse_taken_networks(TWO, network_requests(TWO, version="1"), taken(subnets=["10.0.0.0/8", "10.9.9.9/8"]))


def test_a_large_subnet_within_which_the_host_has_an_address_is_refused() -> None:
    large = changed(TWO, network=changed(TWO.network, subnet="10.9.0.0/16"))
    with pytest.raises(UsageError, match=r"10\.9\.0\.0/16 is in use") as caught:
        refuse_taken_networks(large, network_requests(large, version="1"), Taken(links=(link("10.9.1.2/8", "eth7"),)))
    assert caught.value.evidence == "10.9.1.2/8 on eth7"
