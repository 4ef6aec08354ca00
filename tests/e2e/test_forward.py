"""LXD's nodes beside Docker's policy for FORWARD, whichever of the two came first.

Both ways happen in a network namespace of their own, with a Docker of its own: what is between the nodes' bridge and
the outside there are Docker's real rules and ours, and this machine's stay as they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Gpuprov

ROOT = Path(__file__).parents[2]
ACT = """
import json, signal, subprocess, sys, time
from pathlib import Path
from gpuprov.assets import get_asset
from gpuprov.core.reporter import Silent
from gpuprov.drivers.forward_rules import end_passage, let_through
from gpuprov.machine.local import LocalHost
from gpuprov.lifecycle.prepare_host import HostOrder, prepare_host

folder, first, second = sys.argv[1:]
MORE = {"gpbr2": "192.0.4", "lab0": "192.0.5"}
TRY = '''
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), timeout=1)
except ConnectionRefusedError:
    print("reached")
except OSError:
    print("lost")
'''


def sh(lines):
    subprocess.run(["sh", "-euc", lines], check=True)


def join(name, bridge, address, gateway):
    sh(f"ip netns add {name}; ip link add {name} type veth peer name eth0 netns {name}; ip link set {name} up")
    sh(f"ip link set {name} master {bridge}")
    sh(f"ip -n {name} address add {address} dev eth0; ip -n {name} link set eth0 up")
    sh(f"ip -n {name} route add default via {gateway}")


def reach(address, node="node1"):
    argv = ["ip", "netns", "exec", node, sys.executable, "-c", TRY, address]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def look():
    rules = subprocess.run(["iptables", "-S"], check=True, capture_output=True, text=True).stdout
    policy = next(line.split()[-1] for line in rules.splitlines() if line.startswith("-P FORWARD"))
    reached = {"node": reach("192.0.3.3"), "outside": reach("192.0.2.2")}
    second = {bridge: reach("192.0.2.2", f"on-{bridge}") for bridge in MORE}
    own = [rule for rule in rules.splitlines() if "gpuprov" in rule and ("gpbr" in rule or "lab0" in rule)]
    return {"policy": policy, **reached, **second, "own": len(own)}  # this machine's LXD may have networks of ours too


def start_docker():
    places = ("--data-root", f"{folder}/data", "--exec-root", f"{folder}/run", "--pidfile", f"{folder}/pid")
    argv = ["dockerd", *places, "--host", f"unix://{folder}/docker.sock", "--storage-driver", "vfs"]
    process = subprocess.Popen(argv, stdout=Path(folder, "log").open("a"), stderr=subprocess.STDOUT)
    ask = ["curl", "--silent", "--unix-socket", f"{folder}/docker.sock", "http://docker/_ping"]
    for _ in range(300):
        if subprocess.run(ask, capture_output=True).stdout == b"OK":
            return process
        time.sleep(0.1)
    raise SystemExit(Path(folder, "log").read_text()[-2000:])


def stop_docker(process):
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def start_lxd():  # what LXD does for a bridge with NAT
    sh("sysctl -qw net.ipv4.ip_forward=1")
    for bridge, address in (("gpbr0", "192.0.3.1/24"), ("out0", "192.0.2.1/24")):
        sh(f"ip link add {bridge} type bridge; ip address add {address} dev {bridge}; ip link set {bridge} up")
    join("node1", "gpbr0", "192.0.3.2/24", "192.0.3.1")
    join("node2", "gpbr0", "192.0.3.3/24", "192.0.3.1")
    for bridge, subnet in MORE.items():  # of a second cluster, and one with a name that somebody chose
        sh(f"ip link add {bridge} type bridge; ip address add {subnet}.1/24 dev {bridge}; ip link set {bridge} up")
        join(f"on-{bridge}", bridge, f"{subnet}.2/24", f"{subnet}.1")
    join("outside", "out0", "192.0.2.2/24", "192.0.2.1")


def prepare(engine):
    variables = (("host_docker_socket", f"{folder}/docker.sock"),)
    request = HostOrder(roles_path=get_asset("roles"), engine=engine, variables=variables)
    return list(prepare_host(request, LocalHost(), reporter=Silent()).changed)


sh("mount --make-rprivate /; mkdir -p /run/netns; mount -t tmpfs none /run/netns; ip link set lo up")
sh(f"mkdir {folder}/sysctl; mount --bind {folder}/sysctl /etc/sysctl.d")
sh("sysctl -qw net.ipv4.ip_forward=0")
seen = {}
docker = None
try:
    if first == "docker":
        docker = start_docker()
        start_lxd()
    else:
        start_lxd()
        docker = start_docker()
    seen["beside"] = look()
    sh("iptables -P FORWARD DROP")  # as Docker leaves it after a boot in which it comes first
    seen["dropped"] = look()
    seen["changed"] = prepare(second)
    seen["prepared"] = look()
    seen["again"] = prepare(second)
    let_through("lab0")  # as LXD's driver does when it makes the network
    seen["let through"] = look()
    stop_docker(docker)
    docker = start_docker()
    seen["docker again"] = look()
    end_passage("lab0")
    seen["gone"] = look()
finally:
    if docker:
        stop_docker(docker)
json.dump(seen, sys.stdout)
"""
REACHED = {"node": "reached", "outside": "reached", "gpbr2": "reached"}


def act(folder: Path, first: str, second: str) -> dict[str, Any]:
    argv = ["unshare", "--mount", "--net", sys.executable, "-c", ACT, str(folder), first, second]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize(
    ("first", "second"), [("docker", "lxd"), pytest.param("lxd", "docker", marks=pytest.mark.long)]
)
def test_nodes_reach_each_other_and_the_outside_whichever_engine_came_first(
    gpuprov: Gpuprov,
    first: str,
    second: str,
) -> None:
    gpuprov("list", "--engine", "lxd")  # `host prepare` would start one that does not run, in the namespace of the test
    with TemporaryDirectory(prefix="gpuprov") as folder:  # paths of sockets are short
        seen = act(Path(folder), first, second)
    if first == "docker":
        assert (seen["beside"]["policy"], seen["beside"]["outside"]) == ("DROP", "lost"), "Docker turned forwarding on"
    else:
        assert seen["beside"] == {"policy": "ACCEPT", "own": 0, **REACHED, "lab0": "reached"}
    assert seen["dropped"]["outside"] == "lost", "the trap is real"
    assert any("FORWARD" in task for task in seen["changed"])
    for moment in ("prepared", "gone"):
        assert seen[moment] == {"policy": "DROP", "own": 2, **REACHED, "lab0": "lost"}
    for moment in ("let through", "docker again"):
        assert seen[moment] == {"policy": "DROP", "own": 4, **REACHED, "lab0": "reached"}
    assert [line for line in seen["again"] if "gpte" not in line] == [], "but of networks that other tests have made"
