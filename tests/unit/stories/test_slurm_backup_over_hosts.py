"""A backup for Slurm's controller on another host, whose host answers where the controller's does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.fleet.agree import HostsUpOrder
from gpuprov.fleet.controller import asked_of
from gpuprov.fleet.find_hosted import find_spanning
from gpuprov.fleet.found_nodes import locate_nodes
from gpuprov.fleet.hosted_cluster import controller_of, host_of_controller
from gpuprov.fleet.hosts_down import down_over_hosts
from gpuprov.fleet.hosts_up import up_over_hosts
from gpuprov.fleet.lost_service import tell_lost_service
from gpuprov.fleet.nodes_work import change_nodes_there
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.machine.folders import FolderLook
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, HostSpec, NodesSpec, PlacementSpec, SlurmSpec
from gpuprov.shapes.orders import NodesOrder
from gpuprov.spec.draft import CHOOSABLE, Draft
from gpuprov.spec.shared_folder import ACCOUNT_UID, KEPT
from tests.fakes.hosts_in_worlds import HostsInWorlds, keep_keys_below
from tests.fakes.slurm import FakeJob

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.fleet.done import BroughtUp, Done
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.shapes.orders import Act
    from tests.conftest import Recording

pytestmark = pytest.mark.slow

NAMES = ("hoff", "hinton")
SHARE, STATE = "/data/lab", "/data/lab.slurm"
SLURM_UID = 64030


class Lab:
    """A machine that knows two hosts with the folders of one file server; c000 and c001 are on the first of them."""

    def __init__(self, hosts: HostsInWorlds, reporter: Recording) -> None:
        self.hosts, self.reporter = hosts, reporter
        marks = hosts.worlds["hoff"].host.folders.marks
        for world in hosts.worlds.values():
            world.host.folders.marks = marks
        self.mount(SHARE, ACCOUNT_UID)
        self.mount(STATE, SLURM_UID)

    def mount(self, path: str, owner: int, *, empty: bool = True) -> None:
        look = FolderLook(kind="folder", at=path, owner=owner, empty=empty, filesystem="nfs4 nas:/lab")
        for world in self.hosts.worlds.values():
            world.host.folders.there[path] = look

    def up(self, backup: str = "c002", **more: Any) -> BroughtUp:
        spec = ClusterSpec(
            nodes=NodesSpec(count=4),
            gpus=GpuSpec(mode="simulated"),
            hosts=tuple(HostSpec(name=name, internal_ip=f"192.0.2.{n}") for n, name in enumerate(NAMES, 11)),
            placement=PlacementSpec(strategy="spread"),
            share=SHARE,
            slurm=SlurmSpec(backup=backup),
        )
        draft = Draft(spec=changed(spec, **more), left=CHOOSABLE - {"share"}, engine_open=True)
        order = HostsUpOrder(draft=draft, known=self.hosts.machines, policy=SPARE_JOBS)
        return up_over_hosts(order, self.hosts, reporter=self.reporter)

    def find(self) -> SpanningCluster:
        found = find_spanning("lab", self.hosts.machines, self.hosts)
        assert found is not None
        return found

    def change(self, verb: Act, *names: str) -> Done:
        found = locate_nodes(names, self.hosts.machines, self.hosts)
        return change_nodes_there(found, NodesOrder(act=verb, nodes=names), self.hosts, reporter=self.reporter)

    def kept(self) -> list[str]:
        nodes = {name: node for world in self.hosts.worlds.values() for name, node in world.engine.nodes.items()}
        return sorted(name for name, node in nodes.items() if any(mount.target == KEPT for mount in node.mounts))

    def lose(self, host: str) -> None:
        self.hosts.away.add(host)
        for node in self.hosts.worlds[host].engine.nodes.values():
            node.status = "stopped"
        self.hosts.asked.clear()


@pytest.fixture
def lab(tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Lab:
    keep_keys_below(tmp_path / "data", monkeypatch)
    return Lab(HostsInWorlds(tmp_path, recording, NAMES), recording)


def test_the_two_nodes_have_one_folder_that_was_proven(lab: Lab) -> None:
    assert lab.up().error is None
    assert lab.kept() == ["c000", "c002"]
    assert lab.hosts.worlds["hoff"].host.folders.marks == {}, "no mark is left"
    assert lab.up().outcome.changed == ()
    assert (controller_of(lab.find()), host_of_controller(lab.find())) == ("c000", "hoff")


def test_another_folder_on_one_host_is_refused(lab: Lab) -> None:
    lab.hosts.worlds["hinton"].host.folders.marks = {}
    with pytest.raises(UsageError, match="is not the same folder on all hosts"):
        lab.up()
    lab.hosts.worlds["hinton"].host.folders.marks = lab.hosts.worlds["hoff"].host.folders.marks
    del lab.hosts.worlds["hinton"].host.folders.there[STATE]
    with pytest.raises(UsageError, match=f"cannot share the folder {STATE}: not every host has it"):
        lab.up()
    assert lab.kept() == []


def test_what_an_earlier_cluster_left_is_not_taken_over(lab: Lab) -> None:
    lab.mount(STATE, SLURM_UID, empty=False)
    with pytest.raises(UsageError, match="is not empty, and cluster lab is new"):
        lab.up()
    lab.mount(STATE, SLURM_UID)
    lab.up()
    lab.mount(STATE, SLURM_UID, empty=False)
    assert lab.up().outcome.changed == ()


def test_a_backup_on_the_controllers_host_is_refused(lab: Lab) -> None:
    with pytest.raises(UsageError, match="c001 cannot be the backup of Slurm's controller c000") as caught:
        lab.up("c001")
    assert "slurm.backup: c002, which is on hinton" in caught.value.fix
    assert lab.kept() == []


def test_without_the_controllers_host_the_backups_host_is_asked(lab: Lab) -> None:
    lab.up()
    lab.lose("hoff")
    seen = lab.find()
    assert (controller_of(seen), host_of_controller(seen)) == ("c002", "hinton")
    assert {row.name: row.work for row in seen.rows}["c003"] == "idle"
    assert getattr(asked_of(seen, lab.hosts), "host", "") == "hinton"
    slurm = lab.hosts.worlds["hinton"].slurm
    slurm.jobs["c003"] = "17"
    lab.hosts.asked.clear()
    slurm.asked.clear()
    with pytest.raises(UsageError, match="there are jobs on c003"):
        raise next(iter(lab.change("stop", "c003").failed.values()))
    assert set(slurm.asked) == {"c002"}
    slurm.jobs.clear()
    assert lab.change("stop", "c003").failed == {}
    result = lab.up()
    assert set(result.failed) == {"hoff"}
    assert {row.name: row.work for row in result.rows}["c003"] == "idle"


def test_nodes_of_a_lost_host_are_marked_through_the_backup(lab: Lab) -> None:
    lab.up()
    lab.lose("hoff")
    result = lab.up()
    assert any(line.startswith("hinton: mark c000 down: host hoff is unreachable") for line in result.outcome.changed)
    lab.hosts.away.clear()
    for node in lab.hosts.worlds["hoff"].engine.nodes.values():
        node.status = "running"
    assert lab.up().error is None


def test_it_is_said_which_node_has_the_place_of_a_lost_controller(lab: Lab) -> None:
    lab.up()
    lab.lose("hoff")
    words = "the Slurm service in c000 on hoff does not answer: c002 on hinton takes its place, and new jobs start"
    assert tell_lost_service(lab.find()) == words
    for result in (lab.up(), lab.up(), lab.up(nodes=NodesSpec(count=5))):
        assert result.error is not None
        assert words in result.error.evidence.splitlines()
    lab.hosts.worlds["hinton"].engine.nodes["c002"].status = "stopped"
    assert tell_lost_service(lab.find()).startswith("no node of cluster lab takes new jobs: ")
    result = lab.up()
    assert result.error is not None
    assert words in result.error.evidence.splitlines(), "up has started c002"
    lab.hosts.away = {"hinton"}
    assert tell_lost_service(lab.find()) == "", "the backup is unreachable, and not the controller"


def test_a_stopped_controller_on_a_host_that_answers_is_passed_over(lab: Lab) -> None:
    lab.up()
    lab.hosts.worlds["hoff"].engine.nodes["c000"].status = "stopped"
    assert (controller_of(lab.find()), host_of_controller(lab.find())) == ("c002", "hinton")
    assert lab.change("start", "c000").failed == {}
    assert controller_of(lab.find()) == "c000"


def test_down_asks_who_knows_the_jobs_and_empties_the_folder(lab: Lab) -> None:
    lab.up()
    job = FakeJob(id="17", state="PD")
    for world in lab.hosts.worlds.values():
        world.slurm.queue.append(job)
    with pytest.raises(UsageError, match="there are jobs on"):
        down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS)
    for world in lab.hosts.worlds.values():
        world.slurm.queue.clear()
    lab.mount(STATE, SLURM_UID, empty=False)
    lab.hosts.worlds["hinton"].slurm.asked.clear()
    down = down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS)
    assert f"hoff: removed the state of Slurm's controller from {STATE}" in down.outcome.changed
    assert lab.hosts.worlds["hinton"].slurm.asked == ["c002"], "for its words alone: the queue was gone with hoff"
    assert lab.hosts.worlds["hoff"].host.folders.look(STATE).empty


def test_a_lost_controller_does_not_let_down_end_jobs_unannounced(lab: Lab) -> None:
    lab.up()
    lab.hosts.worlds["hinton"].slurm.queue.append(FakeJob(id="17", state="PD"))
    lab.lose("hoff")
    with pytest.raises(UsageError, match="there are jobs on"):
        down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS)


def test_a_backup_is_not_removed_while_the_spec_names_it(lab: Lab) -> None:
    lab.up()
    with pytest.raises(UsageError, match="c002 has the Slurm service of cluster lab, as the backup"):
        lab.change("rm", "c002")
