"""The plainest script that makes gpuprov's nodes with pylxd: what `gpuprov cluster up` is timed against.

It knows the names, addresses and files of one cluster and checks nothing: no plan, no labels, no leases, no undoing.

Usage: python -m benchmarks.plain_pylxd up|down COUNT IMAGE FOLDER SOCKET [THREADS]

SOCKET is that of LXD or Incus. IMAGE is an alias, or `copy:INSTANCE` to copy a stopped instance instead.

FOLDER holds `files.json` (a list of path, content, mode, uid, gid) and `pool.json`, both written by cluster_up.py.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pylxd
from pylxd.exceptions import NotFound

THREADS = 4
BRIDGE, PRIVATE_BRIDGE = "gpbrn0", "gpbrn1"
CONTROLLER_MARK = "/etc/slurm/controller"
GPUS = 4
# A copy of gpuprov's image must not count as one.
NO_LABELS = {f"user.gpuprov.{key}": "" for key in ("kind", "image-labels", "cluster", "role", "version")}


def node_config(number: int, image: str, pool: str) -> dict[str, object]:
    """The instance that gpuprov would make as node `number`."""
    addresses = (
        f"lxc.net.0.ipv4.address = 10.79.3.{number + 2}/24 10.79.3.255\n"
        "lxc.net.0.ipv4.gateway = 10.79.3.1\n"
        f"lxc.net.1.ipv4.address = 10.79.5.{number + 1}/24 10.79.5.255"
    )
    kind, _, name = image.rpartition(":")
    source = {"type": "copy", "source": name, "instance_only": True} if kind else {"type": "image", "alias": image}
    gpu = {"type": "unix-char", "path": f"/dev/nvidia{number % GPUS}", "major": "195", "minor": str(number % GPUS)}
    control = {"type": "unix-char", "path": "/dev/nvidiactl", "major": "195", "minor": "255"}
    return {
        "name": f"b{number:03d}",
        "source": source,
        "profiles": [],
        "config": {"raw.lxc": addresses, "security.privileged": "false", **(NO_LABELS if kind else {})},
        "devices": {
            "root": {"type": "disk", "path": "/", "pool": pool},
            "eth0": {"type": "nic", "nictype": "bridged", "parent": BRIDGE, "name": "eth0"},
            "eth1": {"type": "nic", "nictype": "macvlan", "parent": PRIVATE_BRIDGE, "name": "eth1"},
            "eth1-port": {"type": "nic", "nictype": "bridged", "parent": PRIVATE_BRIDGE, "name": "eth1-port"},
            "gpu": {**gpu, "mode": "0666"},
            "control": {**control, "mode": "0666"},
        },
    }


def make_node(socket: str, number: int, image: str, pool: str, files: list[dict[str, object]]) -> None:
    """Create, fill and start one node."""
    client = pylxd.Client(endpoint=socket)
    instance = client.instances.create(node_config(number, image, pool), wait=True)
    for file in files:
        if file["path"] == CONTROLLER_MARK and number:
            continue
        instance.files.put(file["path"], file["content"], mode=file["mode"], uid=file["uid"], gid=file["gid"])
    instance.start(wait=True)


def up(socket: str, count: int, image: str, folder: Path, workers: int) -> None:
    """Make networks and nodes, and wait until Slurm calls all of them idle."""
    files = json.loads((folder / "files.json").read_text())
    client = pylxd.Client(endpoint=socket)
    pool = json.loads((folder / "pool.json").read_text())
    nat = {"ipv4.address": "10.79.3.1/24", "ipv4.nat": "true", "ipv4.dhcp": "false", "ipv6.address": "none"}
    client.networks.create(BRIDGE, type="bridge", config=nat)
    nothing = {"ipv4.address": "none", "ipv6.address": "none", "dns.mode": "none"}
    client.networks.create(PRIVATE_BRIDGE, type="bridge", config=nothing)
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(lambda number: make_node(socket, number, image, pool, files), range(count)))
    controller = client.instances.get("b000")
    while controller.execute(["sinfo", "-h", "-N", "-o", "%T"]).stdout.split() != ["idle"] * count:
        time.sleep(0.1)


def down(socket: str, count: int) -> None:
    """Remove what `up` made."""

    def remove(number: int) -> None:
        with suppress(NotFound):  # after an `up` that failed
            instance = pylxd.Client(endpoint=socket).instances.get(f"b{number:03d}")
            if instance.status == "Running":
                instance.stop(force=True, wait=True)
            instance.delete(wait=True)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(remove, range(count)))
    for name in (BRIDGE, PRIVATE_BRIDGE):
        pylxd.Client(endpoint=socket).networks.get(name).delete()


if __name__ == "__main__":
    verb, count, image, folder, socket, *rest = sys.argv[1:]
    if verb == "up":
        up(socket, int(count), image, Path(folder), int(rest[0]) if rest else THREADS)
    else:
        down(socket, int(count))
