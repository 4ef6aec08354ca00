"""What an administrator copies or renames with the engine's own client is foreign, whatever labels it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.gpus import render_board
from gpuprov.cluster.gpu_board import look_at_gpus
from gpuprov.cluster.held_gpus import gpu_paths
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.told_gpus import tell_board
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.lifecycle import expose, remove_nodes, start_stop
from gpuprov.lifecycle.create_node import CloneOrder, clone_node
from gpuprov.lifecycle.rows import list_rows
from gpuprov.lifecycle.verify import verify_cluster
from gpuprov.shapes.base import write
from gpuprov.shapes.node import Exposure
from gpuprov.stories.enter_node import run_in_node
from tests.fakes.doors import door_of
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.world import World

TOUCHING: dict[str, Callable[[World], object]] = {
    "start": lambda w: start_stop.start_nodes(w.driver, ["backup"], w.host, reporter=w.reporter),
    "stop": lambda w: start_stop.stop_nodes(w.driver, ["backup"], w.host, reporter=w.reporter),
    "rm": lambda w: remove_nodes.remove_nodes(w.driver, ["backup"], w.host, reporter=w.reporter),
    "snapshot": lambda w: start_stop.snapshot(w.driver, "backup", "s", w.host, reporter=w.reporter),
    "restore": lambda w: start_stop.restore(w.driver, "backup", "s", w.host, reporter=w.reporter),
    "expose": lambda w: expose.expose(
        w.driver, "backup", Exposure(host_port=7000, node_port=80), w.host, reporter=w.reporter
    ),
    "unexpose": lambda w: expose.unexpose(w.driver, "backup", 7000, reporter=w.reporter),
    "exec": lambda w: run_in_node(w.driver, "backup", ["true"]),
    "clone": lambda w: clone_node(w.driver, CloneOrder(source="backup", name="more"), w.host, reporter=w.reporter),
    "create-node": lambda w: w.create("backup"),
}


@pytest.mark.parametrize("verb", TOUCHING)
@pytest.mark.parametrize("renamed", [False, True])
def test_no_verb_touches_it_and_all_say_what_it_is(world: World, verb: str, *, renamed: bool) -> None:
    world.begin_with(2)
    if renamed:
        world.engine.rename("c001", "backup")
    else:
        world.engine.copy("c001", "backup")
    before = world.engine.dump()
    with pytest.raises(GpuprovError) as caught:
        TOUCHING[verb](world)
    assert "a copy of c001" in f"{caught.value.what} {caught.value.evidence}"
    assert "backup" in caught.value.fix
    assert world.engine.dump() == before


def test_it_is_listed_as_what_it_is_and_not_counted(world: World) -> None:
    world.begin_with(2)
    world.engine.copy("c001", "backup")
    rows = {row.name: row for row in list_rows(world.driver, everything=False)}
    assert set(rows) == {"backup", "c000", "c001"}
    assert rows["backup"].cluster == "(foreign)"
    assert rows["backup"].health == "a copy of c001; it is left alone"
    assert rows["backup"].gpus == ()
    assert world.up(2).unchanged
    assert {line for line in world.up(1).changed if "remove" in line} == {"remove node c001"}
    world.up(spec=world.spec(4, sharing="exclusive"))  # all the GPUs there are
    outcome = world.down()
    assert world.names == ["backup"]
    assert not [line for line in outcome.changed if "network" in line]
    again = "gpuprov cluster down lab --engine fake"
    assert f"warn kept the network gpbr0: in use by backup; after detaching them, run: {again}" in world.reporter.lines
    del world.engine.nodes["backup"]
    assert world.down().changed == ("removed network gpbr1", "removed network gpbr0")


def test_a_renamed_node_is_told_with_the_way_back(world: World) -> None:
    world.begin_with(2)
    world.engine.rename("c001", "old")
    with pytest.raises(UsageError, match="there is no node c001") as caught:
        start_stop.stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert "old is a copy of c001" in caught.value.evidence
    assert caught.value.fix == ("if it is c001 itself, renamed: fakectl stop old && fakectl rename old c001")
    world.engine.rename("old", "c001")
    assert world.up(2).unchanged


STARTING: dict[str, Callable[[World], object]] = {
    "start": lambda w: start_stop.start_nodes(w.driver, ["c001"], w.host, reporter=w.reporter),
    "cluster up": lambda w: w.up(2),
    "create-node of a stopped one": lambda w: w.create("web"),
}


@pytest.mark.parametrize("verb", STARTING)
def test_nothing_starts_while_a_copy_runs_with_its_address(world: World, verb: str) -> None:
    world.begin_with(2)
    world.create("web")
    start_stop.stop_nodes(world.driver, ["c001", "web"], world.host, reporter=world.reporter)
    for node in ("c001", "web"):
        world.engine.copy(node, f"{node}-backup", status="running")
    before = world.engine.dump()
    with pytest.raises(UsageError, match="cannot start: its address 10") as caught:
        STARTING[verb](world)
    copy = caught.value.fix.removeprefix("fakectl stop ")
    assert f"{copy} has it: a copy of {copy.removesuffix('-backup')}, running" in caught.value.evidence
    assert world.engine.dump() == before
    for node in ("c001", "web"):
        world.engine.nodes[f"{node}-backup"].status = "stopped"
    STARTING[verb](world)


def test_a_running_node_is_not_restored_beside_its_running_copy(world: World) -> None:
    world.begin_with(2)
    start_stop.snapshot(world.driver, "c001", "s", world.host, reporter=world.reporter)
    world.engine.copy("c001", "backup", status="running")
    with pytest.raises(UsageError, match="c001 cannot start"):
        start_stop.restore(world.driver, "c001", "s", world.host, reporter=world.reporter)


def test_a_copy_that_runs_keeps_its_address_from_new_nodes_and_one_that_is_kept_does_not(world: World) -> None:
    world.begin_with(2)
    world.engine.copy("c001", "backup", status="running")
    remove_nodes.remove_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    with pytest.raises(UsageError, match=r"the address 10.0.3.3 of c001 is in use") as caught:
        world.up(2)
    assert "the foreign instance backup, a copy of c001" in caught.value.evidence
    world.create("c001")
    assert world.engine.nodes["c001"].state().addresses["eth0"] != "10.0.3.3/24"
    remove_nodes.remove_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    world.engine.nodes["backup"].status = "stopped"
    world.up(2)
    assert world.engine.nodes["c001"].state().addresses["eth0"] == "10.0.3.3/24"


def test_a_copy_that_runs_is_told_as_one_that_can_open_the_node_s_gpu(world: World) -> None:
    world.begin_with(2)
    world.engine.copy("c001", "kept")
    world.engine.copy("c001", "backup", status="running")
    driver = world.driver
    driver.name = "lxd"
    world.host.engines = (door_of(driver),)
    board = look_at_gpus(world.gpus, Neighbours(world.host))
    (device,) = gpu_paths(world.engine.nodes["c001"].devices)
    words = f"backup (lxd), a copy of c001, is running and can open {device} without a lease: fakectl stop backup"
    assert [str(use) for use in board.foreign] == [words]
    assert words in render_board(board)
    document = write(tell_board(board, host="here"))
    validate({"version": 1, **document})
    (foreign,) = document["foreign"]
    where = {"node": "backup", "host": world.driver.host, "engine": "lxd"}
    assert foreign == {**where, "copy_of": "c001", "devices": [device]}
    assert {lease.node for row in board.rows for lease in row.holders} == {"c000", "c001"}
    verify_cluster(driver, "lab", host=world.host, nodes=["c001"], reporter=world.reporter)
    assert f"warn {words}" in world.reporter.lines
