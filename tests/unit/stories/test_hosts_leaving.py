"""Nodes that leave a host without Slurm's controller, and whole hosts that a spec does not name any more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.fleet.hosts_up import look_and_plan_over_hosts, up_over_hosts
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.shapes.base import changed
from tests.fakes.slurm import FakeJob
from tests.unit.stories.test_hosts_up import files, lab

if TYPE_CHECKING:
    from gpuprov.fleet.agree import HostsUpOrder
    from tests.unit.stories.test_hosts_up import Controller

pytestmark = pytest.mark.slow

__all__ = ["lab"]


def only(lab: Controller, host: str, count: int = 4, *, force: bool = False) -> HostsUpOrder:
    """The cluster without the other host."""
    order = lab.order(count)
    spec = order.draft.spec
    alone = changed(spec, hosts=tuple(one for one in spec.hosts if one.name == host))
    return replace(order, draft=replace(order.draft, spec=alone), policy=JobsPolicy(force=force))


def test_nodes_that_leave_are_drained_by_the_host_of_the_controller(lab: Controller) -> None:
    lab.up()
    slurm = lab.hosts.worlds["hoff"].slurm
    there: list[tuple[tuple[str, ...], list[str]]] = []
    slurm.on_drain = lambda names: there.append((names, lab.hosts.worlds["hinton"].names))
    lab.up(2)
    assert there == [(("c002", "c003"), ["c002", "c003"])], "before they were removed"
    assert lab.hosts.worlds["hinton"].names == []


def test_a_job_that_only_the_controller_knows_keeps_them(lab: Controller) -> None:
    lab.up()
    slurm = lab.hosts.worlds["hoff"].slurm
    slurm.queue.append(FakeJob(id="7", nodes="c003"))
    with pytest.raises(UsageError, match="there are jobs on"):
        lab.up(2)
    assert lab.hosts.worlds["hinton"].names == ["c002", "c003"]
    assert slurm.drains == {}
    order = replace(lab.order(2), policy=JobsPolicy(force=True))
    assert up_over_hosts(order, lab.hosts, reporter=lab.reporter).error is None
    assert lab.hosts.worlds["hinton"].names == []


def test_drain_waits_where_jobs_run_on_another_host(lab: Controller) -> None:
    lab.up()
    slurm = lab.hosts.worlds["hoff"].slurm
    slurm.queue.append(FakeJob(id="7", nodes="c003"))
    lab.hosts.worlds["hinton"].slurm.queue = slurm.queue
    slurm.on_drain = lambda _names: slurm.queue.clear()  # it ends while it is waited for
    order = replace(lab.order(2), policy=JobsPolicy(drain_s=60.0))
    assert up_over_hosts(order, lab.hosts, reporter=lab.reporter).error is None
    assert lab.hosts.worlds["hinton"].names == []


def test_a_host_that_is_left_out_is_emptied_and_its_nodes_are_made_elsewhere(lab: Controller) -> None:
    lab.up()
    order = only(lab, "hoff")
    lines = look_and_plan_over_hosts(order, lab.hosts, reporter=lab.reporter).lines
    assert "hinton: remove node c003" in lines
    assert lab.hosts.worlds["hinton"].names == ["c002", "c003"]
    result = up_over_hosts(order, lab.hosts, reporter=lab.reporter)
    assert result.error is None
    assert [(row.name, row.host, row.work) for row in result.rows] == [
        (name, "hoff", "idle") for name in ("c000", "c001", "c002", "c003")
    ]
    assert "hinton: removed node c003" in result.outcome.changed
    world = lab.hosts.worlds["hinton"]
    assert [*world.engine.nodes, *world.engine.networks, *world.host.overlays.there] == []
    assert len(files(lab, "/etc/munge/munge.key")) == 1
    assert up_over_hosts(order, lab.hosts, reporter=lab.reporter).outcome.unchanged
    assert [row.host for row in lab.up().rows] == ["hoff"] * 4, "it may come back, and nothing moves"


def test_jobs_on_a_host_that_is_left_out_are_spared(lab: Controller) -> None:
    lab.up()
    lab.hosts.worlds["hoff"].slurm.queue.append(FakeJob(id="7", nodes="c002"))
    with pytest.raises(UsageError, match="there are jobs on"):
        up_over_hosts(only(lab, "hoff"), lab.hosts, reporter=lab.reporter)
    assert lab.hosts.worlds["hinton"].names == ["c002", "c003"]
    assert lab.hosts.worlds["hoff"].slurm.drains == {}
    up_over_hosts(only(lab, "hoff", force=True), lab.hosts, reporter=lab.reporter)
    assert lab.hosts.worlds["hinton"].names == []


def test_the_host_of_the_controller_stays(lab: Controller) -> None:
    lab.up()
    with pytest.raises(UsageError, match=r"hoff cannot be taken out of hosts: .* its node c000"):
        up_over_hosts(only(lab, "hinton"), lab.hosts, reporter=lab.reporter)
    assert lab.hosts.worlds["hoff"].names == ["c000", "c001"]


def test_too_little_room_on_the_others_leaves_all_as_it_is(lab: Controller) -> None:
    lab.up(8, gpus=lab.order().draft.spec.gpus)
    order = only(lab, "hoff", 8)
    gpus = changed(order.draft.spec.gpus, sharing="exclusive")
    order = replace(order, draft=replace(order.draft, spec=changed(order.draft.spec, gpus=gpus)))
    with pytest.raises(UsageError, match="its hosts have room for"):
        up_over_hosts(order, lab.hosts, reporter=lab.reporter)
    assert len(lab.hosts.worlds["hinton"].names) == 4


def test_a_host_that_is_away_is_left_out_only_once_it_is_forgotten(lab: Controller) -> None:
    lab.up()
    lab.hosts.away = {"hinton"}
    with pytest.raises(UsageError, match="hinton still has nodes") as caught:
        up_over_hosts(only(lab, "hoff"), lab.hosts, reporter=lab.reporter)
    assert "gpuprov host remove hinton --forget" in caught.value.fix
    machines = lab.hosts.machines
    forgotten = replace(only(lab, "hoff"), known={"hoff": machines["hoff"]})
    result = up_over_hosts(forgotten, lab.hosts, reporter=lab.reporter)
    assert result.error is None
    assert any("hinton is left out with c[002-003]" in line for line in lab.reporter.lines)
    assert {row.host for row in result.rows} == {"hoff"}
    assert len(result.rows) == 4
