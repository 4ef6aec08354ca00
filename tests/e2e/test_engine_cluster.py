"""Two machines whose LXDs are members of one LXD cluster: gpuprov uses each one's own, and changes nothing of it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.controller import add_hosts
from tests.e2e.several_machines import several_machines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.controller import Controller
    from tests.e2e.places import Place
    from tests.e2e.several_machines import Lab

pytestmark = pytest.mark.long  # ten minutes

MEMBERS = {"hoff": "m1", "hinton": "m2"}
SPEC = """\
version: gpuprov/v1
name: both
hosts: [{name: hoff}, {name: hinton}]
nodes: {count: 4, prefix: n}
gpus: {mode: simulated}
"""
ALL = ["n000", "n001", "n002", "n003"]
BRIDGE = "theirs0"
POOL_GIB = 12


def make_cluster(lab: Lab) -> None:
    """A cluster of LXD's, with a pool, and instances and a network of somebody's; c000 is a name that gpuprov likes."""
    one, other = lab.machines.values()
    listen = {MEMBERS[name]: f"{address}:8443" for name, address in lab.addresses.items()}
    first = {"config": {"core.https_address": listen["m1"]}, "cluster": {"server_name": "m1", "enabled": True}}
    one.run("lxd", "init", "--preseed", stdin=json.dumps(first).encode())
    token = one.run("lxc", "cluster", "add", "m2").split()[-1]
    second = {"enabled": True, "server_name": "m2", "server_address": listen["m2"], "cluster_token": token}
    other.run("lxd", "init", "--preseed", stdin=json.dumps({"cluster": second}).encode())
    for member in MEMBERS.values():
        one.run("lxc", "storage", "create", "pool", "btrfs", f"size={POOL_GIB}GiB", "--target", member)
        one.run("lxc", "network", "create", BRIDGE, "--target", member)
    one.run("lxc", "storage", "create", "pool", "btrfs")
    one.run("lxc", "network", "create", BRIDGE, "ipv4.address=10.99.1.1/24", "ipv6.address=none")
    for name, member in (("theirs", "m1"), ("c000", "m2")):
        one.run("lxc", "init", name, "--empty", "--no-profiles", "--storage", "pool", "--target", member)


@pytest.fixture(scope="module")
def controller(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    hosts = dict.fromkeys(MEMBERS, ())
    packages = ("lxd", "lxd-client", "btrfs-progs")
    folder = tmp_path_factory.mktemp("members")
    with several_machines(place, folder, tuple(hosts), more=packages) as lab:
        make_cluster(lab)
        yield add_hosts(gpuprov, lab, folder, hosts, SPEC)
    shutil.rmtree(folder)


def query(controller: Controller, host: str, path: str) -> Any:
    return json.loads(controller.lab.machines[host].run("lxc", "query", path))


def locations(controller: Controller) -> dict[str, str]:
    """Where every instance is but images."""
    found = query(controller, "hoff", "/1.0/instances?recursion=1")
    return {item["name"]: item["location"] for item in found if not item["name"].startswith("gpuprov-")}


def theirs(controller: Controller) -> dict[str, Any]:
    """All that is not gpuprov's: members, pools, the network and instances of somebody, with all their settings."""
    pools = query(controller, "hoff", "/1.0/storage-pools?recursion=1")
    network = query(controller, "hoff", f"/1.0/networks/{BRIDGE}")
    instances = query(controller, "hoff", "/1.0/instances?recursion=1")
    return {
        "members": query(controller, "hoff", "/1.0/cluster/members?recursion=1"),
        "config": query(controller, "hoff", "/1.0")["config"],
        "pools": [{key: value for key, value in pool.items() if key != "used_by"} for pool in pools],
        "network": network,
        "instances": [item for item in instances if item["name"] in ("theirs", "c000")],
        "default": query(controller, "hoff", "/1.0/profiles/default"),
    }


@pytest.fixture(scope="module", autouse=True)
def untouched(controller: Controller) -> Iterator[None]:
    before = theirs(controller)
    yield
    assert theirs(controller) == before


def test_the_engine_s_cluster_is_seen(controller: Controller) -> None:
    for host, member in MEMBERS.items():
        facts = controller("--json", "host", "show", host).document["engines"][0]["facts"]
        assert facts["cluster"] == {"member": member, "members": ["m1", "m2"], "away": []}
        assert facts["storage"] == "pool (btrfs)"
        assert f"member {member} of a cluster of m1, m2" in controller("host", "show", host).stdout
    told = controller.lab.machines["hoff"].run("gpuprov", "doctor")
    assert "engine-cluster" in told


def test_a_cluster_of_one_host_is_on_that_member_alone(controller: Controller) -> None:
    machine = controller.lab.machines["hoff"]

    def typed(*argv: str) -> Any:
        return json.loads(machine.run("gpuprov", "--json", *argv, within_s=1200))

    up = ("cluster", "up", "-n", "2", "--name", "solo", "--gpu-mode", "simulated")
    names = [node["name"] for node in typed(*up)["nodes"]]
    assert names == ["solo-000", "solo-001"], "c000 is somebody's, on the other member"
    here = {"theirs": "m1", "c000": "m2", "solo-000": "m1", "solo-001": "m1"}
    assert locations(controller) == here
    assert typed(*up)["unchanged"]
    assert typed("verify", "--cluster", "solo")["passed"]
    typed("create-node", "extra", "--cluster", "solo")
    assert locations(controller) == here | {"extra": "m1"}
    machine.run("gpuprov", "exec", "extra", "--", "ping", "-c1", "solo-000")
    seen = json.loads(controller.lab.machines["hinton"].run("gpuprov", "--json", "list", "--all"))["nodes"]
    assert {node["name"]: (node["cluster"], node["host"]) for node in seen} == {
        "c000": ("(foreign)", "hinton"),
        **dict.fromkeys(("theirs", "solo-000", "solo-001", "extra"), ("(foreign)", "m1")),
    }
    typed("cluster", "down", "solo", "--yes")
    assert locations(controller) == {"theirs": "m1", "c000": "m2"}
    left = query(controller, "hoff", "/1.0/networks?recursion=1")
    assert [network["name"] for network in left if network["managed"]] == [BRIDGE]


def test_a_cluster_over_two_members_is_one_slurm(controller: Controller) -> None:
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    homes = {"n000": "hoff", "n001": "hoff", "n002": "hinton", "n003": "hinton"}
    assert {name: (node["host"], node["slurm"], node["health"]) for name, node in nodes.items()} == {
        name: (host, "idle", "ok") for name, host in homes.items()
    }
    assert locations(controller) == {name: MEMBERS[host] for name, host in homes.items()} | {
        "theirs": "m1",
        "c000": "m2",
    }
    for node in ("n000", "n003"):
        assert controller.srun(node, "-N4", "--gres=gpu:1", "hostname") == ALL
    assert controller("--json", "cluster", "up", "-f", controller.spec).document["unchanged"]
    assert controller("--json", "verify").document["passed"]


def test_each_member_removes_its_own_and_the_last_one_the_networks(controller: Controller) -> None:
    controller("rm", "n003")
    assert "n003" not in locations(controller)
    controller("cluster", "up")
    assert locations(controller)["n003"] == "m2"
    controller("cluster", "down", "both", "--yes")
    assert locations(controller) == {"theirs": "m1", "c000": "m2"}
    left = query(controller, "hoff", "/1.0/networks?recursion=1")
    assert [network["name"] for network in left if network["managed"]] == [BRIDGE]
    assert [item["name"] for item in query(controller, "hoff", "/1.0/profiles?recursion=1")] == ["default"]
