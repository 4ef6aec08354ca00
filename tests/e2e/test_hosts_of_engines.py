"""A cluster over three machines, each with another engine; each of them loses power in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.controller import AWAY, controller_of
from tests.e2e.several_machines import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.controller import Controller
    from tests.e2e.places import Place

pytestmark = pytest.mark.long  # ten minutes

ENGINES = {"hoff": "lxd", "hinton": "docker", "frege": "incus"}
CLIENTS = {"hoff": "lxc", "hinton": "docker", "frege": "incus"}
SPEC = """\
version: gpuprov/v1
name: lab
hosts: [{name: hoff}, {name: hinton, engine: docker}, {name: frege, engine: incus}]
nodes: {count: 6}
gpus: {mode: simulated}
unreachable: {after_s: 5}
"""
# Workers need a folder that all share. Ids are shifted by other amounts in LXD and Incus, and not at all in Docker.
WORKERS = f"""\
version: gpuprov/v1
name: crew
hosts: [{{name: hoff}}, {{name: frege, engine: incus}}]
nodes: {{count: 4, role: worker, privileged: true}}
gpus: {{mode: simulated}}
share: {SHARED}
"""
HOMES = {
    "c000": "hoff",
    "c001": "hoff",
    "c002": "hinton",
    "c003": "hinton",
    "c004": "frege",
    "c005": "frege",
}
ALL = list(HOMES)
BACK_S = 240
REFUSED, NOT_ABLE = 2, 4
FOREIGN = {
    "hoff": ("lxc", "network", "create", "theirs0", "ipv4.address=10.99.1.1/24", "ipv6.address=none"),
    "hinton": ("docker", "network", "create", "theirs"),
    "frege": ("incus", "network", "create", "theirs0", "ipv4.address=10.99.3.1/24", "ipv6.address=none"),
}
PARAMS = """\
param2requests = {"width": [64, 128, 256], "lr": [0.1, 0.01]}
param2default = {"lr": 0.1, "width": 32}
"""
JOB = """\
import os, time

def main(param2val):
    time.sleep(4)
    return {"width": [param2val["width"]]}
"""


@pytest.fixture(scope="module")
def controller(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    hosts = {name: () if engine == "lxd" else ("--engine", engine) for name, engine in ENGINES.items()}
    with controller_of(gpuprov, place, tmp_path_factory.mktemp("engines"), hosts, SPEC) as made:
        for name, argv in FOREIGN.items():
            made.lab.machines[name].run(*argv)
        yield made


def foreign(controller: Controller) -> dict[str, bool]:
    """Where the network is still that stands for somebody else's."""
    listed = {name: controller.lab.machines[name].run(client, "network", "ls") for name, client in CLIENTS.items()}
    return {name: "theirs" in text for name, text in listed.items()}


def test_nodes_of_three_engines_are_one_slurm(controller: Controller) -> None:
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    assert {name: (node["host"], node["engine"]) for name, node in nodes.items()} == {
        name: (host, ENGINES[host]) for name, host in HOMES.items()
    }
    assert {(node["slurm"], node["health"]) for node in nodes.values()} == {("idle", "ok")}
    for node in ("c000", "c002", "c004"):
        assert controller.srun(node, "-N6", "--gres=gpu:1", "hostname") == ALL
    assert controller("--json", "cluster", "up", "-f", controller.spec).document["unchanged"]


def test_verify_proves_all_of_them(controller: Controller) -> None:
    told = controller("--json", "verify").document
    assert told["passed"]
    assert [(host["node"], host["verdict"]) for host in told["hosts"]] == [(name, "pass") for name in ENGINES]
    assert [node["node"] for node in told["nodes"]] == ALL


def test_a_gpu_that_only_one_machine_has_free(controller: Controller) -> None:
    for number, count in enumerate((2, 2), start=10):
        controller("create-node", f"c0{number}", "--gpus", str(count), "--exclusive")
    last = controller("--json", "create-node", "c012", "--gpus", "2", "--exclusive").document["changed"]
    homes = {name: node["host"] for name, node in controller.nodes("cluster", "status").items()}
    assert sorted(homes[name] for name in ("c010", "c011", "c012")) == sorted(ENGINES)
    assert any(line.startswith(f"{homes['c012']}: created node c012") for line in last)
    controller("create-node", "c013", "--gpus", "2", "--exclusive", expect=2)
    controller("rm", "c010", "c011", "c012")


def test_a_file_in_and_out_of_each_node(controller: Controller) -> None:
    (controller.folder / "note").write_text("42")
    for node in ("c001", "c003", "c005"):
        controller("cp", str(controller.folder / "note"), f"{node}:/tmp/")
        controller("cp", f"{node}:/tmp/note", str(controller.folder / node))
        assert (controller.folder / node).read_text() == "42"


def test_what_one_engine_cannot_do_is_refused_before_anything_is_changed(controller: Controller) -> None:
    other = controller.folder / "other.yaml"
    for change, why in (
        ("nodes: {count: 7, privileged: true}", "docker does not support privileged nodes"),
        (f"nodes: {{count: 7}}\nshare: {SHARED}", "is not the same user on all hosts"),
    ):
        other.write_text(SPEC.replace("nodes: {count: 6}", change))
        assert (
            why in controller("cluster", "up", "-f", str(other), expect=REFUSED if "user" in why else NOT_ABLE).stderr
        )
    assert controller("--json", "cluster", "up").document["unchanged"]


@pytest.mark.parametrize("name", ["hinton", "frege", "hoff"])
def test_a_machine_without_power_comes_back_by_itself(controller: Controller, name: str) -> None:
    machine = controller.lab.machines[name]
    machine.lose_power()
    told = controller("--json", "cluster", "status", expect=AWAY).document
    assert {node["name"] for node in told["nodes"] if node["status"] == "unreachable"} == {
        node for node, home in HOMES.items() if home == name
    }
    machine.boot()
    head = controller.lab.machines["hoff"]
    states = ("lxc", "exec", "c000", "--", "sh", "-c", "sinfo -h -N -o %T | sort -u || true")

    def idle() -> bool:
        running = head.run("sh", "-c", "lxc list -f csv -c s c000 | grep -c RUNNING || true").strip() == "1"
        return running and head.run(*states).split() == ["idle"]

    head.wait_for(idle, within_s=BACK_S)  # no command of gpuprov
    assert controller.srun("c000", "-N6", "hostname") == ALL
    assert controller("--json", "verify").document["passed"]
    assert controller("--json", "cluster", "up").document["unchanged"]


def test_down_leaves_what_is_not_its_own(controller: Controller) -> None:
    changed = controller("--json", "cluster", "down", "--yes").document["changed"]
    assert {line.partition(":")[0] for line in changed} == set(ENGINES)
    for machine in controller.lab.machines.values():
        assert not machine.run("sh", "-c", "ls /sys/class/net | grep -E 'gpvx|gpvb|gpbr' || true").strip()
    assert foreign(controller) == dict.fromkeys(ENGINES, True)
    kept = controller.lab.machines["hinton"].run("sh", "-c", "ls /var/lib/gpuprov/bridges || true")
    assert not kept.strip()


def test_workers_of_two_engines_pull_from_one_queue_and_run_a_grid(controller: Controller) -> None:
    (controller.folder / "workers.yaml").write_text(WORKERS)
    nodes = controller.nodes("cluster", "up", "-f", str(controller.folder / "workers.yaml"))
    homes = {name: node["host"] for name, node in nodes.items()}
    assert set(homes.values()) == {"hoff", "frege"}
    project = controller.folder / "project"
    project.mkdir()
    (project / "params.py").write_text(PARAMS)
    (project / "job.py").write_text(JOB)
    told = controller("--json", "grid", "run", str(project), "--cluster", "crew").document
    assert len(told["runs"]) == 6
    rows = controller("--json", "jobs", "wait", told["id"], "--cluster", "crew").document["jobs"]
    assert [row["state"] for row in rows] == ["done"] * 6
    assert {homes[row["node"]] for row in rows} == {"hoff", "frege"}
    controller("grid", "pull", str(project), "--cluster", "crew")
    assert len(list((project / "runs").rglob("done.json"))) == 6
    controller("cluster", "down", "crew", "--yes")
