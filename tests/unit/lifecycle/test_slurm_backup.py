"""A Slurm controller with a backup: its folder, its files, and who is asked where the controller is unreachable."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import UsageError
from gpuprov.core.reporter import Silent
from gpuprov.lifecycle.cluster_up import UpOrder, cluster_up, preview_changes
from gpuprov.lifecycle.find_controller import get_controller
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.rows import state_rows
from gpuprov.lifecycle.start_stop import start_nodes, stop_nodes
from gpuprov.machine.folders import FolderLook
from gpuprov.roles.registry import role_of
from gpuprov.shapes.cluster_spec import SlurmSpec
from gpuprov.spec.shared_folder import KEPT
from tests.fakes.slurm import CONF, MARK, FakeJob

if TYPE_CHECKING:
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import ExecResult
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from tests.fakes.engine import Command
    from tests.fakes.world import World

FOLDER = "/srv/gpuprov/lab.slurm"
WAITING = FakeJob(id="17", state="PD")


def wanted(world: World, backup: str | None = "c001", **spec: Any) -> ClusterSpec:
    return world.spec(3, **{"share": True, "slurm": SlurmSpec(backup=backup), **spec})


def up(world: World, backup: str | None = "c001", **spec: Any) -> Outcome:
    return world.up(spec=wanted(world, backup, **spec))


def having(world: World, path: str) -> list[str]:
    return [name for name, node in sorted(world.engine.nodes.items()) if path in node.files]


def mounting(world: World) -> list[str]:
    nodes = sorted(world.engine.nodes.items())
    return [name for name, node in nodes if FOLDER in [one.source for one in node.mounts if one.target == KEPT]]


def kill(world: World, name: str) -> None:
    world.engine.nodes[name].status = "stopped"
    world.slurm.asked.clear()


def test_two_nodes_have_the_state_and_the_daemon(world: World) -> None:
    result = up(world)
    assert f"create folder {FOLDER} for the state of Slurm's controller" in result.changed
    look = world.host.folders.look(FOLDER)
    assert (look.owner, world.host.folders.modes[FOLDER]) == (64030, 0o700)
    assert mounting(world) == having(world, MARK) == ["c000", "c001"]
    assert having(world, "/etc/slurm/relinquished") == having(world, "/etc/slurm/took-over") == ["c000", "c001"]
    assert world.engine.nodes["c001"].files["/etc/slurm/relinquished"].mode == 0o755
    conf = world.file("c002", CONF)
    assert "SlurmctldHost=c000(10.0.3.2)\n" in conf
    assert "SlurmctldHost=c001(10.0.3.3)\n" in conf
    assert conf.index("SlurmctldHost=c000") < conf.index("SlurmctldHost=c001")
    assert f"StateSaveLocation={KEPT}\n" in conf
    assert preview_changes(world.driver, wanted(world), world.host, reporter=Silent()) == ()
    assert up(world).changed == ()


def test_without_a_backup_all_is_as_before(world: World) -> None:
    up(world, None)
    assert mounting(world) == []
    assert having(world, MARK) == ["c000"]
    assert world.file("c001", CONF).count("SlurmctldHost=") == 1
    assert "StateSaveLocation=/var/lib/slurm/slurmctld\n" in world.file("c001", CONF)
    assert world.host.folders.look(FOLDER).kind == "absent"


def test_the_backup_is_asked_while_the_controller_is_away(world: World) -> None:
    up(world)
    state = observe_cluster(world.driver, "lab")
    assert role_of("slurm").running_controller(state) == "c000"  # type: ignore[attr-defined]
    kill(world, "c000")
    rows = {row.name: row.work for row in state_rows(world.driver, observe_cluster(world.driver, "lab"))}
    assert rows["c002"] == "idle"
    assert get_controller(world.driver, "lab").node == "c001"
    stop_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    assert set(world.slurm.asked) == {"c001"}
    world.slurm.jobs["c001"] = "18"
    with pytest.raises(UsageError, match="there are jobs on c001"):
        stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    world.slurm.jobs.clear()
    kill(world, "c001")
    with pytest.raises(UsageError, match="takes no jobs now: c000 is stopped"):
        get_controller(world.driver, "lab")


@pytest.mark.parametrize(("status", "told"), [("stopped", True), ("frozen", False)])
def test_a_backup_takes_over_at_once_only_where_the_controller_is_stopped_for_certain(
    world: World, status: Literal["stopped", "frozen"], *, told: bool
) -> None:
    up(world)
    kill(world, "c000")
    world.engine.nodes["c000"].status = status
    scripts: list[str] = []
    answer = world.engine.answer

    def hear(command: Command) -> ExecResult:
        scripts.extend(word for word in command.argv if "scontrol takeover" in word)
        return answer(command)

    world.engine.answer = hear
    stop_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    assert bool(scripts) is told


def test_nodes_change_while_the_controller_is_away(world: World) -> None:
    up(world)
    kill(world, "c000")
    world.slurm.restarted.clear()
    world.create("c003")
    assert [one for one in world.slurm.restarted if one[1] == "slurmctld"] == [("c001", "slurmctld")]
    assert "NodeName=c003" in world.file("c001", CONF)
    assert "c000" not in world.slurm.asked
    start_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    assert "NodeName=c003" in world.file("c000", CONF)


def test_both_controllers_read_new_files_and_only_the_usual_one_settles(world: World) -> None:
    up(world)
    world.slurm.restarted.clear()
    world.slurm.settled.clear()
    world.create("c003")
    assert [name for name, service in world.slurm.restarted if service == "slurmctld"] == ["c000", "c001"]
    assert world.slurm.settled == [("c000", "slurmctld")]


def test_the_backup_is_not_removed_as_long_as_the_spec_names_it(world: World) -> None:
    up(world)
    with pytest.raises(UsageError, match="c001 is the backup of c000, the Slurm controller of cluster lab") as caught:
        remove_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert "in the spec" in caught.value.fix
    remove_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    assert world.names == ["c000", "c001"]


def test_another_backup_takes_over_the_folder_and_the_queue(world: World) -> None:
    up(world)
    world.slurm.queue.append(WAITING)
    up(world, "c002")
    assert mounting(world) == having(world, MARK) == ["c000", "c002"]
    assert world.slurm.queue == [WAITING]


@pytest.mark.parametrize(("before", "after"), [("c001", None), (None, "c001")])
def test_the_queue_has_to_be_empty_where_its_place_changes(world: World, before: str | None, after: str | None) -> None:
    up(world, before)
    world.slurm.queue.append(WAITING)
    files = {name: dict(node.files) for name, node in world.engine.nodes.items()}
    with pytest.raises(UsageError, match="there are jobs on c") as caught:
        up(world, after)
    assert "17" in caught.value.evidence
    with pytest.raises(UsageError, match="there are jobs on c"):
        preview_changes(world.driver, wanted(world, after), world.host, reporter=Silent())
    assert {name: node.files for name, node in world.engine.nodes.items()} == files
    order = UpOrder(spec=wanted(world, after), policy=JobsPolicy(force=True))
    cluster_up(world.driver, order, world.host, reporter=world.reporter)
    assert world.slurm.cancelled == [] or "17" in world.slurm.cancelled
    assert any("ending job 17" in line for line in world.reporter.lines)
    assert having(world, MARK) == (["c000", "c001"] if after else ["c000"])
    world.slurm.queue.clear()
    assert up(world, after).changed == ()


def test_the_queue_goes_with_its_cluster_and_the_results_stay(world: World) -> None:
    up(world)
    changed = world.down().changed
    assert f"removed the folder {FOLDER}" in changed
    assert world.host.folders.look(FOLDER).kind == "absent"
    assert world.host.folders.aside == []
    assert world.host.folders.look("/srv/gpuprov/lab").kind == "folder"


def test_down_names_jobs_that_wait(world: World) -> None:
    up(world)
    world.slurm.queue.append(WAITING)
    with pytest.raises(UsageError, match="there are jobs on"):
        world.down()
    kill(world, "c000")
    with pytest.raises(UsageError, match="there are jobs on"):
        world.down()


def test_a_folder_of_yours_is_emptied_and_stays(world: World) -> None:
    for path, owner in (("/data/lab", 59400), ("/data/lab.slurm", 64030)):
        world.host.folders.there[path] = FolderLook(kind="folder", at=path, owner=owner, empty=True)
    up(world, share="/data/lab")
    world.host.folders.there["/data/lab.slurm"] = replace(world.host.folders.look("/data/lab.slurm"), empty=False)
    changed = world.down().changed
    assert "removed the state of Slurm's controller from /data/lab.slurm" in changed
    assert world.host.folders.look("/data/lab.slurm").empty


def test_a_new_cluster_does_not_take_over_the_queue_of_an_old_one(world: World) -> None:
    world.host.folders.add(FOLDER, owner=64030, empty=False)
    with pytest.raises(UsageError, match=f"the folder {FOLDER} cannot be used") as caught:
        up(world)
    assert "an earlier one has left its own there" in caught.value.evidence
    assert world.names == []
    world.host.folders.add(FOLDER, owner=1000, empty=False)
    with pytest.raises(UsageError, match="cannot be shared by nodes") as caught:
        up(world)
    assert "user 64030 is the account slurm of the nodes" in caught.value.evidence


def test_a_controller_that_is_made_again_has_the_queue(world: World) -> None:
    up(world)
    world.host.folders.there[FOLDER] = replace(world.host.folders.look(FOLDER), empty=False)
    policy = JobsPolicy(force=True)
    remove_nodes(world.driver, ["c000"], world.host, reporter=world.reporter, policy=policy)
    world.slurm.queue.append(WAITING)
    up(world)
    assert mounting(world) == ["c000", "c001"]
    assert world.slurm.queue == [WAITING]
