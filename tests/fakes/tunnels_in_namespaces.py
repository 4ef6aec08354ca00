"""Three hosts with an encrypted overlay, as namespaces: WireGuard is the kernel's where it has it, else wireguard-go.

Run as a script inside a network namespace and a mount namespace of its own (`unshare -n -m`), with a folder for keys,
it brings up the overlay with gpuprov's code, looks at it from the nodes and from the network between the hosts, and
prints what was seen as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fakes import hosts_in_namespaces as plain
from tests.fakes.hosts_in_namespaces import ADDRESSES, CLUSTER, NODES_PER_HOST, PORT, VNI, Namespace, sh

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MTU = 1370
TUNNEL = ("10.77.0.1", "10.77.0.2", "10.77.0.3")

_CALL = """
import json, pathlib, sys
from gpuprov.core.errors import GpuprovError
from gpuprov.machine.overlay import end as overlay
from gpuprov.machine.overlay.plan import OverlayRequest
from gpuprov.machine.overlay.tunnel import TunnelKeys
from gpuprov.machine.overlay.tunnel_plan import TunnelPeer, TunnelRequest
what, keys, asked = sys.argv[1], TunnelKeys(pathlib.Path(sys.argv[2])), json.loads(sys.argv[3])
try:
    if what == "key":
        told = keys.ensure(asked)
    elif what == "remove":
        told = overlay.remove_overlay(asked, keys)
    else:
        tunnel = asked.pop("tunnel")
        peers = tuple(TunnelPeer(**peer) for peer in tunnel.pop("peers"))
        made = TunnelRequest(**tunnel, peers=peers)
        told = overlay.ensure_overlay(OverlayRequest(**{**asked, "peers": tuple(asked["peers"])}, tunnel=made), keys)
except GpuprovError as error:
    told = {"error": error.what, "evidence": error.evidence}
print(json.dumps(told))
"""
# An Ethernet frame to everybody, with a packet of UDP to port 9999 in it, in a VXLAN's packet that no tunnel carries.
_FORGE = """
import socket, struct, sys
def ip(source, target, payload, protocol=17):
    controller = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(target))
    total = sum(struct.unpack("!10H", controller))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return controller[:10] + struct.pack("!H", 0xFFFF ^ total) + controller[12:] + payload
def udp(port, payload):
    return struct.pack("!HHHH", 4000, port, 8 + len(payload), 0) + payload
inner = b"\\xff" * 6 + b"\\x02\\0\\0\\0\\0\\x63" + b"\\x08\\0" + ip("10.0.5.99", "10.0.5.255", udp(9999, b"to all"))
vxlan = struct.pack("!II", 0x08000000, int(sys.argv[1]) << 8) + inner
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(vxlan, (sys.argv[2], int(sys.argv[3])))
"""


class Host(Namespace):
    """A host with a /run/wireguard and keys of its own."""

    def __init__(self, holder: subprocess.Popen[bytes], folder: Path) -> None:
        super().__init__(holder)
        self.folder = folder
        folder.mkdir()
        place = f"--mount=/proc/{holder.pid}/ns/mnt"
        self.enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net", place, f"--wd={Path.cwd()}"]

    def gpuprov(self, what: str, asked: object) -> Any:
        return json.loads(self.ask(sys.executable, "-c", _CALL, what, str(self.folder), json.dumps(asked)))


@contextmanager
def host(folder: Path) -> Iterator[Host]:
    here = Path("/proc/self/ns/net").readlink()
    with subprocess.Popen(["unshare", "-n", "-m", "sleep", "600"]) as holder:
        try:
            while Path(f"/proc/{holder.pid}/ns/net").readlink() == here:
                time.sleep(0.01)
            time.sleep(0.2)  # the mount namespace comes with it
            made = Host(holder, folder)
            made.sh("ip link set lo up; mkdir -p /run/wireguard; mount -t tmpfs none /run/wireguard")
            yield made
            made.sh("ip link del gpwg00004d 2>/dev/null || true")  # a wireguard-go ends with its device
        finally:
            holder.kill()


def request_of(number: int, keys: Sequence[str], among: Sequence[int]) -> dict[str, Any]:
    others = [other for other in among if other != number]
    peers = [{"key": keys[other], "address": TUNNEL[other], "reached_at": ADDRESSES[other]} for other in others]
    return {
        **plain.request_of(number),
        "local": TUNNEL[number],
        "peers": [TUNNEL[other] for other in others],
        "mtu": MTU,
        "tunnel": {
            "cluster": CLUSTER,
            "vni": VNI,
            "vxlan_port": PORT,
            "key": keys[number],
            "address": TUNNEL[number],
            "reached_at": ADDRESSES[number],
            "peers": peers,
            "mtu": MTU + 50,
        },
    }


def wait_until_answered(nodes: Sequence[Namespace]) -> None:
    """Until the hosts have shaken hands."""
    for _ in range(20):
        if nodes[0].probe([("10.0.5.3", 1), ("10.0.5.5", 1)]) == ["answers"] * 2:
            return


def forged(nodes: Sequence[Namespace], intruder: Namespace) -> int:
    """How many frames arrive at the first node that somebody between the hosts sends past the tunnel."""
    listener = nodes[0].start(plain._LISTEN)
    intruder.ask(sys.executable, "-c", _FORGE, str(VNI), ADDRESSES[0], str(PORT))
    time.sleep(1)
    return int(listener.communicate("\n")[0])


def seen_on_the_way(node: Namespace, underlay: Namespace) -> dict[str, int]:
    """Packets that come from the network between the hosts, by UDP port, while a node asks another one."""
    rules = "".join(f"add rule inet look way iifname eth0 udp dport {port} counter ; " for port in (PORT, 51897))
    chain = "{ type filter hook input priority -20 ; }"
    underlay.ask("nft", f"add table inet look ; add chain inet look way {chain} ; {rules}")
    node.probe([("10.0.5.1", 100)] * 5)
    listed = json.loads(underlay.ask("nft", "-j", "list", "table", "inet", "look"))["nftables"]
    underlay.ask("nft", "delete table inet look")
    found = {}
    for rule in (item["rule"] for item in listed if "rule" in item):
        port = next(part["match"]["right"] for part in rule["expr"] if part.get("match", {}).get("right") != "eth0")
        found[str(port)] = next(part["counter"]["packets"] for part in rule["expr"] if "counter" in part)
    return found


def play(folder: Path) -> dict[str, Any]:
    """Bring it up, look, attack it, break it, repair it, shrink it, remove it."""
    seen: dict[str, Any] = {}
    everyone = range(len(ADDRESSES))
    with ExitStack() as stack:
        sh("ip link set lo up; ip link add under type bridge; ip link set under up")
        hosts = [stack.enter_context(host(folder / str(number))) for number in everyone]
        nodes = [stack.enter_context(plain.namespace()) for _ in range(len(hosts) * NODES_PER_HOST)]
        intruder = stack.enter_context(plain.namespace())
        for number, one in enumerate(hosts):
            plain.join_underlay(one, number)
        sh(f"ip link add up9 type veth peer name eth0 netns {intruder.pid}; ip link set up9 master under up")
        intruder.sh("ip address add 10.9.0.9/24 dev eth0; ip link set eth0 up")
        for one in hosts[:-1]:
            one.sh("ip link add gpbr1 type bridge; ip link set gpbr1 up")
        keys = [one.gpuprov("key", CLUSTER) for one in hosts]
        seen["keys"] = [keys, [one.gpuprov("key", CLUSTER) for one in hosts]]
        seen["modes"] = [oct((one.folder / "lab.key").stat().st_mode)[-4:] for one in hosts]
        asked = [request_of(number, keys, everyone) for number in everyone]
        seen["first"] = [one.gpuprov("ensure", asked[number]) for number, one in enumerate(hosts)]
        for number in range(len(nodes)):
            home = number // NODES_PER_HOST
            parent = "gpbr1" if home < len(hosts) - 1 else "gpvb00004d"
            plain.join_private(nodes[number], hosts[home], parent, number)
        for node in nodes:
            stack.callback(node.start(plain._ECHO).kill)
        wait_until_answered(nodes)
        seen["second"] = [one.gpuprov("ensure", asked[number]) for number, one in enumerate(hosts)]
        addresses = [f"10.0.5.{number + 1}" for number in range(len(nodes))]
        seen["answers"] = [node.probe([(address, 1) for address in addresses]) for node in nodes]
        seen["full"] = nodes[0].probe([(addresses[-1], MTU - 28), (addresses[-1], MTU - 27)])
        seen["broadcasts"] = plain.count_broadcasts(nodes)
        seen["on the way"] = seen_on_the_way(nodes[2], hosts[0])
        seen["forged"] = forged(nodes, intruder)
        hosts[0].sh("nft delete table inet gpuprov_wg_lab")
        seen["forged without the filter"] = forged(nodes, intruder)
        hosts[1].sh("ip link del gpwg00004d")  # as when wireguard-go was killed
        hosts[2].sh("ip link set gpwg00004d down")
        seen["repaired"] = [one.gpuprov("ensure", asked[number]) for number, one in enumerate(hosts)]
        wait_until_answered(nodes)
        seen["answers again"] = [node.probe([(address, 1) for address in addresses]) for node in nodes]
        seen["fewer"] = hosts[0].gpuprov("ensure", request_of(0, keys, everyone[:2]))
        seen["removed"] = [one.gpuprov("remove", CLUSTER) for one in hosts]
        seen["removed twice"] = [one.gpuprov("remove", CLUSTER) for one in hosts]
        shown = [json.loads(one.ask("ip", "-j", "link", "show")) for one in hosts]
        seen["left"] = [sorted(link["ifname"] for link in links if link["ifname"] != "lo") for links in shown]
        seen["tables left"] = [one.ask("nft", "list", "tables").strip() for one in hosts]
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play(Path(sys.argv[1]))))
