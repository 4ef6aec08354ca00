"""A cluster over three machines, each with another engine; each of them loses power in turn."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.controller import AWAY, controller_of
from tests.e2e.several_machines import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.controller import Controller
    from tests.e2e.machine import Machine
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
# Somebody else's network, image and instance on each machine.
OF_LXC = """\
{client} network create theirs0 ipv4.address=10.99.{number}.1/24 ipv6.address=none
mkdir -p theirs/rootfs
echo '{{"architecture": "x86_64", "creation_date": 1}}' >theirs/metadata.yaml
tar -cf theirs.tar -C theirs metadata.yaml rootfs
{client} image import theirs.tar --alias theirs
pool=$({client} storage list --format csv | cut -d, -f1 | head -n1)
{client} init theirs --empty --no-profiles --storage "$pool" --network theirs0
"""
FOREIGN = {
    "hoff": OF_LXC.format(client="lxc", number=1),
    "hinton": """\
docker network create theirs
tar -c /etc/hostname | docker import - theirs
docker create --name theirs --network theirs theirs true
""",
    "frege": OF_LXC.format(client="incus", number=3),
}
# And what is gone with the kernel.
FOREIGN_RULES = """\
if command -v iptables; then iptables -A FORWARD -s 192.0.2.0/24 -j ACCEPT; fi
if command -v nft; then
    nft add table inet theirs
    nft add chain inet theirs seen
    nft add rule inet theirs seen ip saddr 192.0.2.0/24 accept
fi
ip link add theirs1 type bridge
"""
SHOW_RULES = """\
if command -v iptables-save >/dev/null; then iptables-save; ip6tables-save; fi
if command -v nft >/dev/null; then nft --stateless list ruleset; fi
"""
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
        for name, script in FOREIGN.items():
            made.lab.machines[name].run("sh", "-ec", script + FOREIGN_RULES)
        yield made


@pytest.fixture(scope="module")
def before(controller: Controller) -> dict[str, dict[str, Any]]:
    """What the machines have before there is a cluster."""
    seen = foreign(controller)
    for found in seen.values():
        assert "192.0.2.0/24" in str(found["rules"])
        assert "theirs" in str(found["links"])
        assert "theirs" in str(found["networks"])
        assert "theirs" in str(found["instances"])
        assert "theirs" in str(found["images"])
    return seen


def foreign(controller: Controller) -> dict[str, dict[str, Any]]:
    """What each machine has that is not gpuprov's: of its engine, and of its rules and links.

    Of Docker's machine only what somebody else made: its daemon makes networks, rules and links of its own, and not all
    of them as before when it starts again.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, client in CLIENTS.items():
        machine = controller.lab.machines[name]
        rules, links = _rules(machine), _links(machine)
        if client == "docker":
            rules = [line for line in rules if "192.0.2.0/24" in line or "theirs" in line]
            links = [line for line in links if "theirs" in line]
        of_engine = _of_docker(machine) if client == "docker" else _of_lxc(machine, client)
        found[name] = {**of_engine, "rules": rules, "links": links}
    return found


def difference(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What is gone, and what is new, on each machine."""
    both = {(name, key): (found, after[name][key]) for name, seen in before.items() for key, found in seen.items()}
    return {
        f"{name}: {key}": {
            "gone": [one for one in first if one not in then],
            "new": [one for one in then if one not in first],
        }
        for (name, key), (first, then) in both.items()
        if first != then
    }


def _rules(machine: Machine) -> list[str]:
    """Of its packet filters, without counters."""
    lines = machine.run("sh", "-c", SHOW_RULES).splitlines()
    return sorted([re.sub(r" \[\d+:\d+\]$", "", line).strip() for line in lines if not line.startswith("#")])


def _links(machine: Machine) -> list[str]:
    return sorted(f"{link['ifname']} {link['mtu']}" for link in json.loads(machine.run("ip", "-json", "link")))


def _of_lxc(machine: Machine, client: str) -> dict[str, Any]:
    """What somebody else has in LXD or Incus, and how it is set."""

    def listed(kind: str, labels: str, *keys: str) -> list[dict[str, Any]]:
        answer = json.loads(machine.run(client, "query", f"/1.0/{kind}?recursion=1"))
        found = [item for item in answer if "gpuprov.version" not in str(item[labels])]
        for item in found:
            item[labels] = {key: value for key, value in item[labels].items() if not key.startswith("volatile.")}
        return sorted(({key: item[key] for key in (*keys, labels)} for item in found), key=str)

    return {
        "networks": listed("networks", "config", "name", "type", "managed"),
        "instances": listed("instances", "config", "name", "devices", "status"),
        "images": listed("images", "properties", "fingerprint", "aliases"),
    }


def _of_docker(machine: Machine) -> dict[str, Any]:
    """The same of Docker, without the networks that it makes itself."""

    def listed(kind: str, ls: str, *keys: str) -> list[dict[str, Any]]:
        answer = json.loads(machine.run("sh", "-c", f"docker {kind} inspect $(docker {kind} {ls})"))
        found = [item for item in answer if "gpuprov.version" not in str(item)]
        found = [item for item in found if item.get("Name") not in ("bridge", "host", "none")]
        return sorted(({key: item[key] for key in keys} for item in found), key=str)

    return {
        "networks": listed("network", "ls -q", "Name", "Driver", "IPAM", "Options", "Labels"),
        "instances": listed("container", "ls -aq", "Name", "Image", "Config", "HostConfig"),
        "images": listed("image", "ls -q", "Id", "RepoTags", "Config"),
    }


def test_nodes_of_three_engines_are_one_slurm(controller: Controller, before: dict[str, dict[str, Any]]) -> None:
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    assert {name: (node["host"], node["engine"]) for name, node in nodes.items()} == {
        name: (host, ENGINES[host]) for name, host in HOMES.items()
    }
    assert {(node["slurm"], node["health"]) for node in nodes.values()} == {("idle", "ok")}
    for node in ("c000", "c002", "c004"):
        assert controller.srun(node, "-N6", "--gres=gpu:1", "hostname") == ALL
    assert controller("--json", "cluster", "up", "-f", controller.spec).document["unchanged"]
    for name, found in foreign(controller).items():
        for key, kept in before[name].items():
            assert [one for one in kept if one not in found[key]] == [], "of others, beside a cluster"


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
    machine.run("sh", "-ec", FOREIGN_RULES)
    head = controller.lab.machines["hoff"]
    states = ("lxc", "exec", "c000", "--", "sh", "-c", "sinfo -h -N -o %T | sort -u || true")

    def idle() -> bool:
        running = head.run("sh", "-c", "lxc list -f csv -c s c000 | grep -c RUNNING || true").strip() == "1"
        return running and head.run(*states).split() == ["idle"]

    head.wait_for(idle, within_s=BACK_S)  # no command of gpuprov
    assert controller.srun("c000", "-N6", "hostname") == ALL
    assert controller("--json", "verify").document["passed"]
    assert controller("--json", "cluster", "up").document["unchanged"]


def test_down_leaves_what_is_not_its_own(controller: Controller, before: dict[str, dict[str, Any]]) -> None:
    changed = controller("--json", "cluster", "down", "--yes", "--force").document["changed"]
    assert {line.partition(":")[0] for line in changed} == set(ENGINES)
    for machine in controller.lab.machines.values():
        assert not machine.run("sh", "-c", "ls /sys/class/net | grep -E 'gpvx|gpvb|gpbr' || true").strip()
    assert difference(before, foreign(controller)) == {}
    kept = controller.lab.machines["hinton"].run("sh", "-c", "ls /var/lib/gpuprov/bridges || true")
    assert not kept.strip()


def test_workers_of_docker_share_no_folder_with_those_of_other_engines(controller: Controller) -> None:
    file = controller.folder / "all.yaml"
    everywhere = "hosts: [{name: hoff}, {name: hinton, engine: docker}, {name: frege, engine: incus}]"
    spec = WORKERS.replace("hosts: [{name: hoff}, {name: frege, engine: incus}]", everywhere)
    file.write_text(spec)
    assert (
        "docker does not support privileged nodes" in controller("cluster", "up", "-f", str(file), expect=NOT_ABLE).all
    )
    file.write_text(spec.replace(", privileged: true", ""))
    said = controller("cluster", "up", "-f", str(file), expect=REFUSED).stderr
    assert "is not the same user on all hosts" in said


def test_workers_of_two_engines_pull_from_one_queue_and_run_a_grid(
    controller: Controller, before: dict[str, dict[str, Any]]
) -> None:
    (controller.folder / "workers.yaml").write_text(WORKERS)
    nodes = controller.nodes("cluster", "up", "-f", str(controller.folder / "workers.yaml"))
    homes = {name: node["host"] for name, node in nodes.items()}
    assert set(homes.values()) == {"hoff", "frege"}
    crew = ("--cluster", "crew")
    job = controller("submit", *crew, "--no-project", "--count", "8", "--", "sleep", "4").stdout.strip()
    rows = controller("--json", "jobs", "wait", job, *crew).document["jobs"]
    assert [row["state"] for row in rows] == ["done"] * 8
    assert {homes[row["node"]] for row in rows} == {"hoff", "frege"}
    project = controller.folder / "project"
    project.mkdir()
    (project / "params.py").write_text(PARAMS)
    (project / "job.py").write_text(JOB)
    told = controller("--json", "grid", "run", str(project), *crew).document
    assert len(told["runs"]) == 6
    rows = controller("--json", "jobs", "wait", told["id"], *crew).document["jobs"]
    assert [row["state"] for row in rows] == ["done"] * 6
    assert {homes[row["node"]] for row in rows} == {"hoff", "frege"}
    controller("grid", "pull", str(project), *crew)
    assert len(list((project / "runs").rglob("done.json"))) == 6
    controller("cluster", "down", "crew", "--yes", "--force")
    assert difference(before, foreign(controller)) == {}
