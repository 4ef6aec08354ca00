"""A cluster over two machines, from `host add` to `cluster down`, and one of them loses power."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.several_machines import several_machines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place
    from tests.e2e.several_machines import Lab

pytestmark = pytest.mark.long  # four minutes

HOSTS = ("hoff", "hinton")
SPEC = """\
version: gpuprov/v1
name: lab
hosts: [{name: hoff}, {name: hinton}]
nodes: {count: 4}
gpus: {mode: simulated}
unreachable: {after_s: 5}
"""
ALL = ["c000", "c001", "c002", "c003"]
IDLE_S = 180
SEEN_S = 30  # for a machine without power to be known as such
AWAY = 7


@dataclass(frozen=True, kw_only=True)
class Controller:
    """This machine, which knows the others by a configuration of its own, and uses no engine of its own for them."""

    gpuprov: Gpuprov
    lab: Lab
    folder: Path

    @property
    def spec(self) -> str:
        return str(self.folder / "lab.yaml")

    def __call__(self, *argv: str, expect: int = 0) -> Finished:
        return self.gpuprov(*argv, expect=expect, variables={"XDG_CONFIG_HOME": str(self.folder / "config")})

    def nodes(self, *argv: str, expect: int = 0) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self("--json", *argv, expect=expect).document["nodes"]}

    def srun(self, node: str, *argv: str) -> list[str]:
        return sorted(self("exec", node, "--", "srun", *argv).stdout.split())


@pytest.fixture(scope="module")
def controller(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    folder = tmp_path_factory.mktemp("hosts")
    with several_machines(place, folder, HOSTS) as lab:
        made = Controller(gpuprov=gpuprov, lab=lab, folder=folder)
        (folder / "lab.yaml").write_text(SPEC)
        for name in HOSTS:
            address = ("--address", lab.addresses[name], "--user", "root", "--identity-file", str(lab.key))
            made("host", "add", name, *address)
        yield made
    shutil.rmtree(folder)


def test_nodes_of_two_machines_are_one_slurm(controller: Controller) -> None:
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    assert {name: (node["host"], node["slurm"], node["health"]) for name, node in nodes.items()} == {
        "c000": ("hoff", "idle", "ok"),
        "c001": ("hoff", "idle", "ok"),
        "c002": ("hinton", "idle", "ok"),
        "c003": ("hinton", "idle", "ok"),
    }
    for node in ("c000", "c003"):
        assert controller.srun(node, "-N4", "--gres=gpu:1", "hostname") == ALL
    links = controller.srun("c000", "-N4", "cat", "/sys/class/net/eth1/mtu")
    assert links == ["1450"] * 4


def test_a_second_run_changes_nothing(controller: Controller) -> None:
    again = controller("--json", "cluster", "up", "-f", controller.spec).document
    assert (again["changed"], again["unchanged"]) == ([], True)
    assert controller("--json", "cluster", "plan", "-f", controller.spec).document["plan"] == []
    assert controller("--json", "cluster", "up").document["unchanged"], "the hosts tell the spec themselves"


def test_verify_compares_the_machines(controller: Controller) -> None:
    told = controller("--json", "verify").document
    assert [(host["node"], host["verdict"]) for host in told["hosts"]] == [(name, "pass") for name in HOSTS]
    for host in told["hosts"]:
        checks = {check["id"]: check["status"] for check in host["checks"]}
        asked = ("host-answers", "host-version", "host-clock", "overlay-link", "overlay-mtu", "overlay-peers")
        assert [checks[name] for name in asked] == ["pass"] * len(asked)
    reached = {
        node["node"]: check["evidence"]
        for node in told["nodes"]
        for check in node["checks"]
        if check["id"] == "network-private"
    }
    assert reached == dict.fromkeys(ALL, "3 other nodes answer on eth1")
    machine = controller.lab.machines["hinton"]
    device = machine.run("sh", "-c", "ls /sys/class/net | grep gpvx").strip()
    machine.run("ip", "link", "set", device, "mtu", "1400")
    again = controller("--json", "verify", expect=1).document
    (host,) = [host for host in again["hosts"] if host["node"] == "hinton"]
    assert host["first_problem"] == "overlay-mtu"
    controller("cluster", "up")
    assert controller("--json", "verify").document["passed"]


def test_it_grows_and_shrinks(controller: Controller) -> None:
    grown = controller.nodes("cluster", "up", "-n", "6")
    assert {node["slurm"] for node in grown.values()} == {"idle"}
    assert {name: grown[name]["host"] for name in ("c004", "c005")} == {"c004": "hoff", "c005": "hinton"}
    assert sorted(controller.nodes("cluster", "up", "-n", "4")) == ALL


def test_a_machine_without_power_is_unreachable_and_the_other_one_works(controller: Controller) -> None:
    controller.lab.machines["hinton"].lose_power()
    began_s = time.monotonic()
    told = controller("--json", "cluster", "status", expect=AWAY).document
    assert time.monotonic() - began_s < SEEN_S
    assert [host["status"] for host in told["hosts"]] == ["ready", "away"]
    assert "unreachable since" in told["error"]["evidence"]
    status = {node["name"]: node["status"] for node in told["nodes"]}
    assert status == {"c000": "running", "c001": "running", "c002": "unreachable", "c003": "unreachable"}
    assert controller.srun("c000", "-N2", "-w", "c[000-001]", "hostname") == ALL[:2]
    assert "c003" in controller("cluster", "up", expect=AWAY).stdout
    head = controller.lab.machines["hoff"]

    def marked() -> bool:
        controller("cluster", "up", expect=AWAY)
        said = head.run("lxc", "exec", "c000", "--", "sinfo", "-h", "-N", "-o", "%N %T %E").splitlines()
        down = [line.split()[0] for line in said if "gpuprov: host hinton unreachable since" in line]
        return down == ALL[2:]

    head.wait_for(marked, within_s=IDLE_S)


def test_it_is_back_when_it_has_power(controller: Controller) -> None:
    machine = controller.lab.machines["hinton"]
    machine.boot()
    machine.wait_for(lambda: machine.run("sh", "-c", "lxc list -f csv -c s | grep -c RUNNING || true").strip() == "2",
                     within_s=IDLE_S)  # fmt: skip
    states = "sinfo -h -N -o %T | sort -u"  # no command of gpuprov: the machine itself restores its overlay
    head = controller.lab.machines["hoff"]
    head.wait_for(lambda: head.run("lxc", "exec", "c000", "--", "sh", "-c", states).split() == ["idle"],
                  within_s=IDLE_S)  # fmt: skip
    assert controller.srun("c003", "-N4", "hostname") == ALL
    assert controller("--json", "verify").document["passed"]
    assert controller("--json", "cluster", "up").document["unchanged"]


def test_down_removes_all_of_it(controller: Controller) -> None:
    changed = controller("--json", "cluster", "down", "--yes").document["changed"]
    assert {line.partition(":")[0] for line in changed} == set(HOSTS)
    for machine in controller.lab.machines.values():
        assert "RUNNING" not in machine.run("lxc", "list", "-f", "csv")
        assert not machine.run("sh", "-c", "ls /sys/class/net | grep -E 'gpvx|gpbr' || true").strip()
