"""While nodes are replaced, others work on the same cluster, and runs are killed: no queue, node or port is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.replacements import read_replacements
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.lifecycle import kept_queue, replacing
from gpuprov.lifecycle.cluster_up import UpOrder
from gpuprov.lifecycle.kept_queue import queue_file
from gpuprov.lifecycle.replace_older import replace_older
from gpuprov.shapes.node import Exposure
from tests.fakes.faults import Killed
from tests.fakes.slurm import FakeJob
from tests.unit.lifecycle.test_older_images import STATE, images, newer, renew, state, with_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.world import World

pytestmark = pytest.mark.slow


def kill_renewal(world: World, count: int, at: str, *, subject: str) -> None:
    """Kill `cluster up --renew` right after it has done something to a node."""
    world.engine.faults.raise_at(Killed(), f"{at}:done", subject=subject)
    with pytest.raises(Killed):
        renew(world, newer(world, count))
    world.slurm.forget_runs()
    world.engine.faults.clear()


def when_kept(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen when the queue is in its file and the old node is still there."""
    keep = kept_queue.keep_queue

    def keep_and_act(*words: object, **named: object) -> None:
        keep(*words, **named)  # type: ignore[arg-type]
        act()

    monkeypatch.setattr(replacing, "keep_queue", keep_and_act)


def test_a_node_beyond_the_count_does_not_come_back(world: World) -> None:
    world.begin_with(3)
    kill_renewal(world, 3, "delete_node", subject="c002")
    world.up(spec=newer(world, 2))
    assert (world.names, read_replacements(state(world))) == (["c000", "c001"], {})


def test_no_node_takes_the_place_of_one_that_is_to_come_back(world: World) -> None:
    world.begin_with(2)
    with_state(world)
    kill_renewal(world, 2, "delete_node", subject="c000")
    for name in ("c000", "c007"):  # it could have the addresses that the other one had
        with pytest.raises(UsageError, match="no node can be added to cluster lab now") as refused:
            world.create(name, role="slurm")
        assert "finish that first: gpuprov cluster up" in refused.value.fix
    world.up(spec=newer(world, 2))
    assert b"a queue" in world.engine.nodes["c000"].files["/etc/slurm/arrive.tar"].content
    world.create("c007", role="slurm")


def test_a_run_that_ends_meanwhile_does_not_forget_what_is_being_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin_with(2)
    with_state(world)

    def other_run() -> None:
        """It began, and found nothing to mend, before the first one had written anything down."""
        with pytest.MonkeyPatch.context() as before:
            before.setattr("gpuprov.lifecycle.cluster_up.mend_replacing", lambda *_, **__: None)
            world.up(spec=newer(world, 2))

    when_kept(monkeypatch, other_run)
    assert renew(world, newer(world, 2)).changed == ("replace node c001", "replace node c000")
    assert b"a queue" in world.engine.nodes["c000"].files["/etc/slurm/arrive.tar"].content


def test_no_node_goes_whose_queue_is_in_no_file_any_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.begin_with(2)
    with_state(world)
    when_kept(monkeypatch, lambda: queue_file("lab", "c000", engine=world.driver.name).unlink())
    with pytest.raises(EngineError, match="c000 is not replaced") as refused:
        renew(world, newer(world, 2))
    assert ", which has its queue, is gone" in refused.value.evidence
    assert world.engine.nodes["c000"].files[STATE].content == b"a queue"
    assert read_replacements(state(world)) == {}


def test_jobs_that_come_while_others_are_waited_for_are_not_lost_with_the_queue(world: World) -> None:
    world.begin_with(2)
    spec = newer(world, 2)
    image = world.engine.images["slurm-new"]
    image.labels = {**image.labels, "gpuprov.queue-version": "24.11.5-4"}
    world.slurm.said = {"dpkg-query": "22.05.8-4", "grep -c .": "0\n"}
    world.slurm.queue = [FakeJob(id="17", nodes="c000")]

    def submit() -> None:
        if "c000" in world.slurm.drains and world.slurm.queue[0].id == "17":
            world.slurm.queue[:] = [FakeJob(id="18", state="PD")]

    world.slurm.on_look = submit
    with pytest.raises(UsageError, match="there are jobs on c000"):
        renew(world, spec)
    assert images(world)["c000"] == "gpuprov-image-slurm"


def test_a_node_that_is_not_replaced_after_all_goes_on_though_the_cluster_was_moved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class MovedMeanwhile(Exception):
        """The cluster is another one now."""

    moved: list[bool] = []

    def check() -> None:
        if moved:
            raise MovedMeanwhile

    world.begin_with(2)
    with_state(world)
    when_kept(monkeypatch, lambda: moved.append(True))
    host = replace(world.host.checked(check), stale=True)
    with pytest.raises(MovedMeanwhile):
        replace_older(world.driver, UpOrder(spec=newer(world, 2)), host, reporter=world.reporter)
    assert read_replacements(state(world)) == {}
    assert not queue_file("lab", "c000", engine=world.driver.name).exists()


def test_ports_of_a_node_are_not_lost_with_a_run_that_is_killed(world: World) -> None:
    world.begin_with(1)
    world.create("web", role="plain", gpus="none")
    exposure = Exposure(host_port=8080, node_port=80)
    world.driver.expose("web", exposure)
    kill_renewal(world, 1, "create_node", subject="web")
    world.up(spec=newer(world, 1))
    assert [node.exposed for node in state(world).nodes if node.name == "web"] == [(exposure,)]
