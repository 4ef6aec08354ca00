from __future__ import annotations

import threading
from dataclasses import replace
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, NoReturn
from unittest.mock import Mock

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, NotOurs, TimedOut, UsageError
from gpuprov.drivers.base import (
    LABEL_ADDRESS,
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_GPUS,
    LABEL_ORDER,
    LABEL_SHARING,
    LABEL_SPEC,
)
from gpuprov.drivers.capabilities import NotCapable
from gpuprov.drivers.networks import NetworkState
from gpuprov.gpu.allocate import GpusTaken
from gpuprov.lifecycle.cluster_up import UpOrder, cluster_up, preview_changes, preview_up
from gpuprov.machine.links import Link
from gpuprov.roles.slurm import daemons as slurm
from gpuprov.roles.slurm.munge import LABEL_MUNGE_OWNER
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, JobsSpec, NetworkSpec, NodesSpec
from gpuprov.spec.spec_error import SpecError
from tests.fakes.faults import Killed
from tests.fakes.slurm import OF_CHANCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import NodeRequest
    from tests.fakes.world import World


def test_what_other_tests_begin_with_is_what_it_makes(world: World) -> None:
    world.begin_with(2)
    copy, lines = world.engine.dump(), list(world.reporter.lines)
    steps = sorted(world.steps())
    assert world.up(2).unchanged
    world.empty()
    world.engine.faults.clear()
    world.reporter.lines.clear()
    world.up(2)
    assert sorted(world.steps()) == steps
    assert sorted(world.reporter.lines) == sorted(lines)
    made = world.engine.dump()
    for node in (*copy["nodes"].values(), *made["nodes"].values()):
        for path in OF_CHANCE:
            node.files.pop(path)
    assert made == copy


def test_limits_of_jobs_that_change_are_recorded_and_told(world: World) -> None:
    world.begin_with(2)
    limited = changed(world.spec(2), jobs=JobsSpec(time="12h", memory="8GiB"))
    lines = ("record jobs.time: 12h (until now unset)", "record jobs.memory: 8GiB (until now unset)")
    assert preview_changes(world.driver, limited, world.host, reporter=world.reporter) == lines
    assert world.up(spec=limited).changed == lines
    assert world.up(spec=limited).unchanged
    state = observe_cluster(world.driver, "lab")
    assert state.spec is not None
    assert state.spec.jobs == limited.jobs
    assert world.up(spec=changed(limited, jobs=JobsSpec(time="6h", memory="8GiB"))).changed == (
        "record jobs.time: 6h (until now 12h)",
    )


def test_only_what_nodes_notice_is_verified(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.begin_with(2)
    verify = Mock(return_value=None)
    monkeypatch.setattr("gpuprov.lifecycle.cluster_up.verify_cluster", verify)
    limited = changed(world.spec(2), jobs=JobsSpec(time="12h"))
    order = UpOrder(spec=limited, verify=True)
    assert cluster_up(world.driver, order, world.host, reporter=world.reporter).changed
    verify.assert_not_called()
    more = replace(order, spec=changed(world.spec(3), jobs=JobsSpec(time="6h")))
    cluster_up(world.driver, more, world.host, reporter=world.reporter)
    verify.assert_called_once()


def test_nodes_that_the_engine_cannot_make_are_refused_by_the_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings(request: NodeRequest) -> NoReturn:
        assert request.privileged
        raise NotCapable("docker does not support privileged nodes", evidence="supported: jobs", fix="use --engine lxd")

    monkeypatch.setattr(type(world.driver), "settings", lambda _driver, request: settings(request))
    order = UpOrder(spec=ClusterSpec(nodes=NodesSpec(count=1, privileged=True), gpus=GpuSpec(mode="simulated")))
    with pytest.raises(NotCapable):
        preview_up(world.driver, order, world.host, reporter=world.reporter)
    with pytest.raises(NotCapable):
        cluster_up(world.driver, order, world.host, reporter=world.reporter)
    assert not world.engine.networks, "nothing was made that would have to be undone"


def test_from_nothing(world: World) -> None:
    outcome = world.up(3)
    assert world.names == ["c000", "c001", "c002"]
    assert sorted(world.engine.networks) == ["gpbr0", "gpbr1"]
    assert world.engine.networks["gpbr0"].address == "10.0.3.1/24"
    for number, name in enumerate(world.names):
        node = world.engine.nodes[name].state()
        assert node.status == "running"
        assert node.complete
        assert dict(node.addresses) == {"eth0": f"10.0.3.{number + 2}/24", "eth1": f"10.0.5.{number + 1}/24"}
        assert not node.privileged
        assert len(node.devices) >= 1
        assert len(node.labels[LABEL_GPUS].split(",")) == 1
    assert len(outcome.changed) == 5
    munge = {world.engine.nodes[name].files["/etc/munge/munge.key"] for name in world.names}
    (key,) = munge
    assert len(key.content) >= 32
    assert (key.mode, key.uid, key.gid) == (0o400, 101, 102)
    assert ["/etc/slurm/controller" in world.engine.nodes[name].files for name in world.names] == [True, False, False]


def test_again_changes_nothing(world: World) -> None:
    world.up(3)
    before = world.engine.dump()
    world.engine.faults.clear()
    outcome = world.up(3)
    assert outcome.unchanged
    assert world.steps() == []
    assert world.engine.dump() == before
    assert preview_changes(world.driver, world.spec(3), world.host, reporter=world.reporter) == ()


def test_a_plan_says_what_up_does_and_changes_nothing(world: World) -> None:
    before = world.engine.dump()
    world.engine.faults.clear()
    planned = preview_changes(world.driver, world.spec(2), world.host, reporter=world.reporter)
    assert world.steps() == []
    assert world.engine.dump() == before
    assert world.up(2).changed == planned


def test_growing_leaves_running_nodes_running(world: World) -> None:
    world.up(2)
    world.engine.faults.clear()
    planned = preview_changes(world.driver, world.spec(4), world.host, reporter=world.reporter)
    outcome = world.up(4)
    assert outcome.changed == planned
    assert world.names == ["c000", "c001", "c002", "c003"]
    touched = {step for step, name in world.steps() if name in ("c000", "c001")}
    assert touched == {"push", "push:done"}
    assert ("c000", "slurmctld") in world.slurm.restarted
    assert world.slurm.settled == [("c000", "slurmctld")], "no job is starting when the controller restarts"
    assert "NodeName=c003" in world.file("c000", "/etc/slurm/slurm.conf")
    assert len({world.engine.nodes[name].files["/etc/munge/munge.key"].content for name in world.names}) == 1
    assert world.up(4).unchanged


def test_shrinking_takes_the_last_and_tells_slurm(world: World) -> None:
    world.up(4)
    world.engine.faults.clear()
    outcome = world.up(2)
    assert world.names == ["c000", "c001"]
    assert outcome.changed[:2] == ("remove node c002", "remove node c003")
    assert "c002" not in world.file("c001", "/etc/slurm/slurm.conf")
    assert "c002" not in world.file("c001", "/etc/hosts")
    assert not [step for step in world.steps() if step[0].startswith(("start", "stop"))]
    assert world.up(2).unchanged


def test_a_running_job_keeps_its_node(world: World) -> None:
    world.up(4)
    world.slurm.jobs["c003"] = "17"
    before = world.engine.dump()
    with pytest.raises(UsageError) as caught:
        world.up(2)
    assert "17" in caught.value.evidence
    assert "--drain" in caught.value.fix
    assert "--force" in caught.value.fix
    assert world.engine.dump() == before
    world.slurm.jobs = {"c000": "18"}
    world.up(2)
    assert world.names == ["c000", "c001"]


def test_a_changed_device_is_repaired_in_place(world: World) -> None:
    world.up(3)
    before = world.engine.dump()
    world.engine.nodes["c001"].devices = ()
    world.engine.faults.clear()
    outcome = world.up(3)
    assert [line.partition(":")[0] for line in outcome.changed] == ["repair node c001"]
    assert outcome.changed[0].endswith(": devices /dev/nvidia1, /dev/nvidiactl (until now none)")
    assert world.engine.dump() == before
    assert {name for _, name in world.steps()} == {"c001"}
    assert not [step for step in world.steps() if step[0].startswith(("start", "stop", "create", "delete"))]


def test_a_stopped_node_is_started_with_fresh_files(world: World) -> None:
    world.up(3)
    world.driver.stop_node("c002")
    outcome = world.up(4)
    assert "start node c002" in outcome.changed
    assert world.engine.nodes["c002"].status == "running"
    assert "c003" in world.file("c002", "/etc/hosts")


def test_a_half_made_node_is_made_again(world: World) -> None:
    world.up(3)
    del world.engine.nodes["c001"].labels[LABEL_FINGERPRINT]
    world.engine.nodes["c001"].files.clear()
    outcome = world.up(3)
    assert outcome.changed[0] == "remove node c001"
    assert outcome.changed[1].startswith("create node c001 10.0.3.3")
    assert world.engine.nodes["c001"].state().complete
    assert world.up(3).unchanged


def test_nodes_of_create_node_stay_when_the_cluster_shrinks(world: World) -> None:
    world.up(3)
    world.create("web", role="plain")
    world.create("c003", role="plain")
    world.create("c007")
    outcome = world.up(1)
    assert [line for line in outcome.changed if line.startswith("remove")] == ["remove node c001", "remove node c002"]
    assert world.names == ["c000", "c003", "c007", "web"]
    assert "note keep node c007 (from create-node); --prune removes it" in world.reporter.lines
    assert world.up(1).unchanged


def test_nodes_of_create_node_go_when_that_is_asked_for(world: World) -> None:
    world.up(2)
    for name in ("web", "c003"):
        world.create(name, role="plain")
    spec = world.spec(2)
    preview = preview_up(world.driver, UpOrder(spec=spec), world.host, reporter=world.reporter)
    assert preview.changes == ()
    assert preview.beside == tuple(
        f"keep node {name} (from create-node); --prune removes it" for name in ("c003", "web")
    )
    order = UpOrder(spec=spec, prune=True)
    preview = preview_up(world.driver, order, world.host, reporter=world.reporter)
    assert preview.beside == ()
    assert preview.changes[:2] == ("remove node c003", "remove node web")
    world.slurm.jobs["c001"] = "7"  # which is none of those that go
    assert cluster_up(world.driver, order, world.host, reporter=world.reporter).changed == preview.changes
    assert world.names == ["c000", "c001"]


def test_a_node_whose_order_is_damaged_is_still_one_from_create_node(world: World) -> None:
    world.up(1)
    world.create("c004", role="plain", gpus="2")
    world.engine.nodes["c004"].labels[LABEL_ORDER] = "{"
    held = world.engine.nodes["c004"].labels[LABEL_GPUS]
    world.up(1)
    assert world.names == ["c000", "c004"]
    assert world.engine.nodes["c004"].labels[LABEL_GPUS] == held


def test_a_node_of_the_spec_with_damaged_labels_gets_what_the_spec_says(world: World) -> None:
    world.up(2)
    before = dict(world.engine.nodes["c001"].labels)
    world.engine.nodes["c001"].labels |= {LABEL_ORDER: "{", LABEL_GPUS: ",,", LABEL_SHARING: "x", LABEL_ADDRESS: "999"}
    world.up(2)
    assert {**world.engine.nodes["c001"].labels, LABEL_ORDER: ""} == {**before, LABEL_ORDER: ""}
    assert world.up(2).unchanged


def test_down_leaves_images_and_foreign_things_only(world: World) -> None:
    world.engine.add_foreign_node("other")
    world.engine.add_foreign_node("gpuprov-build")  # the builder's name, and not ours
    world.engine.add_foreign_network("br7", address="10.9.0.1/24")
    before = world.engine.dump()
    world.up(3)
    outcome = world.down()
    assert world.engine.dump() == before
    assert "removed the ssh keys" in outcome.changed
    assert world.down().unchanged


def foreign_name(world: World) -> ClusterSpec:
    world.engine.add_foreign_node("c002", status="running")
    return world.spec(3)


def foreign_network(world: World) -> ClusterSpec:
    world.engine.add_foreign_network("gpbr1")
    return world.spec(3)


def name_of_another_cluster(world: World) -> ClusterSpec:
    world.engine.add_foreign_node("c002")
    world.engine.nodes["c002"].labels = {LABEL_CLUSTER: "other", LABEL_FINGERPRINT: "f"}
    return world.spec(3)


def network_of_another_cluster(world: World) -> ClusterSpec:
    labels = {LABEL_CLUSTER: "other"}
    world.engine.networks["gpbr0"] = NetworkState(name="gpbr0", managed=True, address="10.0.3.1/24", labels=labels)
    return world.spec(3)


def address_of_a_foreign_instance(world: World) -> ClusterSpec:
    world.up(3)
    node = world.engine.nodes.pop("c002")
    world.engine.nodes["foreign"] = replace(node, name="foreign", labels={})
    return world.spec(3)


def another_subnet_than_before(world: World) -> ClusterSpec:
    world.up(1)
    return world.spec(1, network=NetworkSpec(subnet="10.1.3.0/24"))


def subnet_of_the_host(world: World) -> ClusterSpec:
    world.host.network.append(Link(interface="lxcbr0", network=IPv4Network("10.0.3.0/24")))
    return world.spec(3)


def private_subnet_of_the_host(world: World) -> ClusterSpec:
    world.host.network.append(Link(interface="tun0", network=IPv4Network("10.0.5.128/25")))
    return world.spec(3)


def no_room(world: World) -> ClusterSpec:
    world.engine.free_bytes = 1 << 20
    return world.spec(3)


REFUSED: list[tuple[type[GpuprovError], int, Callable[[World], ClusterSpec]]] = [
    (NotOurs, 4, foreign_name),
    (NotOurs, 4, foreign_network),
    (UsageError, 2, name_of_another_cluster),
    (UsageError, 2, network_of_another_cluster),
    (UsageError, 2, address_of_a_foreign_instance),
    (UsageError, 2, another_subnet_than_before),
    (UsageError, 2, subnet_of_the_host),
    (UsageError, 2, private_subnet_of_the_host),
    (HostNotReady, 3, no_room),
    (GpusTaken, 2, lambda world: world.spec(5, sharing="exclusive")),
    (UsageError, 2, lambda world: world.spec(1, per_node=5)),
    (SpecError, 2, lambda world: world.spec(0)),
    (SpecError, 2, lambda world: world.spec(300)),
]


@pytest.mark.parametrize(("kind", "exit_code", "ask"), REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_changed(
    world: World, kind: type[GpuprovError], exit_code: int, ask: Callable[[World], ClusterSpec]
) -> None:
    spec = ask(world)
    before = world.engine.dump()
    world.engine.faults.clear()
    with pytest.raises(kind) as caught:
        world.up(spec=spec)
    assert type(caught.value) is kind
    assert caught.value.exit_code == exit_code
    assert caught.value.what
    assert caught.value.evidence
    assert caught.value.fix
    assert world.engine.dump() == before
    assert world.steps() == []
    with pytest.raises(kind):
        preview_changes(world.driver, spec, world.host, reporter=world.reporter)


def test_exclusive_leases_are_each_node_s_own(world: World) -> None:
    world.up(spec=world.spec(4, sharing="exclusive"))
    held = [node.labels[LABEL_GPUS] for node in world.engine.nodes.values()]
    assert len(set(held)) == 4
    assert len({node.devices for node in world.engine.nodes.values()}) == 4


def test_shared_leases_are_spread(world: World) -> None:
    world.up(8)
    held = [node.labels[LABEL_GPUS] for node in world.engine.nodes.values()]
    assert sorted(held.count(uuid) for uuid in set(held)) == [2, 2, 2, 2]


@pytest.mark.parametrize("step", ["create_node:made", "create_node:done", "start_node"])
def test_a_failure_takes_back_exactly_what_this_run_made(world: World, step: str) -> None:
    before = world.engine.dump()
    world.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), step, subject="c001")
    with pytest.raises(EngineError, match="broke"):
        world.up(3)
    assert world.engine.dump() == before


def test_a_failure_while_growing_leaves_what_was_there(world: World) -> None:
    world.up(2)
    before = world.engine.dump()
    world.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), "start_node", subject="c003")
    with pytest.raises(EngineError, match="broke"):
        world.up(4)
    assert world.engine.dump() == before
    assert world.up(2).unchanged


def test_a_node_that_never_gets_ready_is_a_timeout_and_the_next_run_repairs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up(2)
    world.slurm.silent.add("c002")
    monkeypatch.setattr(slurm, "_READY_BUDGET_S", 0.05)
    with pytest.raises(TimedOut) as caught:
        world.up(3)
    assert "'c002': 'down*'" in caught.value.evidence
    assert world.names == ["c000", "c001"]
    world.slurm.silent.clear()
    world.up(2)
    assert "c002" not in world.file("c000", "/etc/slurm/slurm.conf")
    assert world.up(2).unchanged


def test_siblings_end_before_anything_is_taken_back(world: World) -> None:
    begun, failed = threading.Event(), threading.Event()

    def fail() -> None:
        assert begun.wait(5)
        failed.set()
        raise EngineError("broke", evidence="e", fix="f")

    def hold() -> None:
        begun.set()
        failed.wait(5)

    world.engine.faults.at("create_node", subject="c000", act=fail)
    world.engine.faults.at("start_node", subject="c001", act=hold)
    with pytest.raises(EngineError, match="broke"):
        world.up(2)
    steps = world.engine.faults.passed
    assert steps.index(("start_node:done", "c001")) < steps.index(("delete_node", "c001"))
    assert world.names == []


def test_what_cannot_be_taken_back_is_said(world: World) -> None:
    world.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), "start_node", subject="c001")
    world.engine.faults.raise_at(EngineError("stuck", evidence="e", fix="f"), "delete_node", subject="c000")
    with pytest.raises(EngineError, match="broke"):
        world.up(2)
    assert [line for line in world.reporter.lines if line.startswith("warn could not undo node c000: stuck")]
    assert world.names == ["c000"]


def test_an_interrupt_while_the_nodes_are_verified_says_that_they_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuprov.lifecycle.cluster_up.verify_cluster", interrupted)
    order = UpOrder(spec=world.spec(1), verify=True)
    with pytest.raises(KeyboardInterrupt):
        cluster_up(world.driver, order, world.host, reporter=world.reporter)
    assert "warn the nodes are up and stay, but are not verified: gpuprov verify" in world.reporter.lines
    assert world.names == ["c000"]


@pytest.mark.parametrize("typed", ["up", "down"])
def test_a_second_interrupt_says_what_is_left_and_what_to_type_which_helps(world: World, typed: str) -> None:
    world.engine.faults.raise_at(KeyboardInterrupt(), "start_node", subject="c001")
    world.engine.faults.raise_at(KeyboardInterrupt(), "delete_node", subject="c000")
    with pytest.raises(KeyboardInterrupt):
        world.up(2)
    (said,) = [line for line in world.reporter.lines if line.startswith("warn interrupted")]
    assert "not undone: node c000, " in said
    assert said.endswith("run the same command again; to remove the whole cluster: gpuprov cluster down lab")
    world.engine.faults.clear()
    if typed == "up":
        world.up(2)
        assert world.names == ["c000", "c001"]
        assert world.up(2).unchanged
    else:
        world.down()
        assert (world.names, list(world.engine.networks)) == ([], [])


def test_keep_on_failure_keeps(world: World) -> None:
    world.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), "start_node", subject="c001")
    with pytest.raises(EngineError, match="broke"):
        world.up(2, keep=True)
    assert world.names == ["c000", "c001"]
    assert sorted(world.engine.networks) == ["gpbr0", "gpbr1"]
    assert "note kept node c001" in world.reporter.lines
    world.up(2)
    assert world.up(2).unchanged


EVERY = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])


def steps_of_an_untroubled_run(world: World) -> int:
    world.engine.faults.clear()
    world.up(3)
    count = len(world.engine.faults.passed)
    world.empty()
    return count


@pytest.mark.slow
@EVERY
def test_a_run_that_is_killed_anywhere_is_repaired_by_the_next(world: World, every: int) -> None:
    count = steps_of_an_untroubled_run(world)
    for step in range(1, count + 1, every):
        world.engine.faults.raise_at(Killed(), nth=step)
        with pytest.raises(Killed):
            world.up(3)
        world.engine.faults.clear()
        world.up(3)
        assert world.names == ["c000", "c001", "c002"]
        assert all(node.state().complete and node.status == "running" for node in world.engine.nodes.values())
        assert LABEL_SPEC in world.engine.networks["gpbr0"].labels
        assert len({node.files["/etc/munge/munge.key"].content for node in world.engine.nodes.values()}) == 1
        assert world.up(3).unchanged
        world.empty()
    assert count > 20


@pytest.mark.sampled(2)
@pytest.mark.slow  # the quick one is test_killed_at_some_steps
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_a_change_that_is_killed_anywhere_is_repaired_by_the_next_run(
    world: World, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "_READY_BUDGET_S", 0.5)
    world.up(before)
    world.engine.faults.clear()
    world.up(after)
    count = len(world.engine.faults.passed)
    for step in range(1, count + 1):
        world.empty()
        world.engine.faults.clear()
        world.up(before)
        world.engine.faults.clear()
        world.engine.faults.raise_at(Killed(), nth=step)
        with pytest.raises(Killed):
            world.up(after)
        killed_at = world.engine.faults.passed[-1]
        world.engine.faults.clear()
        try:
            world.up(after)
        except TimedOut as error:
            pytest.fail(f"killed at {killed_at}: {error}")
        assert len(world.names) == after
        assert len({world.slurm.read[name] for name in world.names}) == 1, killed_at
        assert world.up(after).unchanged


@pytest.mark.slow
@EVERY
def test_an_engine_that_dies_anywhere_is_an_error_and_the_next_run_repairs(world: World, every: int) -> None:
    count = steps_of_an_untroubled_run(world)
    for step in range(1, count + 1, every):
        world.engine.faults.raise_at(EngineError("gone", evidence="e", fix="f"), nth=step, lasting=True)
        with pytest.raises(EngineError, match="gone"):
            world.up(3)
        world.engine.faults.clear()
        world.up(3)
        assert world.names == ["c000", "c001", "c002"]
        assert world.up(3).unchanged
        world.empty()


def test_the_spec_is_recorded(world: World) -> None:
    spec = world.spec(2, nodes=NodesSpec(count=2, cpus=2, memory_gib=3))
    world.up(spec=spec)
    assert observe_cluster(world.driver, "lab").spec == spec
    assert "CPUs=2 RealMemory=2918" in world.file("c000", "/etc/slurm/slurm.conf")
    assert world.engine.nodes["c000"].memory_bytes == 3 << 30


def test_what_was_found_is_shown_unless_a_killed_run_had_not_recorded_the_spec(world: World) -> None:
    world.up(2)
    found = world.up(2)
    assert found.as_it_was
    assert (found.as_it_was.name, found.words) == ("lab", {"c000": "idle", "c001": "idle"})
    for name, network in world.engine.networks.items():
        labels = {key: value for key, value in network.labels.items() if key != LABEL_SPEC}
        world.engine.networks[name] = changed(network, labels=labels)
    again = world.up(2)
    assert (again.unchanged, again.as_it_was) == (True, None)


def test_the_roles_are_not_asked_again_for_the_nodes_that_are_shown(world: World) -> None:
    result = world.up(2)
    world.engine.faults.raise_at(AssertionError("a node is asked"), step="run")
    rows = result.rows(world.driver, "lab")
    assert [(row.name, row.work, row.health) for row in rows] == [("c000", "idle", "ok"), ("c001", "idle", "ok")]


@pytest.mark.parametrize("network", ["nat", "private"])
@pytest.mark.parametrize("name", ["web", "c002"])
def test_a_node_on_one_network_stays_as_it_is(world: World, name: str, network: str) -> None:
    world.up(2)
    world.create(name, role="plain", network=network)
    before = world.engine.nodes[name].attachments
    world.up(3 if name == "c002" else 2)
    assert world.engine.nodes[name].attachments == before


def test_an_address_that_a_node_of_another_name_took_is_refused(world: World) -> None:
    world.up(1)
    world.create("web", role="plain", address="10.0.3.3")
    before = world.engine.dump()
    with pytest.raises(UsageError, match=r"10\.0\.3\.3 of c001 is in use"):
        world.up(2)
    assert world.engine.dump() == before


def test_each_node_has_the_munge_key_as_its_own_image_wants_it(world: World) -> None:
    """An image of a later build may have another user of that name; nodes from before stay as they are."""
    key = "/etc/munge/munge.key"
    world.up(2)
    before = {name: node.files[key] for name, node in world.engine.nodes.items()}
    image = world.engine.images["slurm"]
    world.engine.images["slurm"] = replace(image, labels={**image.labels, LABEL_MUNGE_OWNER: "105:106"})
    world.up(3)
    after = {name: world.engine.nodes[name].files[key] for name in world.names}
    assert {name: after[name] for name in before} == before
    assert (after["c002"].uid, after["c002"].gid) == (105, 106)
    assert {file.content for file in after.values()} == {before["c000"].content}


def test_an_order_of_before_is_written_anew_by_the_next_change_and_by_nothing_else(world: World) -> None:
    world.up(1)
    world.create("web", role="plain", gpus="1", model="h100")
    labels = world.engine.nodes["web"].labels
    now = labels[LABEL_ORDER]
    before = (
        '{"cluster":"lab","gpus":"1","memory_bytes":null,"model":"h100","name":"web","role":"plain","sharing":null}'
    )
    labels[LABEL_ORDER] = before
    world.engine.faults.clear()
    assert world.up(1).unchanged
    assert (labels[LABEL_ORDER], world.steps()) == (before, [])
    world.up(2)
    assert world.engine.nodes["web"].labels[LABEL_ORDER] == now
    assert [step for step, subject in world.steps() if subject == "web" and step.startswith("set")] == [
        "set_labels",
        "set_labels:done",
    ]
