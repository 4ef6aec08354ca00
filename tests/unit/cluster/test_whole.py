"""The nodes of all hosts as one value, and what each host is told to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.files import render_hosts
from gpuprov.cluster.network_plan import network_requests
from gpuprov.cluster.networks import record_labels
from gpuprov.cluster.slices import Slice, slice_cluster, spec_alone
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import dump_whole, newest_whole, parse_whole, recorded_host, recorded_whole
from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_HOST, LABEL_MEMBERS, LABEL_SPEC
from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import (
    ClusterSpec,
    HostSpec,
    MountSpec,
    NetworkSpec,
    NodesSpec,
    OverlaySpec,
    PlacementSpec,
)
from gpuprov.shapes.whole import Member, WholeCluster
from gpuprov.spec.serialize import dump_spec
from gpuprov.spec.validate import find_problems

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.world import World

SPEC = ClusterSpec(
    hosts=(HostSpec(name="hoff"), HostSpec(name="hinton", engine="docker"), HostSpec(name="spare")),
    placement=PlacementSpec(strategy="pack"),
    network=NetworkSpec(overlay=OverlaySpec(vni=77)),
    nodes=NodesSpec(count=3, environment=("A=1", "GLOO_SOCKET_IFNAME=eth0")),
)
PLACED = {"c000": "hoff", "c001": "hoff", "c002": "hinton"}


def member(number: int, *devices: str) -> Member:
    private, paths = f"10.0.5.{number + 1}", tuple(f"/dev/nvidia{device}" for device in devices)
    return Member(
        name=f"c{number:03d}", address=f"10.0.3.{number + 2}", private_address=private, role="slurm", devices=paths
    )


HOFF = WholeCluster().with_host("hoff", [member(0, "0"), member(1, "1", "2")], cpus=64, memory_bytes=256 << 30)
WHOLE = HOFF.with_host("hinton", [member(2, "0")], cpus=16, memory_bytes=64 << 30)


def test_each_host_gets_its_nodes_and_a_host_without_any_gets_none() -> None:
    slices = slice_cluster(SPEC, PLACED)
    assert [(one.host, one.nodes) for one in slices] == [
        ("hoff", ("c000", "c001")),
        ("hinton", ("c002",)),
        ("spare", ()),
    ]
    assert all(one.spec == SPEC for one in slices), "the whole spec is recorded on each"


def test_a_host_carries_out_the_spec_with_its_own_engine_and_by_the_private_network() -> None:
    local = Slice(spec=SPEC, host="hinton").local_spec
    assert (local.engine, Slice(spec=SPEC, host="hoff").local_spec.engine) == ("docker", "lxd")
    assert local.nodes.environment == ("NCCL_SOCKET_IFNAME=eth1", "A=1", "GLOO_SOCKET_IFNAME=eth0")
    assert changed(local, engine=SPEC.engine, nodes=SPEC.nodes) == SPEC


def test_a_host_checks_the_sources_of_mounts_that_another_cannot(tmp_path: Path) -> None:
    mounts = (MountSpec(source="/data", target="/data"),)
    spec = changed(SPEC, nodes=changed(SPEC.nodes, mounts=mounts))
    assert find_problems(spec, roles=ROLE_NAMES, root=tmp_path) == []
    assert [one.where for one in find_problems(spec_alone(spec), roles=ROLE_NAMES, root=tmp_path)] == [
        "nodes.mounts[0].source"
    ]
    (tmp_path / "data").mkdir()
    assert find_problems(spec_alone(spec), roles=ROLE_NAMES, root=tmp_path) == []


def test_docker_s_private_network_is_put_on_the_overlay_s_bridge() -> None:
    assert [request.beside for request in network_requests(SPEC, version="1")] == [None, "gpvb00004d"]
    assert [request.beside for request in network_requests(spec_alone(SPEC), version="1")] == [None, "gpbr0"]


def test_a_host_s_nodes_replace_those_that_it_had() -> None:
    assert WHOLE.homes == PLACED
    fewer = WHOLE.with_host("hoff", [member(0)], cpus=64, memory_bytes=256 << 30)
    assert fewer.homes == {"c000": "hoff", "c002": "hinton"}
    assert [one.name for one in fewer.on("hoff")] == ["c000"]
    assert WHOLE.without_host("hoff").homes == {"c002": "hinton"}
    assert WHOLE.addresses_beside("hinton") == {"10.0.5.1": "node c000 on hoff", "10.0.5.2": "node c001 on hoff"}


def test_a_change_has_the_next_serial_and_the_latest_counts() -> None:
    first = WHOLE.changed_from(WholeCluster())
    assert first.serial == 1
    assert first.changed_from(first) == first
    second = first.without_host("hinton").changed_from(first)
    assert newest_whole([first, second, HOFF]) == second
    assert newest_whole([]) == WholeCluster()


def test_nodes_of_several_hosts_are_named_by_their_private_addresses_alone() -> None:
    hosts = render_hosts("lab", WHOLE.reachable_members()).content.decode()
    assert "10.0.5.3 c002\n" in hosts
    assert "10.0.3." not in hosts
    assert "10.0.3.2 c000\n" in render_hosts("lab", HOFF.reachable_members()).content.decode()


def test_slurm_s_files_are_the_same_on_every_host_whatever_it_is_itself() -> None:
    members = WHOLE.reachable_members()
    on_hoff, on_hinton = (render_slurm(SPEC, members, Machine(cpus=cpus, memory_bytes=cpus << 30)) for cpus in (64, 16))
    assert on_hoff == on_hinton
    text = on_hoff[0].content.decode()
    assert "SlurmctldHost=c000(10.0.5.1)" in text
    assert "NodeName=c001 NodeAddr=10.0.5.2 CPUs=64 RealMemory=249036 Feature=host-hoff Gres=gpu:2 State" in text
    assert "NodeName=c002 NodeAddr=10.0.5.3 CPUs=16 RealMemory=62259 Feature=host-hinton Gres=gpu:1 State" in text


def test_what_is_recorded_is_read_back_and_nothing_else_is_taken_for_it() -> None:
    assert parse_whole(dump_whole(WHOLE), source="network gpbr0") == WHOLE
    twice = dump_whole(changed(WHOLE, members=(*WHOLE.members, WHOLE.members[0])))
    for text in ("", "{", "[]", '{"members":[{}]}', '{"x":1}', twice, "[" * 100_000):
        with pytest.raises(EngineError, match="as recorded with network gpbr0") as caught:
            parse_whole(text, source="network gpbr0")
        assert caught.value.evidence.isprintable()


def test_what_every_host_tells_in_the_same_words_is_read_once() -> None:
    text = dump_whole(WHOLE)
    read = parse_whole(text, source="cluster lab on hoff")
    assert parse_whole(text, source="cluster lab on hinton") is read
    assert read.with_host("hoff", WHOLE.on("hoff"), cpus=64, memory_bytes=256 << 30).changed_from(read) is read


def test_every_host_tells_what_the_cluster_is_by_its_network_s_labels(world: World) -> None:
    world.begin_with(1)
    state = observe_cluster(world.driver, "lab")
    assert (recorded_host(state), recorded_whole(state)) == ("", None)
    labels = {LABEL_SPEC: dump_spec(changed(SPEC, name="lab")), LABEL_HOST: "hoff", LABEL_MEMBERS: dump_whole(WHOLE)}
    record_labels(world.driver, world.spec(1), labels, state)
    state = observe_cluster(world.driver, "lab")
    assert (recorded_host(state), recorded_whole(state), state.spec) == ("hoff", WHOLE, SPEC)
    world.engine.faults.clear()
    record_labels(world.driver, world.spec(1), labels, state)
    assert world.steps() == []


# As the release before recorded it, and one before that had neither types of GPUs nor tunnels
RECORDED = (
    '{"members":[{"address":"10.0.3.2","cpus":64,"devices":["/dev/nvidia0"],"gpu_types":["h100"],"gpus":["GPU-1"],'
    '"host":"hoff","memory_bytes":8,"name":"c000","private_address":"10.0.5.1","role":"slurm","simulated":false}],'
    '"serial":4,"tunnels":[{"address":"10.0.77.1","host":"hoff","key":""}]}'
)
EARLIER = (
    '{"members":[{"address":"","cpus":0,"devices":[],"gpus":[],"host":"hoff","memory_bytes":0,"name":"c000",'
    '"private_address":"10.0.5.1","role":"slurm","simulated":false}],"serial":4}'
)


def test_what_earlier_releases_recorded_is_read_and_written_in_the_same_words() -> None:
    whole = parse_whole(RECORDED, source="network gpbr0")
    assert (whole.serial, whole.members[0].gpu_types, whole.tunnels[0].host) == (4, ("h100",), "hoff")
    assert dump_whole(whole) == RECORDED, "else a mere look would be a change"
    assert parse_whole(EARLIER, source="network gpbr0").homes == {"c000": "hoff"}
