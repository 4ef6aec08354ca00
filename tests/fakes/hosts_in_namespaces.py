"""Three hosts and their nodes as network namespaces inside a private one: what is tried there is the kernel's own.

Run as a script inside a network namespace of its own (`unshare -n`), it brings up an overlay over the three with
gpuprov's code, looks at it from the nodes, and prints what was seen as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VNI, PORT, MTU, CLUSTER = 77, 4789, 1450, "lab"
ADDRESSES = ("10.9.0.1", "10.9.0.2", "10.9.0.3")
NODES_PER_HOST = 2

_CALL = """
import json, pathlib, sys
from gpuprov.core.errors import GpuprovError
from gpuprov.machine.overlay import end as overlay
from gpuprov.machine.overlay.plan import OverlayRequest
from gpuprov.machine.overlay.tunnel import TunnelKeys
asked = json.loads(sys.argv[2])
arguments = [OverlayRequest(**{**asked, "peers": tuple(asked["peers"])})] if isinstance(asked, dict) else asked
more = {}
if sys.argv[1] in ("ensure_overlay", "remove_overlay"):
    arguments = [*arguments, TunnelKeys(pathlib.Path("/nonexistent"))]
if sys.argv[1] == "look_at_overlay":
    arguments, more = [*arguments, {address: address for address in asked["peers"]}], {"overhead": 50}
try:
    told = getattr(overlay, sys.argv[1])(*arguments, **more)
except GpuprovError as error:
    told = {"error": error.what, "evidence": error.evidence}
print(json.dumps(told))
"""
_LISTEN = """
import socket, sys, time
heard, listener = 0, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("", 9999))
print("ready", flush=True)
sys.stdin.readline()
listener.settimeout(0.2)
while True:
    try:
        heard += listener.recv(100) == b"to all"
    except TimeoutError:
        break
print(heard)
"""
_ECHO = """
import socket
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("", 9998))
print("ready", flush=True)
while True:
    said, whom = echo.recvfrom(65536)
    echo.sendto(said, whom)
"""
_PROBE = """
import errno, json, socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: no packet is split
asking.settimeout(5)
told = []
for address, size in json.loads(sys.argv[1]):
    try:
        asking.sendto(bytes(size), (address, 9998))
        told.append("answers" if len(asking.recv(65536)) == size else "another")
    except TimeoutError:
        told.append("silent")
    except OSError as error:
        told.append(errno.errorcode[error.errno])
print(json.dumps(told))
"""
_SHOUT = """
import socket
shouting = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
shouting.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
shouting.sendto(b"to all", ("10.0.5.255", 9999))
"""


def sh(lines: str) -> None:
    subprocess.run(["sh", "-euc", lines], check=True)


class Namespace:
    """A network namespace, which lives as long as the process that holds it."""

    def __init__(self, holder: subprocess.Popen[bytes]) -> None:
        self.pid = holder.pid
        self.enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]

    def sh(self, lines: str) -> None:
        subprocess.run([*self.enter, "sh", "-euc", lines], check=True)

    def ask(self, *argv: str) -> str:
        return subprocess.run([*self.enter, *argv], check=True, capture_output=True, text=True).stdout

    def probe(self, asked: Sequence[tuple[str, int]]) -> list[str]:
        """What comes of packets, which must not be split, of so many bytes to these nodes."""
        told: list[str] = json.loads(self.ask(sys.executable, "-c", _PROBE, json.dumps(asked)))
        return told

    def start(self, program: str) -> subprocess.Popen[str]:
        """Start a program of Python there, and wait until it says that it is ready."""
        pipe = subprocess.PIPE
        started = subprocess.Popen([*self.enter, sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)
        assert started.stdout is not None
        started.stdout.readline()
        return started

    def call(self, function: str, argument: object) -> Any:
        """Call a function of gpuprov.machine.overlay.end there."""
        return json.loads(self.ask(sys.executable, "-c", _CALL, function, json.dumps(argument)))


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A new namespace with its loopback up."""
    here = Path("/proc/self/ns/net").readlink()
    with subprocess.Popen(["unshare", "-n", "sleep", "600"]) as holder:
        try:
            while Path(f"/proc/{holder.pid}/ns/net").readlink() == here:
                time.sleep(0.01)
            there = Namespace(holder)
            there.sh("ip link set lo up")
            yield there
        finally:
            holder.kill()


def join_underlay(host: Namespace, number: int) -> None:
    """Give a host its address on the network between the hosts."""
    sh(f"ip link add up{number} type veth peer name eth0 netns {host.pid}; ip link set up{number} master under up")
    host.sh(f"ip address add {ADDRESSES[number]}/24 dev eth0; ip link set eth0 up")


def join_private(node: Namespace, host: Namespace, parent: str, number: int) -> None:
    """Give a node its eth1, as the engines do."""
    host.sh(f"ip link add mv{number} link {parent} type macvlan mode bridge; ip link set mv{number} netns {node.pid}")
    node.sh(f"ip link set mv{number} name eth1; ip address add 10.0.5.{number + 1}/24 dev eth1; ip link set eth1 up")


def request_of(number: int, peers: Sequence[str] | None = None) -> dict[str, Any]:
    """The end of the overlay on a host; the last one's engine has no bridge for it."""
    others = [address for address in ADDRESSES if address != ADDRESSES[number]]
    return {
        "cluster": CLUSTER,
        "vni": VNI,
        "port": PORT,
        "bridge": None if number == len(ADDRESSES) - 1 else "gpbr1",
        "local": ADDRESSES[number],
        "peers": others if peers is None else list(peers),
        "mtu": MTU,
    }


def count_broadcasts(nodes: Sequence[Namespace]) -> list[int]:
    """How often each of the other nodes hears what the first sends to all."""
    listeners = [node.start(_LISTEN) for node in nodes[1:]]
    nodes[0].ask(sys.executable, "-c", _SHOUT)
    time.sleep(1)
    return [int(listener.communicate("\n")[0]) for listener in listeners]


def look(hosts: Sequence[Namespace], nodes: Sequence[Namespace]) -> dict[str, Any]:
    """What the overlay does for the nodes."""
    everyone = [f"10.0.5.{number + 1}" for number in range(len(nodes))]
    full = MTU - 28  # headers of IPv4 and UDP
    return {
        "answers": [node.probe([(address, 1) for address in everyone]) for node in nodes],
        "full": nodes[0].probe([(everyone[-1], full), (everyone[-1], full + 1)]),
        "broadcasts": count_broadcasts(nodes),
        "fragments": [host.ask("sh", "-c", "nstat -asz IpFragCreates | awk 'END{print $2}'").strip() for host in hosts],
        "mtus": [json.loads(node.ask("ip", "-j", "link", "show", "eth1"))[0]["mtu"] for node in nodes],
    }


def play() -> dict[str, Any]:
    """Bring it up, look, break it, repair it, remove it."""
    seen: dict[str, Any] = {}
    with ExitStack() as stack:
        sh("ip link set lo up; ip link add under type bridge; ip link set under up")
        hosts = [stack.enter_context(namespace()) for _ in ADDRESSES]
        nodes = [stack.enter_context(namespace()) for _ in range(len(hosts) * NODES_PER_HOST)]
        for number, host in enumerate(hosts):
            join_underlay(host, number)
        seen["no bridge yet"] = hosts[0].call("ensure_overlay", request_of(0))
        seen["underlay"] = hosts[0].call("underlay_mtu", [ADDRESSES[0], list(ADDRESSES[1:])])
        seen["not its own"] = hosts[0].call("underlay_mtu", ["10.9.0.9", list(ADDRESSES[1:])])
        for host in hosts[:-1]:
            host.sh("ip link add gpbr1 type bridge; ip link set gpbr1 up")
        join_private(nodes[0], hosts[0], "gpbr1", 0)  # a node that was there before the overlay
        seen["first"] = [host.call("ensure_overlay", request_of(number)) for number, host in enumerate(hosts)]
        for number in range(1, len(nodes)):
            home = number // NODES_PER_HOST
            join_private(nodes[number], hosts[home], "gpbr1" if home < len(hosts) - 1 else "gpvb00004d", number)
        seen["second"] = [host.call("ensure_overlay", request_of(number)) for number, host in enumerate(hosts)]
        for node in nodes:
            stack.callback(node.start(_ECHO).kill)
        seen["works"] = look(hosts, nodes)
        seen["observed"] = [host.call("look_at_overlay", request_of(number)) for number, host in enumerate(hosts)]
        sh("ip link set under mtu 1400; ip link set up0 mtu 1400")  # a way that is narrower than its ends
        seen["observed narrow"] = hosts[0].call("look_at_overlay", request_of(0))
        sh("ip link set up0 mtu 1500; ip link set under mtu 1500")
        hosts[1].sh("ip link del gpvx00004d; ip link set gpbr1 mtu 1500")  # as after a reboot
        hosts[0].sh(
            f"bridge fdb del 00:00:00:00:00:00 dev gpvx00004d dst {ADDRESSES[2]}; ip link set gpvx00004d nomaster"
        )
        hosts[2].sh("ip link set gpvx00004d down mtu 1400")
        seen["repaired"] = [host.call("ensure_overlay", request_of(number)) for number, host in enumerate(hosts)]
        seen["works again"] = look(hosts, nodes)
        seen["fewer"] = hosts[0].call("ensure_overlay", request_of(0, ADDRESSES[1:2]))
        hosts[0].sh(f"ip link add theirs type vxlan id {VNI + 1} dstport {PORT} local {ADDRESSES[0]}")
        seen["number taken"] = hosts[0].call("ensure_overlay", {**request_of(0), "vni": VNI + 1})
        hosts[0].sh("ip link add gpvx00004f type dummy 2>/dev/null || ip link add gpvx00004f type bridge")
        hosts[0].sh("ip link set gpvx00004f up")
        seen["name taken"] = hosts[0].call("ensure_overlay", {**request_of(0), "vni": VNI + 2})
        seen["removed"] = [host.call("remove_overlay", [CLUSTER]) for host in hosts]
        seen["removed twice"] = [host.call("remove_overlay", [CLUSTER]) for host in hosts]
        shown = [json.loads(host.ask("ip", "-j", "link", "show")) for host in hosts]
        seen["left"] = [sorted(link["ifname"] for link in links if link["ifname"] != "lo") for links in shown]
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play()))
