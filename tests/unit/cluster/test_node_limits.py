"""Limits that new nodes get where the spec has none; nodes that were there before get none, and are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.node_limits import GivenLimits, choose_limits, crowding_line, given_limits
from gpuprov.core.units import GIB
from gpuprov.drivers.base import LABEL_LIMITS, NodeState
from gpuprov.lifecycle.cluster_up import UpOrder, preview_up
from gpuprov.roles.slurm.files import Machine
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NetworkSpec, NodesSpec
from gpuprov.shapes.engine import EngineFacts
from gpuprov.shapes.node import NodeLimits

if TYPE_CHECKING:
    from tests.fakes.world import World

FACTS = EngineFacts(
    name="lxd", version="5", api="1", storage="btrfs", copy_on_write=True, cpus=8, memory_bytes=100 * GIB
)
OLD = "created by an earlier version without limits of processes and memory"


@pytest.mark.parametrize(
    ("kernel", "nodes", "processes"),
    [
        ({"pids": 32768, "threads": 192730}, 1, 4096),
        ({"pids": 32768, "threads": 192730}, 8, 2048),
        ({"pids": 32768, "threads": 192730}, 100, 1024),
        ({"pids": 4194304, "threads": 2000000}, 4, 32768),
        ({"pids": None}, 4, 4096),
    ],
)
def test_new_nodes_share_half_of_what_the_host_has(kernel: dict[str, int | None], nodes: int, processes: int) -> None:
    assert choose_limits(FACTS, kernel, nodes=nodes).processes == processes


@pytest.mark.parametrize("gib", [1, 24, 200, 2000])
def test_the_host_keeps_memory_and_slurm_gives_jobs_no_more_than_the_node_has(gib: int) -> None:
    limit = choose_limits(changed(FACTS, memory_bytes=gib * GIB), {}, nodes=1).memory_mib
    assert limit is not None
    assert gib * 1024 - limit == pytest.approx(min(gib * 1024 * 0.05, 8192), abs=1)
    assert limit >= Machine(cpus=1, memory_bytes=gib * GIB).memory_mib


def test_a_label_is_read_back_and_a_damaged_one_says_nothing() -> None:
    given = GivenLimits(processes=4096, memory_mib=23592)
    assert given_limits(NodeState(name="c000", status="running", labels={LABEL_LIMITS: given.dump()})) == given
    for text in ("", "{", "[]", '{"processes":true,"memory_mib":5}', '{"processes":-1,"memory_mib":5}', "null"):
        assert given_limits(NodeState(name="c000", status="running", labels={LABEL_LIMITS: text})) == GivenLimits()
    assert GivenLimits().dump() == ""


def test_nodes_of_an_earlier_gpuprov_stay_as_they_are_and_are_named(world: World) -> None:
    world.up(2)
    limits = world.engine.nodes["c000"].limits
    assert limits == NodeLimits(processes=2048, memory_bytes=int(32 * GIB * 0.95) // (1 << 20) * (1 << 20))
    old = world.engine.nodes["c000"]
    old.processes, old.memory_bytes = None, None
    del old.labels[LABEL_LIMITS]
    spec = world.spec(3)
    preview = preview_up(world.driver, UpOrder(spec=spec), world.host, reporter=world.reporter)
    assert preview.unlimited == (f"c000: {OLD}; nodes.processes and nodes.memory_gib in the spec set them",)
    assert not [line for line in preview.changes if "c000" in line and not line.startswith("renew")]
    world.up(3)
    assert world.engine.nodes["c000"].limits == NodeLimits()
    assert world.engine.nodes["c002"].limits == limits


def test_a_limit_in_the_spec_is_for_all_nodes_and_what_they_were_given_comes_back_without_it(world: World) -> None:
    world.up(1)
    given = world.engine.nodes["c000"].limits
    spec = world.spec(1)
    narrow = changed(spec, nodes=changed(spec.nodes, processes=300))
    planned = preview_up(world.driver, UpOrder(spec=narrow), world.host, reporter=world.reporter)
    assert planned.changes == (f"repair node c000: processes 300 (until now {given.processes})",)
    world.up(spec=narrow)
    assert world.engine.nodes["c000"].limits == changed(given, processes=300)
    world.up(spec=spec)
    assert world.engine.nodes["c000"].limits == given


def test_more_processes_for_all_clusters_than_the_host_has_are_warned_of_where_nodes_are_made(world: World) -> None:
    world.begin_with(2)  # each may have an eighth of 16,384 processes
    other = changed(world.spec(1), name="other", nodes=NodesSpec(count=1, prefix="o", processes=13000))
    free = NetworkSpec(bridge="gpbr6", subnet="10.0.33.0/24", private_bridge="gpbr7", private_subnet="10.0.35.0/24")
    other = changed(other, network=free)
    told = "17096 processes for 3 nodes together, of 16384 of the host: sudo sysctl -w kernel.pid_max=4194304"

    def said() -> list[str]:
        lines, world.reporter.lines[:] = list(world.reporter.lines), []
        return [line for line in lines if "processes for" in line]

    planned = preview_up(world.driver, UpOrder(spec=other), world.host, reporter=world.reporter)
    assert planned.crowding.startswith(told)
    assert said() == [f"warn {planned.crowding}"]
    world.up(spec=other)
    assert said() == [f"warn {planned.crowding}"]
    world.up(spec=other)
    world.up(2)
    assert not said(), "nothing is made"
    assert crowding_line([8192, 8192, None], {"pids": 16384, "threads": None}) == ""
