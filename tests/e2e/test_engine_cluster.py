"""Members of one cluster of LXD or of Incus as hosts: gpuprov uses the engine of each, and changes none of them."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.controller import AWAY, add_hosts
from tests.e2e.several_machines import several_machines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.controller import Controller
    from tests.e2e.places import Place
    from tests.e2e.several_machines import Lab

    Query = Callable[[str, str], Any]

pytestmark = pytest.mark.long  # ten minutes for each engine


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An engine: the release and packages that it comes from, and its commands."""

    suite: str
    packages: tuple[str, ...]
    client: str
    init: tuple[str, ...]


SETTINGS = {
    "lxd": Setting(
        suite="bookworm",
        packages=("lxd", "lxd-client", "btrfs-progs", "iptables", "nftables", "dnsmasq-base"),
        client="lxc",
        init=("lxd", "init"),
    ),
    "incus": Setting(
        suite="trixie",
        packages=("incus", "btrfs-progs", "nftables", "dnsmasq-base"),
        client="incus",
        init=("incus", "admin", "init"),
    ),
}
MEMBERS = {"hoff": "m1", "hinton": "m2", "frege": "m3"}  # one of three may be lost: the others are a majority
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
BACK_S = 240


def make_cluster(lab: Lab, setting: Setting) -> None:
    """A cluster of the engine's, with a pool, and instances and a network of somebody; c000 is a name gpuprov likes."""
    first, *others = lab.machines
    one, client = lab.machines[first], setting.client
    listen = {name: f"{address}:8443" for name, address in lab.addresses.items()}
    member = MEMBERS[first]
    config = {
        "config": {"core.https_address": listen[first]},
        "cluster": {"server_name": member, "enabled": True},
    }
    one.run(*setting.init, "--preseed", stdin=json.dumps(config).encode())
    for name in others:
        member = MEMBERS[name]
        token = one.run(client, "cluster", "add", member).split()[-1]
        joined = {"enabled": True, "server_name": member, "server_address": listen[name], "cluster_token": token}
        lab.machines[name].run(*setting.init, "--preseed", stdin=json.dumps({"cluster": joined}).encode())
    for member in MEMBERS.values():
        one.run(client, "storage", "create", "pool", "btrfs", f"size={POOL_GIB}GiB", "--target", member)
        one.run(client, "network", "create", BRIDGE, "--target", member)
    one.run(client, "storage", "create", "pool", "btrfs")
    one.run(client, "network", "create", BRIDGE, "ipv4.address=10.99.1.1/24", "ipv6.address=none")
    for name, member in (("theirs", "m1"), ("c000", "m2")):
        one.run(client, "init", name, "--empty", "--no-profiles", "--storage", "pool", "--target", member)


@pytest.fixture(scope="module", params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> Setting:
    return SETTINGS[request.param]


@pytest.fixture(scope="module")
def controller(
    gpuprov: Gpuprov, place: Place, setting: Setting, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    hosts = dict.fromkeys(MEMBERS, ())
    folder = tmp_path_factory.mktemp("members")
    with several_machines(place, folder, tuple(hosts), setting.suite, more=setting.packages) as lab:
        make_cluster(lab, setting)
        yield add_hosts(gpuprov, lab, folder, hosts, SPEC)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def query(controller: Controller, setting: Setting) -> Query:
    """What a machine's engine answers."""
    return lambda host, path: json.loads(controller.lab.machines[host].run(setting.client, "query", path))


def locations(query: Query) -> dict[str, str]:
    """Where every instance is but images."""
    found = query("hoff", "/1.0/instances?recursion=1")
    return {item["name"]: item["location"] for item in found if not item["name"].startswith("gpuprov-")}


def theirs(query: Query) -> dict[str, Any]:
    """All that is not gpuprov's: members, pools, the network and instances of somebody, with all their settings."""
    pools = query("hoff", "/1.0/storage-pools?recursion=1")
    network = query("hoff", f"/1.0/networks/{BRIDGE}")
    for told in (network, *pools):
        told["locations"].sort()
    instances = query("hoff", "/1.0/instances?recursion=1")
    return {
        "members": query("hoff", "/1.0/cluster/members?recursion=1"),
        "config": query("hoff", "/1.0")["config"],
        "pools": [{key: value for key, value in pool.items() if key != "used_by"} for pool in pools],
        "network": network,
        "instances": [item for item in instances if item["name"] in ("theirs", "c000")],
        "default": query("hoff", "/1.0/profiles/default"),
    }


@pytest.fixture(scope="module", autouse=True)
def untouched(query: Query) -> Iterator[None]:
    before = theirs(query)
    yield
    assert theirs(query) == before


def test_the_engine_s_cluster_is_seen(controller: Controller) -> None:
    members = [*MEMBERS.values()]
    for host, member in MEMBERS.items():
        facts = controller("--json", "host", "show", host).document["engines"][0]["facts"]
        assert facts["cluster"] == {"member": member, "members": members, "away": []}
        assert facts["storage"] == "pool (btrfs)"
        assert f"member {member} of a cluster of {', '.join(members)}" in controller("host", "show", host).stdout
    told = controller.lab.machines["hoff"].run("gpuprov", "doctor")
    assert "engine-cluster" in told


def test_a_cluster_of_one_host_is_on_that_member_alone(controller: Controller, query: Query) -> None:
    machine = controller.lab.machines["hoff"]

    def typed(*argv: str) -> Any:
        return json.loads(machine.run("gpuprov", "--json", *argv, within_s=1200))

    up = ("cluster", "up", "-n", "2", "--name", "solo", "--gpu-mode", "simulated")
    names = [node["name"] for node in typed(*up)["nodes"]]
    assert names == ["solo-000", "solo-001"], "c000 is somebody's, on the other member"
    here = {"theirs": "m1", "c000": "m2", "solo-000": "m1", "solo-001": "m1"}
    assert locations(query) == here
    assert typed(*up)["unchanged"]
    assert typed("verify", "--cluster", "solo")["passed"]
    typed("create-node", "extra", "--cluster", "solo")
    assert locations(query) == here | {"extra": "m1"}
    machine.run("gpuprov", "exec", "extra", "--", "ping", "-c1", "solo-000")
    seen = json.loads(controller.lab.machines["hinton"].run("gpuprov", "--json", "list", "--all"))["nodes"]
    assert {node["name"]: (node["cluster"], node["host"]) for node in seen} == {
        "c000": ("(foreign)", "hinton"),
        **dict.fromkeys(("theirs", "solo-000", "solo-001", "extra"), ("(foreign)", "m1")),
    }
    typed("cluster", "down", "solo", "--yes", "--force")
    assert locations(query) == {"theirs": "m1", "c000": "m2"}
    left = query("hoff", "/1.0/networks?recursion=1")
    assert [network["name"] for network in left if network["managed"]] == [BRIDGE]


def test_a_cluster_over_two_members_is_one_slurm(controller: Controller, query: Query) -> None:
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    homes = {"n000": "hoff", "n001": "hoff", "n002": "hinton", "n003": "hinton"}
    assert {name: (node["host"], node["work"], node["health"]) for name, node in nodes.items()} == {
        name: (host, "idle", "ok") for name, host in homes.items()
    }
    assert locations(query) == {name: MEMBERS[host] for name, host in homes.items()} | {
        "theirs": "m1",
        "c000": "m2",
    }
    for node in ("n000", "n003"):
        assert controller.srun(node, "-N4", "--gres=gpu:1", "hostname") == ALL
    assert controller("--json", "cluster", "up", "-f", controller.spec).document["unchanged"]
    assert controller("--json", "verify", "--cluster", "both").document["passed"]


def test_a_member_that_is_lost_holds_nobody_up(controller: Controller, query: Query) -> None:
    hinton, hoff = controller.lab.machines["hinton"], controller.lab.machines["hoff"]

    def online() -> set[str]:
        found = query("hoff", "/1.0/cluster/members?recursion=1")
        return {member["server_name"] for member in found if member["status"] == "Online"}

    hinton.lose_power()
    try:
        hoff.wait_for(lambda: online() == {"m1", "m3"}, within_s=BACK_S)  # until then the engine waits for that member
        status = {
            name: node["status"] for name, node in controller.nodes("cluster", "status", "both", expect=AWAY).items()
        }
        assert status == {"n000": "running", "n001": "running", "n002": "unreachable", "n003": "unreachable"}
        assert controller.srun("n000", "-N2", "hostname") == ["n000", "n001"]
        controller("cluster", "up", "-f", controller.spec, expect=AWAY)
        controller("rm", "n001", expect=AWAY)  # done, but for the files on the host that is unreachable
        controller("create-node", "n001", "--cluster", "both", "--host", "hoff", expect=AWAY)
        controller.lab.machines["frege"].run("gpuprov", "list", "--all")
    finally:
        hinton.boot()

    hoff.wait_for(lambda: online() == {"m1", "m2", "m3"}, within_s=BACK_S)
    nodes = controller.nodes("cluster", "up", "-f", controller.spec)
    assert {node["health"] for node in nodes.values()} == {"ok"}
    assert controller.srun("n003", "-N4", "hostname") == ALL


def test_each_member_removes_its_own_and_the_last_one_the_networks(controller: Controller, query: Query) -> None:
    controller("rm", "n003")
    assert "n003" not in locations(query)
    controller("cluster", "up", "-f", controller.spec)  # without a name, it would be one of this machine itself
    assert locations(query)["n003"] == "m2"
    controller("cluster", "down", "both", "--yes", "--force")
    assert locations(query) == {"theirs": "m1", "c000": "m2"}
    left = query("hoff", "/1.0/networks?recursion=1")
    assert [network["name"] for network in left if network["managed"]] == [BRIDGE]
    assert [item["name"] for item in query("hoff", "/1.0/profiles?recursion=1")] == ["default"]
