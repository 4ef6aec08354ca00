"""A second and a third cluster of a host, on two engines, of which nobody says where they shall be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import lxd
from tests.e2e.places import PLACES
from tests.e2e.test_networks import dial
from tests.e2e.test_refusals import has_three_parts, link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

PLACE = PLACES["second_cluster"]
NAME = PLACE.cluster
KIND = ("-n", "1", "--role", "plain", "--gpu-mode", "simulated", "--gpus-per-node", "0")
ENGINES = ("lxd", "docker")


def up(engine: str, *more: str) -> tuple[str, ...]:
    return ("cluster", "up", "--name", NAME, "--engine", engine, "--no-verify", *KIND, *more)


def addresses(gpuprov: Gpuprov) -> dict[str, str]:
    """The nodes of both clusters of that name, by engine."""
    rows = gpuprov.json("list")["nodes"]
    return {f"{row['engine']} {row['name']}": row["address"] for row in rows if row["cluster"] == NAME}


def links_of(host: Callable[..., str]) -> set[str]:
    """Names of the links that bear the mark of this place, as bridges and what is on them do."""
    return {link["ifname"] for link in json.loads(host("ip", "-j", "link")) if PLACE.mark in str(link)}


def networks_of(docker: Any) -> dict[str, list[str]]:
    """The names of the two clusters' networks."""
    in_lxd = [
        item["name"] for item in lxd("networks?recursion=1") if item["config"].get("user.gpuprov.cluster") == NAME
    ]
    in_docker = [item["Name"] for item in docker.networks() if (item["Labels"] or {}).get("gpuprov.cluster") == NAME]
    return {"lxd": sorted(in_lxd), "docker": sorted(in_docker)}


@pytest.fixture(scope="module")
def clusters(
    gpuprov: Gpuprov,
    place: Place,  # noqa: ARG001 - it is there to sweep
    docker: Any,
) -> Iterator[dict[str, list[str]]]:
    """One of LXD, and one of the same name of Docker; their networks."""
    try:
        for engine in ENGINES:
            gpuprov(*up(engine))
        yield networks_of(docker)
    finally:
        for engine in ENGINES:
            gpuprov("cluster", "down", NAME, "--yes", "--engine", engine)


def test_each_has_networks_and_names_of_its_own(gpuprov: Gpuprov, clusters: dict[str, list[str]]) -> None:
    assert all(len(names) == 2 for names in clusters.values())
    assert not set(clusters["lxd"]) & set(clusters["docker"])
    found = addresses(gpuprov)
    assert len({name.split()[1] for name in found}) == len(found) == 2
    assert len({address.rpartition(".")[0] for address in found.values()}) == 2
    for engine in ENGINES:
        assert gpuprov(*up(engine)).stdout.startswith("unchanged")
        assert gpuprov.json("cluster", "plan", "--name", NAME, "--engine", engine)["plan"] == []
    assert addresses(gpuprov) == found


def test_they_are_isolated_and_reach_their_gateways(
    gpuprov: Gpuprov, clusters: dict[str, list[str]], host: Callable[..., str]
) -> None:
    found = {key.split()[1]: address for key, address in addresses(gpuprov).items()}
    (one, its_address), (other, other_address) = found.items()
    assert dial(gpuprov, one, (other_address, 22)) == dial(gpuprov, other, (its_address, 22)) == {"EHOSTUNREACH"}
    for name, address in found.items():
        gpuprov.in_node(name, "ping", "-c", "1", "-W", "3", f"{address.rpartition('.')[0]}.1")
    chains = host("nft", "list", "table", "inet", "gpuprov")
    assert all(f"chain to.{name} " in chains for name in clusters["lxd"])


def test_a_node_that_is_added_follows(gpuprov: Gpuprov, clusters: dict[str, list[str]]) -> None:  # noqa: ARG001
    before = addresses(gpuprov)
    more = PLACE.node(7)
    create = ("create-node", more, "--cluster", NAME, "--engine", "docker", "--gpus", "none", "--gpu-mode", "simulated")
    gpuprov(*create)
    try:
        (theirs,) = (address for name, address in before.items() if name.startswith("docker"))
        assert addresses(gpuprov)[f"docker {more}"].rpartition(".")[0] == theirs.rpartition(".")[0]
    finally:
        gpuprov("rm", more)


def test_what_others_have_is_refused_and_what_is_there_stays(
    gpuprov: Gpuprov, clusters: dict[str, list[str]], host: Callable[..., str]
) -> None:
    found = {key.split()[0]: address for key, address in addresses(gpuprov).items()}
    subnet = f"{found['lxd'].rpartition('.')[0]}.0/24"
    before = links_of(host)
    bridge = clusters["lxd"][0]
    other = ("cluster", "up", "--name", f"{NAME}x", *KIND)
    with link(host, f"{PLACE.mark}9", "type", "veth", "peer", "name", f"{PLACE.mark}8"):
        foreign = f"{PLACE.mark}9"
        host("ip", "route", "add", PLACE.subnet(2), "dev", foreign)
        refused = [
            (f"the subnet {subnet} is in use", gpuprov(*other, "--engine", "docker", "--subnet", subnet, expect=2)),
            (f"the subnet {PLACE.subnet(2)} is in use", gpuprov(*other, "--subnet", PLACE.subnet(2), expect=2)),
            (
                f"{bridge} belongs to cluster {NAME}",
                gpuprov(*other, "--engine", "docker", "--bridge", bridge, expect=2),
            ),
            (
                f"{foreign} exists and was not created",
                gpuprov(*other, "--engine", "docker", "--bridge", foreign, expect=4),
            ),
            (f"{foreign} exists and was not created", gpuprov(*other, "--bridge", foreign, expect=4)),
            ("cannot be changed while it exists", gpuprov(*up("docker", "--subnet", PLACE.subnet(3)), expect=2)),
        ]
    for words, answer in refused:
        has_three_parts(answer)
        assert words in answer.stderr, answer.all
    assert links_of(host) == before
