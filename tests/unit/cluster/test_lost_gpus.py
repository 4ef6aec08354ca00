"""A GPU that is lost costs the node that holds it, and nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.gpus import render_board
from gpuprov.cluster.expected_nodes import expect_node
from gpuprov.cluster.gpu_board import GpuBoard
from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.placement import Place
from gpuprov.cluster.plan import plan_cluster
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.told_gpus import tell_board
from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.allocate import Claims
from gpuprov.gpu.lost import LostGpu
from gpuprov.shapes.base import write

if TYPE_CHECKING:
    from gpuprov.cluster.plan import Plan
    from gpuprov.gpu.models import HostGpus
    from tests.fakes.world import World


def lose(host: HostGpus, number: int, **unknown: object) -> HostGpus:
    """The host without a GPU, of which some is unknown."""
    gone = host.gpus[number]
    told = LostGpu(
        why="GPU is lost (NVML code 15)", index=number, minor=gone.minor, pci=gone.pci, uuid=gone.uuid, model=gone.model
    )
    left = tuple(gpu for gpu in host.gpus if gpu is not gone)
    return replace(host, gpus=left, lost=(replace(told, **unknown),))  # type: ignore[arg-type]


def plan(world: World, gpus: HostGpus, count: int) -> Plan:
    state = observe_cluster(world.driver, "lab")
    leases = read_leases(state.nodes, engine="fake")
    place = Place(host="here", gpus=gpus, leases=leases, claims=Claims(engine="fake"))
    return plan_cluster(world.spec(count), state, place, version="1", expect=world.driver)


@pytest.mark.parametrize("unknown", [{}, {"uuid": ""}, {"uuid": "", "index": None}])
def test_the_node_that_holds_it_stays_as_it_is_and_new_ones_avoid_it(world: World, unknown: dict[str, object]) -> None:
    world.begin_with(2)
    (lost,) = leased_uuids(observe_cluster(world.driver, "lab").nodes[0])
    planned = plan(world, lose(world.gpus, 0, **unknown), 6)
    assert [design.name for design in planned.keep] == ["c000", "c001"]
    assert planned.keep[0].gpus == (lost,)
    assert len(planned.create) == 4
    assert all(lost not in design.gpus for design in planned.create)


def test_a_device_that_is_another_gpu_now_is_never_kept(world: World) -> None:
    world.begin_with(2)
    host = lose(world.gpus, 0, uuid="", minor=None)
    shifted = replace(host, gpus=(replace(host.gpus[0], minor=world.gpus.gpus[0].minor), *host.gpus[1:]))
    with pytest.raises(HostNotReady, match="c000 holds a GPU that this host no longer has") as caught:
        plan(world, shifted, 2)
    assert "GPU is lost" in caught.value.evidence


def test_verify_says_of_the_node_that_its_gpu_is_lost(world: World) -> None:
    world.begin_with(2)
    state = observe_cluster(world.driver, "lab")
    host = lose(world.gpus, 0)
    ill, well = (expect_node(node, state, host) for node in state.nodes)
    assert ill.host_problem is not None
    assert "; lost: GPU 0 at" in ill.host_problem.evidence
    assert well.host_problem is None


def test_gpus_shows_it_with_its_holder(world: World) -> None:
    world.begin_with(2)
    nodes = observe_cluster(world.driver, "lab").nodes
    board = GpuBoard(host=lose(world.gpus, 0), leases=read_leases(nodes, engine="fake"))
    text = render_board(board)
    assert "LOST: GPU 0 at" in text
    assert "held by c000" in text
    document = write(tell_board(board, host="h"))
    assert "(lost)" in text.splitlines()[-2]
    assert [(gpu["index"], gpu["why"]) for gpu in document["lost"]] == [(0, "GPU is lost (NVML code 15)")]
