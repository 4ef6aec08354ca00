"""A folder that the nodes of all hosts share, and clusters of workers over hosts, which need one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.drivers.base import LABEL_SPEC
from gpuprov.fleet.agree import HostsUpOrder
from gpuprov.fleet.find_hosted import find_spanning
from gpuprov.fleet.hosts_down import down_over_hosts
from gpuprov.fleet.hosts_up import look_and_plan_over_hosts, up_over_hosts
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.machine.folders import FolderLook
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, HostSpec, NodesSpec, PlacementSpec, WorkerSpec
from gpuprov.spec.draft import CHOOSABLE, Draft
from gpuprov.spec.serialize import dump_spec
from gpuprov.spec.shared_folder import ACCOUNT_UID, SHARED
from tests.fakes.hosts_in_worlds import HostsInWorlds, keep_keys_below
from tests.fakes.member_orders import serve_given

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuprov.fleet.done import BroughtUp
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from tests.conftest import Recording

pytestmark = pytest.mark.slow

NAMES = ("hoff", "hinton")
FOLDER = "/data/lab"
NAS = "nfs4 nas:/lab"


class Lab:
    """A machine that knows two hosts, both of which have mounted a folder of one file server."""

    def __init__(self, hosts: HostsInWorlds, reporter: Recording) -> None:
        self.hosts, self.reporter = hosts, reporter
        marks = hosts.worlds["hoff"].host.folders.marks
        for name in NAMES:
            self.mount(name)
            hosts.worlds[name].host.folders.marks = marks

    def mount(self, name: str, *, owner: int = ACCOUNT_UID, filesystem: str = NAS) -> None:
        look = FolderLook(kind="folder", at=FOLDER, owner=owner, filesystem=filesystem)
        self.hosts.worlds[name].host.folders.there[FOLDER] = look

    def order(self, count: int = 4, *, role: str = "slurm", left: frozenset[str] = CHOOSABLE, **more: Any) -> Any:
        spec = ClusterSpec(
            nodes=NodesSpec(count=count, role=role),
            gpus=GpuSpec(mode="simulated"),
            hosts=tuple(HostSpec(name=name, internal_ip=f"192.0.2.{n}") for n, name in enumerate(NAMES, 11)),
            placement=PlacementSpec(strategy="spread"),
            share=FOLDER,
        )
        draft = Draft(spec=changed(spec, **more), left=left - {"share"}, engine_open=True)
        return HostsUpOrder(draft=draft, known=self.hosts.machines, policy=SPARE_JOBS)

    def up(self, count: int = 4, **more: Any) -> BroughtUp:
        return up_over_hosts(self.order(count, **more), self.hosts, reporter=self.reporter)

    def find(self) -> SpanningCluster:
        found = find_spanning("lab", self.hosts.machines, self.hosts)
        assert found is not None
        return found

    def mounted(self) -> dict[str, list[str]]:
        return {
            name: [mount.source for mount in node.mounts if mount.target == SHARED]
            for world in self.hosts.worlds.values()
            for name, node in sorted(world.engine.nodes.items())
        }

    def untouched(self) -> bool:
        return not any(world.engine.nodes or world.engine.networks for world in self.hosts.worlds.values())

    def steps_of_marks(self, host: str) -> list[str]:
        return [step for step, _ in self.hosts.worlds[host].engine.faults.passed if "mark" in step]

    @property
    def marks(self) -> dict[tuple[str, str], str]:
        return self.hosts.worlds["hoff"].host.folders.marks


@pytest.fixture
def lab(tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Lab:
    keep_keys_below(tmp_path / "data", monkeypatch)
    return Lab(HostsInWorlds(tmp_path, recording, NAMES), recording)


def test_nodes_of_all_hosts_mount_the_folder_and_no_mark_is_left(lab: Lab) -> None:
    assert look_and_plan_over_hosts(lab.order(), lab.hosts, reporter=lab.reporter).lines
    assert lab.steps_of_marks("hoff") == ["leave_marks", "leave_marks:done"]
    assert lab.steps_of_marks("hinton") == ["remove_mark", "remove_mark:done"]
    assert lab.untouched()
    assert lab.up().error is None
    assert lab.mounted() == {"c000": [FOLDER], "c001": [FOLDER], "c002": [FOLDER], "c003": [FOLDER]}
    assert lab.marks == {}


def test_a_second_run_asks_no_host_for_the_folder_again(lab: Lab) -> None:
    lab.up()
    lab.hosts.asked.clear()
    assert lab.up().outcome.unchanged
    assert lab.hosts.asked == [(host, verb) for verb in ("part", "plan") for host in NAMES]
    recorded = replace(lab.order(), draft=Draft(spec=lab.find().spec or ClusterSpec()))
    assert up_over_hosts(recorded, lab.hosts, reporter=lab.reporter).outcome.unchanged


def verbs(lab: Lab) -> list[str]:
    """What hoff, which leaves the marks, was asked since the last time."""
    found = [verb for host, verb in lab.hosts.asked if host == "hoff"]
    lab.hosts.asked.clear()
    return found


def test_a_folder_is_proven_before_hosts_plan_and_again_before_anything_changes(lab: Lab) -> None:
    lab.up(2)
    assert verbs(lab) == ["part", "share", "plan", "up", "ready"]
    lab.up(4)
    assert verbs(lab) == ["part", "plan", "share", "up", "ready"]
    look_and_plan_over_hosts(lab.order(6), lab.hosts, reporter=lab.reporter)
    assert verbs(lab) == ["part", "plan", "share", "plan"]
    assert lab.marks == {}


def test_another_folder_than_the_recorded_one_is_proven_before_it_is_used(lab: Lab) -> None:
    other = f"{FOLDER}2"
    assert lab.up(2, share=False).error is None
    for name in NAMES:
        folders = lab.hosts.worlds[name].host.folders
        folders.there[other] = replace(folders.there[FOLDER], at=other)
    verbs(lab)
    lab.find()
    look_and_plan_over_hosts(lab.order(2, share=other), lab.hosts, reporter=lab.reporter)
    assert verbs(lab)[:4] == ["part", "part", "share", "plan"]
    assert lab.marks == {}


def test_whoever_only_looks_leaves_no_mark(lab: Lab) -> None:
    lab.up()
    before = lab.steps_of_marks("hoff")
    lab.find()
    assert lab.up().outcome.unchanged
    assert lab.steps_of_marks("hoff") == before


def test_a_folder_of_each_host_alone_is_refused_with_what_each_sees(lab: Lab) -> None:
    lab.hosts.worlds["hinton"].host.folders.marks = {}
    lab.mount("hinton", filesystem="ext4 /dev/sda1")
    with pytest.raises(UsageError, match="is not the same folder on all hosts") as caught:
        lab.up()
    assert f"hoff: a folder of user {ACCOUNT_UID} on {NAS}" in caught.value.evidence
    assert f"hinton: a folder of user {ACCOUNT_UID} on ext4 /dev/sda1" in caught.value.evidence
    assert "not seen on hinton" in caught.value.evidence
    assert "NFS" in caught.value.fix
    assert lab.untouched()
    assert lab.marks == {}


def test_each_host_takes_a_mark_of_its_own(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_keys_below(tmp_path / "data", monkeypatch)
    names = (*NAMES, "hegel")
    lab = Lab(HostsInWorlds(tmp_path, recording, names), recording)
    lab.mount("hegel")
    hegel = lab.hosts.worlds["hegel"].host.folders
    order = lab.order(hosts=tuple(HostSpec(name=name, internal_ip=f"192.0.2.{n}") for n, name in enumerate(names, 11)))
    with pytest.raises(UsageError, match="is not the same folder on all hosts") as caught:
        up_over_hosts(order, lab.hosts, reporter=lab.reporter)
    assert caught.value.evidence.endswith("is not seen on hegel")
    assert (lab.marks, hegel.marks, lab.untouched()) == ({}, {}, True)
    hegel.marks = lab.marks
    assert up_over_hosts(order, lab.hosts, reporter=lab.reporter).error is None
    assert lab.steps_of_marks("hegel") == ["remove_mark", "remove_mark:done"]
    assert lab.marks == {}


def test_a_host_that_takes_no_mark_away_is_refused(lab: Lab) -> None:
    def refuse(path: str, _name: str) -> None:
        raise HostNotReady(f"the folder {path} cannot be written", evidence="Read-only file system", fix="findmnt")

    lab.hosts.worlds["hinton"].host.folders.remove_mark = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(HostNotReady, match="cannot be written") as caught:
        lab.up()
    assert "Read-only file system" in caught.value.evidence
    assert (lab.marks, lab.untouched()) == ({}, True)


def test_a_host_that_is_alone_takes_the_mark_that_it_has_left(lab: Lab) -> None:
    lab.up(2)
    lab.hosts.away = {"hinton"}
    before = len(lab.steps_of_marks("hoff"))
    assert set(lab.up(3).failed) == {"hinton"}
    assert lab.steps_of_marks("hoff")[before:] == ["leave_marks", "leave_marks:done", "remove_mark", "remove_mark:done"]
    assert lab.marks == {}


def test_a_host_on_which_it_is_not_mounted_any_more_is_refused_before_it_grows(lab: Lab) -> None:
    lab.up(2)
    hinton = lab.hosts.worlds["hinton"]
    hinton.host.folders.marks = {}
    lab.mount("hinton", filesystem="ext4 /dev/sda1")
    with pytest.raises(UsageError, match="is not the same folder"):
        lab.up(4)
    assert sorted(hinton.engine.nodes) == ["c001"]
    del hinton.host.folders.there[FOLDER]
    with pytest.raises(UsageError) as refused:
        lab.up(4)
    assert f"{FOLDER} does not exist on hinton" in f"{refused.value.what} {refused.value.evidence}"
    assert FOLDER not in hinton.host.folders.there, "a folder that is made here would be of this host alone"


def test_a_host_without_the_folder_is_named(lab: Lab) -> None:
    del lab.hosts.worlds["hinton"].host.folders.there[FOLDER]
    with pytest.raises(UsageError, match="not every host has it") as caught:
        lab.up()
    assert f"hinton: {FOLDER} does not exist" in caught.value.evidence
    assert lab.untouched()


def test_hosts_with_other_id_maps_are_refused_with_the_numbers(lab: Lab) -> None:
    lab.hosts.worlds["hinton"].engine.first_user = 1_000_000
    with pytest.raises(UsageError, match="account work is not the same user") as caught:
        lab.up()
    assert caught.value.evidence == f"hoff: work is user {ACCOUNT_UID}\nhinton: work is user {1_000_000 + ACCOUNT_UID}"
    assert lab.untouched()
    nodes = NodesSpec(count=4, privileged=True)
    assert lab.up(nodes=nodes).error is None, "there, users are those of the host"


def test_a_folder_into_which_the_account_cannot_write_is_refused(lab: Lab) -> None:
    def refuse(path: str, _texts: Mapping[str, str]) -> None:
        raise HostNotReady(f"the folder {path} cannot be written", evidence="Permission denied", fix="findmnt")

    lab.hosts.worlds["hoff"].host.folders.leave_marks = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(HostNotReady, match="a folder cannot be shared: hoff") as caught:
        lab.up()
    assert "Permission denied" in caught.value.evidence
    assert lab.untouched()


def test_somebody_s_folder_gets_no_mark(lab: Lab) -> None:
    for name in NAMES:
        lab.mount(name, owner=1000)
    with pytest.raises(UsageError, match="hosts refuse their part") as caught:
        lab.up()
    assert "it belongs to user 1000 of the host" in caught.value.evidence
    assert not [step for step, _ in lab.hosts.worlds["hoff"].engine.faults.passed if "mark" in step]


def test_without_a_folder_it_is_said_how_to_have_one(lab: Lab) -> None:
    with pytest.raises(UsageError, match="cannot share a folder of one host") as caught:
        lab.up(share=True)
    assert "--share FOLDER" in caught.value.fix
    order = lab.order(share=False)
    up_over_hosts(replace(order, draft=replace(order.draft, left=CHOOSABLE)), lab.hosts, reporter=lab.reporter)
    assert set(map(tuple, lab.mounted().values())) == {()}
    assert any("share no folder" in line and "--share FOLDER" in line for line in lab.reporter.lines)


def workers(lab: Lab, path: str) -> set[bytes]:
    worlds = lab.hosts.worlds.values()
    return {node.files[path].content for world in worlds for node in world.engine.nodes.values() if path in node.files}


@pytest.mark.parametrize(
    "wrong",
    [
        {"marks": ["0" * 32, "../../etc/passwd"]},
        {"marks": ["0" * 31, "0" * 32]},
        {"marks": []},
        {"act": "make"},
        {"act": "take", "marks": ["0" * 32, "1" * 32]},
        {"act": "take", "marks": []},
    ],
)
def test_what_is_no_mark_is_not_touched(lab: Lab, wrong: dict[str, str | list[str]]) -> None:
    spec = json.loads(dump_spec(changed(ClusterSpec(), share=FOLDER)))
    order = {"cluster": "lab", "spec": spec, "engine": "lxd", "folder": FOLDER, "marks": ["0" * 32], "act": "remove"}
    order["uid"] = 1000
    world = lab.hosts.worlds["hoff"]
    serve_given("share", order, world.host, reporter=lab.reporter)
    world.engine.faults.passed.clear()
    with pytest.raises(UsageError, match="`share` cannot be served"):
        serve_given("share", {**order, **wrong}, world.host, reporter=lab.reporter)
    assert not [step for step, _ in world.engine.faults.passed if "mark" in step]


def test_workers_of_all_hosts_have_one_broker_by_its_private_address(lab: Lab) -> None:
    result = lab.up(role="worker")
    assert result.error is None
    assert [(row.name, row.host, row.work) for row in result.rows] == [
        ("c000", "hoff", "idle"),
        ("c001", "hoff", "idle"),
        ("c002", "hinton", "idle"),
        ("c003", "hinton", "idle"),
    ]
    (url,) = workers(lab, "/etc/gpuwork/broker")
    assert b"@10.0.5.1:5672/" in url
    assert sum("/etc/gpuwork/definitions.json" in node.files for node in lab.hosts.worlds["hoff"].engine.nodes.values())
    lab.hosts.asked.clear()
    again = lab.up(role="worker")
    assert (again.outcome.unchanged, again.error) == (True, None)
    assert {row.work for row in again.rows} == {"idle"}, "the broker's host knows the workers of all"
    assert [verb for _, verb in lab.hosts.asked] == ["part", "part", "plan", "plan"]


def test_clusters_of_workers_grow_and_shrink(lab: Lab) -> None:
    lab.up(2, role="worker")
    assert {row.work for row in lab.up(4, role="worker").rows} == {"idle"}
    assert len(workers(lab, "/etc/gpuwork/broker")) == 1
    assert [row.name for row in lab.up(2, role="worker").rows] == ["c000", "c001"]
    assert lab.up(2, role="worker").outcome.unchanged


def test_workers_of_a_broker_of_the_user_s(lab: Lab) -> None:
    broker = WorkerSpec(broker="amqp://lab:secret@mq.example:5672/lab")
    assert lab.up(role="worker", worker=broker).error is None
    assert workers(lab, "/etc/gpuwork/broker") == {b"amqp://lab:secret@mq.example:5672/lab\n"}
    assert workers(lab, "/etc/gpuwork/definitions.json") == set()
    assert lab.up(role="worker", worker=broker).outcome.unchanged


def test_workers_without_a_folder_are_told_how_to_have_one(lab: Lab) -> None:
    with pytest.raises(UsageError, match="need a folder that all nodes share") as caught:
        lab.up(role="worker", share=False)
    assert "--share FOLDER" in caught.value.fix
    assert lab.untouched()


def test_jobs_on_nodes_of_any_host_keep_the_broker_s_host(lab: Lab) -> None:
    lab.up(role="worker")
    running = {"id": "7", "name": "train", "state": "running", "tries": 1, "node": "c003", "gpus": []}
    told = {"simulated": True, "submitted": "?", "log": "/shared/log"}
    empty = dict.fromkeys(("exit_status", "started", "ended", "reason"))
    lab.hosts.worlds["hoff"].workers.jobs = [{**running, **told, **empty}]
    with pytest.raises(UsageError, match="job"):
        down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS)
    assert lab.hosts.worlds["hinton"].engine.nodes
    lab.hosts.worlds["hoff"].workers.jobs = []
    assert down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS).failed == {}


def test_what_is_recorded_on_every_host_names_the_folder(lab: Lab) -> None:
    lab.up(2)
    for world in lab.hosts.worlds.values():
        labels = [network.labels.get(LABEL_SPEC, "") for network in world.engine.networks.values()]
        assert any(f'"share":"{FOLDER}"' in label.replace(" ", "") for label in labels)
