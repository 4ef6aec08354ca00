"""A cluster over two hosts, put together from its parts as a controller and its members will do it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.files import planned_member
from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.network_plan import network_requests
from gpuprov.cluster.networks import record_labels
from gpuprov.cluster.offer import make_offer
from gpuprov.cluster.placement import Place, place_nodes
from gpuprov.cluster.plan import Plan, plan_cluster
from gpuprov.cluster.room import find_room
from gpuprov.cluster.slices import Slice, slice_cluster
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import dump_whole, newest_whole, parse_whole, recorded_host, recorded_whole
from gpuprov.drivers.base import LABEL_GPUS, LABEL_HOST, LABEL_MEMBERS, LABEL_SPEC, File
from gpuprov.fleet.find_hosted import machine_of
from gpuprov.gpu.allocate import Claims
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.files import Reading, gather_files
from gpuprov.link.address import RemoteMachine
from gpuprov.link.connection import SshConnection
from gpuprov.roles.crew import Crew
from gpuprov.shapes.base import read, write
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, HostSpec, NodesSpec, PlacementSpec
from gpuprov.shapes.members import Offer
from gpuprov.spec.addressing import node_name
from gpuprov.spec.serialize import dump_spec
from tests.fakes.places import NOWHERE
from tests.fakes.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.link.places import Places
    from gpuprov.shapes.cluster_spec import Strategy
    from gpuprov.shapes.whole import WholeCluster
    from tests.conftest import Recording

KEY = bytes(range(128))


@dataclass(frozen=True, kw_only=True)
class Member:
    """One host: what it answers to a controller, and what it does for one."""

    name: str
    world: World

    def place(self, slice_: Slice | None = None, whole: WholeCluster | None = None) -> Place:
        state = observe_cluster(self.world.driver, "lab")
        leases = read_leases((*state.nodes, *state.others), engine="fake")
        place = Place(host=self.name, gpus=self.world.gpus, leases=leases, claims=Claims(engine="fake"))
        if slice_ is None or whole is None:
            return place
        return replace(place, nodes=frozenset(slice_.nodes), taken=whole.addresses_beside(self.name))

    def offer(self, spec: ClusterSpec) -> Offer:
        driver = self.world.driver
        room = find_room(driver, self.world.host.limits(), promised_gib=0)
        told = make_offer(spec, observe_cluster(driver, "lab"), self.place(), room, most=spec.nodes.count)
        return read(Offer, write(told))

    def plan(self, slice_: Slice, whole: WholeCluster) -> Plan:
        driver = self.world.driver
        state = observe_cluster(driver, "lab")
        return plan_cluster(slice_.local_spec, state, self.place(slice_, whole), version="1", expect=driver)

    def files(self, spec: ClusterSpec, whole: WholeCluster, node: str) -> dict[str, File]:
        driver = self.world.driver
        state = observe_cluster(driver, "lab")
        images = {image.name.rpartition("-")[2]: image for image in driver.list_images()}
        reading = Reading(state=state, secrets={"slurm": KEY})
        files = gather_files(driver, Crew(spec=spec, members=whole.reachable_members()), state, images, reading)
        return {file.path: file for file in files.of(node)}

    def act(self, slice_: Slice, plan: Plan, whole: WholeCluster) -> None:
        driver = self.world.driver
        state = observe_cluster(driver, "lab")
        present = {network.name for network in state.own_networks}
        for network in network_requests(slice_.local_spec, version="1"):
            if network.name not in present:
                driver.create_network(network)
                driver.complete_network(network)
                driver.isolate_network(network.name)
        for design in plan.create:
            files = self.files(slice_.spec, whole, design.name)
            driver.create_node(design.request("slurm", tuple(files.values())))
            driver.start_node(design.name)
        labels = {LABEL_SPEC: dump_spec(slice_.spec), LABEL_HOST: self.name, LABEL_MEMBERS: dump_whole(whole)}
        record_labels(driver, slice_.spec, labels, observe_cluster(driver, "lab"))


class Controller:
    """What will be `cluster up` over hosts: offers, placement, plans of all, then acts."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = {member.name: member for member in members}

    def known(self) -> WholeCluster:
        states = [observe_cluster(member.world.driver, "lab") for member in self.members.values()]
        return newest_whole([whole for state in states if (whole := recorded_whole(state))])

    def up(self, spec: ClusterSpec) -> dict[str, Plan]:
        names = [node_name("c", number) for number in range(spec.nodes.count)]
        before = self.known()
        offers = [member.offer(spec) for member in self.members.values()]
        placed = place_nodes(spec, names, offers, away=before.homes)
        slices = {one.host: one for one in slice_cluster(spec, placed) if one.host in self.members}
        plans = {name: member.plan(slices[name], before) for name, member in self.members.items()}
        whole = before
        for number, (name, plan) in enumerate(plans.items()):
            nodes = [planned_member(design) for design in plan.members]
            whole = whole.with_host(name, nodes, cpus=16 * (number + 1), memory_bytes=64 << 30)
        whole = whole.changed_from(before)
        for name, member in self.members.items():
            member.act(slices[name], plans[name], whole)
        return plans


def spec_of(count: int, strategy: Strategy = "spread", hosts: Sequence[str] = ("hoff", "hinton")) -> ClusterSpec:
    return ClusterSpec(
        hosts=tuple(HostSpec(name=host) for host in hosts),
        nodes=NodesSpec(count=count),
        gpus=GpuSpec(sharing="exclusive", mode="simulated"),
        placement=PlacementSpec(strategy=strategy),
    )


@pytest.fixture
def members(tmp_path: Path, recording: Recording) -> list[Member]:
    made = []
    for number, name in enumerate(("hoff", "hinton")):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, recording)
        world.gpus = observe(root=NOWHERE, mode="simulated", simulated_count=4, seed=f"{number + 1:08x}")
        made.append(Member(name=name, world=world))
    return made


def held(members: Sequence[Member]) -> Counter[str]:
    nodes = [node for member in members for node in observe_cluster(member.world.driver, "lab").nodes]
    return Counter(node.labels[LABEL_GPUS] for node in nodes)


def test_two_hosts_make_one_cluster_with_the_same_files(members: list[Member]) -> None:
    plans = Controller(members).up(spec_of(6))
    assert {host: [design.name for design in plan.create] for host, plan in plans.items()} == {
        "hoff": ["c000", "c001", "c002"],
        "hinton": ["c003", "c004", "c005"],
    }
    files = {name: node.files for member in members for name, node in member.world.engine.nodes.items()}
    for path in ("/etc/hosts", "/etc/slurm/slurm.conf", "/etc/slurm/gres.conf", "/etc/munge/munge.key"):
        assert len({node[path].content for node in files.values()}) == 1, path
    text = files["c005"]["/etc/slurm/slurm.conf"].content.decode()
    assert text.count("NodeName=") == 6
    assert "NodeName=c005 NodeAddr=10.0.5.6 CPUs=32" in text
    assert "SlurmctldHost=c000(10.0.5.1)" in text
    marked = [name for name, node in files.items() if any("controller" in path for path in node)]
    assert marked == ["c000"]
    environment = members[1].world.engine.nodes["c003"].environment
    assert (environment["NCCL_SOCKET_IFNAME"], environment["GLOO_SOCKET_IFNAME"]) == ("eth1", "eth1")
    assert max(held(members).values()) == 1


def test_a_second_run_changes_nothing_and_growing_moves_nothing(members: list[Member]) -> None:
    controller = Controller(members)
    controller.up(spec_of(3))
    again = controller.up(spec_of(3))
    assert [plan.lines() for plan in again.values()] == [(), ()]
    assert controller.known().serial == 1
    grown = controller.up(spec_of(8, "pack"))
    assert {host: [design.name for design in plan.keep] for host, plan in grown.items()} == {
        "hoff": ["c000", "c001"],
        "hinton": ["c002"],
    }
    assert controller.known().serial == 2
    assert sorted(controller.known().homes) == [node_name("c", number) for number in range(8)]
    assert len(held(members)) == 8


def test_any_host_tells_what_the_cluster_is_and_one_that_is_away_keeps_its_nodes(members: list[Member]) -> None:
    Controller(members).up(spec_of(4))
    here = Controller(members[1:])  # hoff does not answer, and this is another controller
    state = observe_cluster(members[1].world.driver, "lab")
    assert (state.spec, recorded_host(state)) == (spec_of(4), "hinton")
    plan = here.up(spec_of(6))["hinton"]
    assert [design.name for design in plan.create] == ["c004", "c005"]
    whole = here.known()
    assert (whole.serial, whole.homes["c000"], whole.homes["c005"]) == (2, "hoff", "hinton")
    assert parse_whole(dump_whole(whole), source="it").on("hoff")[0].cpus == 16
    both = Controller(members)
    assert both.known() == whole, "the host that was unreachable has an older record"
    assert [plan.lines() for plan in both.up(spec_of(6)).values()] == [(), ()]


def test_fewer_nodes_are_removed_where_they_are(members: list[Member]) -> None:
    controller = Controller(members)
    controller.up(spec_of(6))
    plans = controller.up(spec_of(4))
    assert {host: plan.remove for host, plan in plans.items()} == {"hoff": (), "hinton": ("c004", "c005")}
    assert "c005" not in controller.known().homes


def test_a_cluster_without_hosts_has_the_labels_that_it_had_before_there_were_hosts(world: World) -> None:
    """The data was written by gpuprov before it knew hosts: another fingerprint would restart every node."""
    world.up(2)
    before = json.loads((Path(__file__).parent / "data" / "labels_before_hosts.json").read_text())
    # which change with gpuprov and with the recipe, or came later
    later = ("gpuprov.gpu-cores", "gpuprov.gpu-types", "gpuprov.gpu-units", "gpuprov.limits", "gpuprov.people")
    left_out = ("gpuprov.version", "gpuprov.image", "gpuprov.recipe", *later)

    def shown(labels: Mapping[str, str]) -> dict[str, str]:
        return {label: text for label, text in labels.items() if label not in left_out}

    engine = world.engine
    now = {
        "nodes": {name: shown(node.labels) for name, node in engine.nodes.items()},
        "networks": {name: shown(network.labels) for name, network in engine.networks.items()},
    }
    assert now == before


def test_ssh_takes_the_way_that_a_spec_says(places: Places) -> None:
    host = HostSpec(name="hoff", address="192.0.2.11", user="root", port=2222, proxy_jump="ops@gate.example,inner")
    remembered = RemoteMachine(name="hoff", address="192.0.2.99", proxy_jump="old")
    argv = SshConnection(machine=machine_of(host, {"hoff": remembered}), places=places).argv(["true"])
    assert {"ProxyJump=ops@gate.example,inner", "2222", "root@192.0.2.11"} <= set(argv)
    argv = SshConnection(machine=machine_of(HostSpec(name="hoff"), {"hoff": remembered}), places=places).argv(["true"])
    assert {"ProxyJump=old", "192.0.2.99"} <= set(argv), "as `host add` has remembered it"
