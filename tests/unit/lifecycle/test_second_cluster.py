"""A second cluster on a host, on the same engine or on another: its networks and names are its own, and stay."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.surroundings import ClusterSlip
from gpuprov.core.errors import EngineError, GpuprovError, NotOurs, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import LABEL_BEGUN, LABEL_ROLE, LABEL_SPEC
from gpuprov.lifecycle.cluster_order import ClusterOrder, resolve_spec
from gpuprov.lifecycle.cluster_up import UpOrder, cluster_up, preview_up
from gpuprov.lifecycle.create_node import create_node
from gpuprov.lifecycle.standalone_image import build_image
from gpuprov.machine.links import Link
from gpuprov.machine.survey import EngineDoor
from gpuprov.roles.base import spec_of
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NetworkSpec
from gpuprov.spec.spec_error import SpecError
from tests.fakes.orders import node_order
from tests.fakes.world import World, make_world

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.lifecycle.cluster_up import UpResult
    from tests.conftest import Recording

SECOND = NetworkSpec(bridge="gpbr2", subnet="10.0.7.0/24", private_bridge="gpbr3", private_subnet="10.0.9.0/24")


class Machine:
    """A host with three engines, each a world of its own; what one makes the kernel shows to all."""

    def __init__(self, worlds: dict[str, World]) -> None:
        self.worlds = worlds
        self.host = worlds["lxd"].host
        doors = [
            EngineDoor(name=name, open=lambda name=name: self.driver(name), installed=lambda: True)  # type: ignore[misc]
            for name in self.worlds
        ]
        self.host.engines = tuple(doors)
        self.reporter = worlds["lxd"].reporter

    def driver(self, engine: str) -> Driver:
        driver = self.worlds[engine].driver
        driver.name = engine
        return driver

    def order(self, engine: str, **order: Any) -> UpOrder:
        self.look()
        draft, _ = resolve_spec(self.driver(engine), ClusterOrder(**{"count": 2, **order}))
        return UpOrder(spec=draft.spec, left=draft.left)

    def look(self) -> None:
        """Have the host show the bridges of all engines."""
        networks = [network for world in self.worlds.values() for network in world.engine.networks.values()]
        mine = [network for network in networks if network.ours]
        self.host.network[:] = [
            Link(
                interface=network.name,
                network=IPv4Interface(network.address).network,
                address=IPv4Interface(network.address),
            )
            for network in mine
            if network.address
        ]
        self.host.more_interfaces[:] = [network.name for network in mine if not network.address]

    def up(self, engine: str = "lxd", **order: Any) -> UpResult:
        return cluster_up(self.driver(engine), self.order(engine, **order), self.host, reporter=self.reporter)

    def plan(self, engine: str = "lxd", **order: Any) -> tuple[str, ...]:
        return preview_up(self.driver(engine), self.order(engine, **order), self.host, reporter=Silent()).changes

    def create(self, name: str, engine: str = "lxd", **order: Any) -> None:
        self.look()
        wanted = node_order(**{"name": name, "cluster": "two", "role": "plain", **order})
        create_node(self.driver(engine), wanted, self.host, reporter=self.reporter)

    def addresses(self, engine: str = "lxd") -> dict[str, str]:
        nodes = self.worlds[engine].engine.nodes
        return {name: nodes[name].state().addresses["eth0"] for name in sorted(nodes)}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> Machine:
    worlds = {}
    for name in ("docker", "incus", "lxd"):
        (tmp_path / name).mkdir()
        worlds[name] = make_world(tmp_path / name, monkeypatch, recording)
    return Machine(worlds)


LAB = {"c000": "10.0.3.2/24", "c001": "10.0.3.3/24"}
TWO = {"two-000": "10.0.7.2/24", "two-001": "10.0.7.3/24"}


@pytest.mark.parametrize("engine", ["lxd", "incus", "docker"])
def test_a_second_cluster_has_what_is_free_and_keeps_it(machine: Machine, engine: str) -> None:
    machine.up()
    planned = machine.plan(engine, name="two")
    assert [line for line in planned if "network" in line] == [
        "create network gpbr2 10.0.7.1/24",
        "create network gpbr3 (nodes only)",
    ]
    assert any(line.startswith("create node two-000 10.0.7.2 role") for line in planned)
    assert machine.up(engine, name="two").changed[: len(planned)] == planned
    assert machine.addresses() | machine.addresses(engine) == LAB | TWO
    assert "cluster two has gpbr2 instead of gpbr0" in str(machine.reporter.lines)
    machine.reporter.lines.clear()
    assert machine.up(engine, name="two").unchanged
    assert machine.up().unchanged
    assert "instead" not in str(machine.reporter.lines)
    assert all(network.isolated for network in machine.worlds[engine].engine.networks.values())


def test_a_third_has_the_next_and_what_is_gone_is_free_again(machine: Machine) -> None:
    machine.up()
    machine.up("docker", name="two")
    machine.up(name="three")
    assert machine.addresses()["three-000"] == "10.0.11.2/24"
    machine.worlds["docker"].empty()
    machine.up(name="four")
    assert machine.addresses()["four-000"] == "10.0.7.2/24"


def test_the_same_name_on_another_engine(machine: Machine) -> None:
    machine.up()
    machine.up("docker")
    assert machine.addresses("docker") == {"lab-000": "10.0.7.2/24", "lab-001": "10.0.7.3/24"}


def test_a_file_that_says_nothing_of_networks_leaves_them_open_once(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("version: gpuprov/v1\nname: two\nnodes: {count: 2}\n")
    machine.up()
    machine.up(file=file)
    assert machine.up(file=file).unchanged
    machine.worlds["lxd"].empty()
    machine.up(name="two")  # gpbr0 is free now
    assert machine.up(file=file).unchanged
    assert machine.addresses() == LAB


def test_a_killed_first_up_has_chosen_for_the_next(machine: Machine) -> None:
    machine.up()
    world = machine.worlds["lxd"]
    world.engine.faults.raise_at(KeyboardInterrupt(), "create_node", subject="two-000")
    with pytest.raises(KeyboardInterrupt):
        cluster_up(
            machine.driver("lxd"),
            UpOrder(**{**vars(machine.order("lxd", name="two")), "keep_on_failure": True}),
            machine.host,
            reporter=machine.reporter,
        )
    labels = world.engine.networks["gpbr2"].labels
    assert LABEL_BEGUN in labels
    assert LABEL_SPEC not in labels
    for name in [name for name in world.engine.nodes if name.startswith("c")]:
        del world.engine.nodes[name]
    for name in ("gpbr0", "gpbr1"):
        del world.engine.networks[name]
    machine.up(name="two")
    assert machine.addresses() == TWO


def test_create_node_follows_its_cluster_and_begins_one(machine: Machine) -> None:
    machine.up()
    machine.up("docker", name="two")
    machine.create("web", "docker")
    assert machine.addresses("docker")["web"] == "10.0.7.253/24"
    machine.create("login", cluster="three")
    assert machine.addresses()["login"] == "10.0.11.253/24"
    said = str(machine.reporter.lines)
    assert "cluster three has gpbr4 instead of gpbr0" in said
    assert "cluster three on lxd is new; there are also lab (lxd), two (docker); to remove it" in said
    machine.reporter.lines.clear()
    before = machine.worlds["lxd"].engine.dump()
    with pytest.raises(ClusterSlip, match=r"there is no cluster lba; did you mean lab\?") as slip:
        machine.create("weblab", cluster="lba")
    assert slip.value.evidence == "clusters: lab (lxd), three (lxd), two (docker)"
    assert slip.value.fix == (
        "gpuprov create-node weblab --cluster lab; "
        "or create a cluster of that name first: gpuprov cluster up -n 1 --name lba"
    )
    assert machine.worlds["lxd"].engine.dump() == before
    machine.create("another", cluster="lab2")  # a number more is no slip
    machine.worlds["lxd"].reporter.lines.clear()
    machine.create("weblab", cluster="lba", new_cluster=True)
    assert "cluster lba on lxd is new; there are also lab (lxd), lab2 (lxd), three" in str(machine.reporter.lines)
    machine.create("other", cluster="three")
    assert "cluster three on lxd is new" not in str(machine.reporter.lines)
    machine.up(name="three")
    assert machine.addresses()["three-000"] == "10.0.11.2/24"
    assert machine.addresses()["login"] == "10.0.11.253/24"


def test_a_second_cluster_of_slurm_begins_with_its_controller(machine: Machine) -> None:
    machine.up()
    machine.create("two-000", role=None)
    labels = machine.worlds["lxd"].engine.networks["gpbr2"].labels
    assert LABEL_SPEC not in labels
    assert machine.worlds["lxd"].engine.nodes["two-000"].labels[LABEL_ROLE] == "slurm"
    assert machine.addresses()["two-000"] == "10.0.7.2/24"
    machine.create("two-001", role=None)
    assert machine.worlds["lxd"].engine.nodes["two-001"].labels[LABEL_ROLE] == "slurm"
    state = observe_cluster(machine.driver("lxd"), "two")
    assert spec_of(state).nodes.prefix == "two-"
    machine.up(name="two", count=3)
    assert {name for name in machine.addresses() if name.startswith("two")} == {"two-000", "two-001", "two-002"}


def test_what_a_network_was_made_for_tells_nothing_else(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("version: gpuprov/v1\nname: two\nnodes: {count: 1, environment: [TOKEN=hidden]}\n")
    machine.up(file=file)
    labels = machine.worlds["lxd"].engine.networks["gpbr0"].labels
    assert "hidden" not in labels[LABEL_BEGUN]


@pytest.mark.parametrize(("has", "wants"), [("lxd", "incus"), ("incus", "lxd"), ("incus", "docker")])
def test_two_engines_that_want_the_same_bridge(machine: Machine, has: str, wants: str) -> None:
    """A network of gpuprov's on another engine, and one of somebody's there: neither is touched."""
    machine.up(engine=has)
    before = machine.worlds[has].engine.dump()
    with pytest.raises(UsageError, match="the network gpbr0 belongs to cluster lab") as caught:
        machine.up(engine=wants, name="two", bridge="gpbr0")
    assert caught.value.evidence
    assert "bridge" in caught.value.fix
    machine.worlds[has].engine.add_foreign_network("gpbr2", address="10.66.0.1/24")
    with pytest.raises(NotOurs, match="the network gpbr2 exists and was not created by gpuprov"):
        machine.up(engine=wants, name="two", bridge="gpbr2")
    wanting = machine.worlds[wants].engine
    assert (wanting.nodes, wanting.networks) == ({}, {})
    del machine.worlds[has].engine.networks["gpbr2"]
    machine.up(engine=wants, name="two")
    assert machine.worlds[has].engine.dump() == before


def test_an_image_is_built_beside_another_engine_s_cluster(machine: Machine) -> None:
    machine.up()
    world = machine.worlds["docker"]
    world.engine.images.clear()
    machine.look()
    world.engine.faults.raise_at(EngineError("seen", evidence="e", fix="f"), "create_network", subject="gpbr998")
    with pytest.raises(EngineError, match="seen"):
        build_image(machine.driver("docker"), world.spec(1), machine.host, world.gpus, reporter=machine.reporter)


@pytest.mark.parametrize(
    ("order", "network"),
    [
        ({"subnet": "10.9.3.0/24"}, {"bridge": "gpbr2", "subnet": "10.9.3.0/24", "private_subnet": "10.0.9.0/24"}),
        ({"bridge": "lab0"}, {"bridge": "lab0", "private_bridge": "gpbr3", "subnet": "10.0.7.0/24"}),
        ({"bridge": "lab0", "subnet": "172.20.0.0/28"}, {"bridge": "lab0", "subnet": "172.20.0.0/28"}),
    ],
    ids=str,
)
def test_what_is_said_is_taken(machine: Machine, order: dict[str, str], network: dict[str, str]) -> None:
    machine.up()
    machine.up(name="two", **order)
    settled = resolve_spec(machine.driver("lxd"), ClusterOrder(name="two"))[0].spec.network
    assert settled == changed(SECOND, **network)
    assert machine.up(name="two", **order).unchanged
    assert machine.addresses()["two-000"].startswith(network.get("subnet", "10.0.7")[:6])


BAD: dict[str, tuple[dict[str, str], type[GpuprovError], str]] = {
    "a route": ({"subnet": "10.77.0.0/24"}, UsageError, "the subnet 10.77.0.0/24 is in use on this host"),
    "around a route": ({"subnet": "10.77.0.0/20"}, UsageError, "10.77.0.0/25 on tun7"),
    "another cluster's": ({"subnet": "10.0.3.0/24"}, UsageError, "10.0.3.1/24 on gpbr0"),
    "another cluster's private": ({"subnet": "10.0.5.0/24"}, UsageError, "gpbr1 of cluster lab"),
    "too small": ({"subnet": "10.9.3.0/30"}, SpecError, "too large or too small"),
    "too small for the nodes": ({"subnet": "10.9.3.0/29", "count": "6"}, SpecError, "6 nodes do not fit"),
    "too large": ({"subnet": "10.0.0.0/8"}, SpecError, "too large or too small"),
    "public": ({"subnet": "8.8.8.0/24"}, SpecError, "is not private"),
    "an address": ({"subnet": "10.9.3.1/24"}, SpecError, "must be written as 10.9.3.0/24"),
    "no length": ({"subnet": "10.9.3.0"}, SpecError, "must be written as 10.9.3.0/32"),
    "no subnet": ({"subnet": "ten"}, SpecError, "'ten' is not a subnet"),
    "IPv6": ({"subnet": "fd00::/64"}, SpecError, "is not a subnet"),
    "an empty subnet": ({"subnet": ""}, SpecError, "'' is not a subnet"),
    "another cluster's bridge": ({"bridge": "gpbr0"}, UsageError, "the network gpbr0 belongs to cluster lab"),
    "an interface of the host": ({"bridge": "eth7"}, NotOurs, "the network eth7 exists and was not created by gpuprov"),
    "a network of an engine": ({"bridge": "other0"}, NotOurs, "other0 exists and was not created by gpuprov"),
    "16 characters": ({"bridge": "a" * 16}, SpecError, "(allowed: 2 to 15 of"),
    "a slash": ({"bridge": "a/b"}, SpecError, "is 'a/b' (allowed: 2 to 15"),
    "a blank": ({"bridge": "a b"}, SpecError, "is 'a b' (allowed: 2 to 15"),
    "a colon": ({"bridge": "ab:0"}, SpecError, "is 'ab:0' (allowed: 2 to 15"),
    "a wildcard": ({"bridge": "ab+"}, SpecError, "is 'ab+' (allowed: 2 to 15"),
    "two dots": ({"bridge": ".."}, SpecError, "is '..' (allowed: 2 to 15"),
    "a line's end": ({"bridge": "lab0\n"}, SpecError, "(allowed: 2 to 15 of"),
    "an option": ({"bridge": "-lab"}, SpecError, "is '-lab' (allowed: 2 to 15"),
    "a word of the kernel's": ({"bridge": "default"}, SpecError, "is 'default' (allowed: 2 to 15"),
    "an empty bridge": ({"bridge": ""}, SpecError, "is '' (allowed: 2 to 15"),
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["lxd", "incus", "docker"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input(machine: Machine, case: str, engine: str) -> None:
    order, kind, words = BAD[case]
    machine.up()
    machine.worlds["docker"].engine.add_foreign_network("other0", address="10.66.0.1/24")
    wanted: dict[str, Any] = {**order, "name": "two"}
    if "count" in wanted:
        wanted["count"] = int(wanted["count"])
    before = [world.engine.dump() for world in machine.worlds.values()]
    asked = machine.order(engine, **wanted)
    machine.host.more_interfaces.append("eth7")
    machine.host.network.append(Link(interface="tun7", network=IPv4Network("10.77.0.0/25")))
    for act in (preview_up, cluster_up):
        with pytest.raises(kind) as caught:
            act(machine.driver(engine), asked, machine.host, reporter=machine.reporter)
        assert words in str(caught.value)
        assert type(caught.value) is kind
        assert caught.value.evidence
        assert caught.value.fix
    assert [world.engine.dump() for world in machine.worlds.values()] == before


@pytest.mark.parametrize(
    "order", [{"subnet": "10.9.3.0/24"}, {"bridge": "lab0"}, {"bridge": "gpbr0", "subnet": "10.9.3.0/24"}], ids=str
)
def test_a_cluster_that_exists_keeps_its_networks(machine: Machine, order: dict[str, str]) -> None:
    machine.up()
    with pytest.raises(UsageError, match="the networks of cluster lab cannot be changed while it exists") as caught:
        machine.up(**order)
    assert "gpuprov cluster down lab" in caught.value.fix
    assert machine.up(bridge="gpbr0", subnet="10.0.3.0/24").unchanged
    machine.create("web", cluster="early")
    with pytest.raises(UsageError, match="the networks of cluster early cannot be changed"):
        machine.up(name="early", **order)
