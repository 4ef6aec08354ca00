"""How planning, status and inventory of a cluster over many hosts grow: fake hosts of 8 GPUs, nothing is made.

Usage: python -m benchmarks.many_hosts [--hosts 10 30 100 300 1000] [--rounds 3]

Each host has eight nodes with a GPU each, so 1,000 hosts are 8,000 nodes. What is measured is gpuprov's own code
between the answers of the hosts and its output; neither ssh nor an engine takes part. Times are of the processor (the
median of the rounds), so that they say the same on a busy machine; each number of hosts runs in a process of its own,
whose largest size is told. Prints a table in Markdown; docs/benchmarks.md holds one.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import describe
from gpuprov.cluster.files import render_hosts
from gpuprov.cluster.offer import make_offer
from gpuprov.cluster.placement import Place, place_nodes
from gpuprov.cluster.slices import slice_cluster
from gpuprov.cluster.state import ClusterState
from gpuprov.cluster.whole import dump_whole, parse_whole
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_GPUS, LABEL_ROLE, LABEL_SHARING, NodeState
from gpuprov.gpu.allocate import Claims, Lease
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.inventory import join_inventories, tell_nodes
from gpuprov.lifecycle.rows import node_row
from gpuprov.machine.overlay.links import OverlayLink
from gpuprov.machine.overlay.plan import OverlayRequest, plan_overlay
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.shapes.base import changed, encode, read, write
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, HostSpec, NetworkSpec, NodesSpec
from gpuprov.shapes.members import Offer, Room
from gpuprov.shapes.node import CharDevice
from gpuprov.shapes.nodes import ClusterStatus
from gpuprov.shapes.whole import Member, WholeCluster
from gpuprov.spec.addressing import node_name
from gpuprov.spec.serialize import dump_spec
from gpuprov.verify.chain import judge_between
from gpuprov.verify.models import Expectation, Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.gpu.models import HostGpus

GPUS = 8
MIB = 1024**2
MS = 1000.0
COUNTS = (10, 30, 100, 300, 1000)
NETWORK = NetworkSpec(subnet="10.64.0.0/16", private_subnet="10.65.0.0/16")
NOWHERE = Path("/nonexistent")  # without a driver, so that GPUs are simulated


@dataclass(frozen=True, kw_only=True)
class FakeMember:
    """A host and the nodes that it has."""

    name: str
    place: Place
    nodes: tuple[NodeState, ...]


def spec_of(hosts: int, more_nodes: int = 0) -> ClusterSpec:
    """A cluster of eight nodes a host."""
    return ClusterSpec(
        nodes=NodesSpec(count=hosts * GPUS + more_nodes),
        gpus=GpuSpec(per_node=1, sharing="exclusive"),
        network=NETWORK,
        hosts=tuple(HostSpec(name=f"h{number:04d}", internal_ip=underlay(number)) for number in range(hosts)),
    )


def underlay(number: int) -> str:
    """Address of a host on the network between them."""
    return f"10.9.{number // 250}.{number % 250 + 1}"


def gpus_of(number: int, pattern: HostGpus) -> HostGpus:
    """Eight GPUs whose UUIDs no other host has."""
    return replace(pattern, gpus=tuple(replace(gpu, uuid=f"GPU-{number:08x}{gpu.uuid[12:]}") for gpu in pattern.gpus))


def node_of(number: int, host: str, uuid: str, minor: int) -> NodeState:
    """A node that holds one GPU, as an engine shows it."""
    labels = {LABEL_CLUSTER: "lab", LABEL_ROLE: "slurm", LABEL_GPUS: uuid, LABEL_SHARING: "exclusive"}
    address = f"{(number + 2) // 256}.{(number + 2) % 256}/16"
    return NodeState(
        name=node_name("c", number),
        status="running",
        host=host,
        labels={**labels, LABEL_FINGERPRINT: "f" * 64},
        addresses={"eth0": f"10.64.{address}", "eth1": f"10.65.{address}"},
        devices=(CharDevice(path=f"/dev/nvidia{minor}", major=195, minor=minor),),
    )


def members_of(hosts: int, *, empty: bool) -> list[FakeMember]:
    """The hosts, with their nodes or without any."""
    pattern = observe(root=NOWHERE, mode="simulated", simulated_count=GPUS)
    found = []
    for number in range(hosts):
        name, gpus = f"h{number:04d}", gpus_of(number, pattern)
        nodes = tuple(node_of(number * GPUS + index, name, unit.uuid, index) for index, unit in enumerate(gpus.units))
        nodes = () if empty else nodes
        leases = tuple(
            Lease(node=node.name, host=name, gpus=(node.labels[LABEL_GPUS],), sharing="exclusive") for node in nodes
        )
        place = Place(host=name, gpus=gpus, leases=leases, claims=Claims(engine="lxd"))
        found.append(FakeMember(name=name, place=place, nodes=nodes))
    return found


def offers_of(spec: ClusterSpec, members: list[FakeMember]) -> list[Offer]:
    """What each host offers, by its own rules."""
    found = []
    for member in members:
        state = ClusterState(name="lab", recorded=None, settled=None, nodes=member.nodes, others=(), networks=())
        found.append(make_offer(spec, state, member.place, Room(), most=spec.nodes.count))
    return found


def told(offers: list[Offer]) -> list[Offer]:
    """The same offers, once they have passed as JSON."""
    return [read(Offer, write(offer)) for offer in offers]


def whole_of(members: list[FakeMember]) -> WholeCluster:
    """The nodes of all hosts as one value."""
    found = []
    for member in members:
        for node in member.nodes:
            public, private = (node.addresses[nic].partition("/")[0] for nic in ("eth0", "eth1"))
            one = Member(name=node.name, address=public, private_address=private, role="slurm", host=member.name)
            paths = tuple(device.path for device in node.devices)
            found.append(changed(one, devices=paths, gpus=(node.labels[LABEL_GPUS],), cpus=64, memory_bytes=1 << 40))
    return WholeCluster(serial=1, members=tuple(found))


def render(spec: ClusterSpec, whole: WholeCluster) -> int:
    """The files that every node has; returns their size in bytes."""
    members = whole.reachable_members()
    machine = Machine(cpus=64, memory_bytes=1 << 40)
    files = (render_hosts("lab", members), *render_slurm(spec, members, machine))
    return sum(len(file.content) for file in files)


def status(members: list[FakeMember]) -> int:
    """`cluster status --json`; returns its size in bytes."""
    rows = [node_row(node, "idle", engine="lxd") for member in members for node in member.nodes]
    return len(encode(ClusterStatus(host="h0000", cluster="lab", shared_folder=None, nodes=tuple(rows))))


def inventory(members: list[FakeMember], gpus: HostGpus) -> int:
    """Ansible's inventory; returns the number of its hosts."""
    nodes = [("lxd", node) for member in members for node in member.nodes]
    return len(join_inventories({"h0000": tell_nodes(nodes, lambda _mode: gpus)}, "h0000").hosts)


def overlay(hosts: int) -> int:
    """What a new host has to do for its end of the overlay; returns the number of steps."""
    peers = tuple(underlay(number) for number in range(1, hosts))
    request = OverlayRequest(cluster="lab", vni=77, port=4789, bridge="gpbr1", local=underlay(0), peers=peers, mtu=1450)
    return len(plan_overlay(request, {"gpbr1": OverlayLink(name="gpbr1", kind="bridge", mtu=1450, up=True)}, ()))


def judge(hosts: int) -> int:
    """The checks between hosts, of all of them; returns how many were asked."""
    drivers: Mapping[str, str | None] = {f"h{number:04d}": "550.54" for number in range(hosts)}
    facts = {"versions": {"there": "1", "here": "1"}, "clock": {"ahead_s": 0, "unsure_s": 0}, "drivers": drivers}
    asked = 0
    for name in drivers:
        expected = Expectation(node=name, status="running", host=name)
        asked += len(judge_between(expected, Observation(facts={**facts, "overlay": None})).checks)
    return asked


def measure(hosts: int, rounds: int) -> dict[str, Any]:
    """Times in milliseconds, and sizes."""
    spec, grown = spec_of(hosts), spec_of(hosts + 1)
    empty, full = members_of(hosts, empty=True), members_of(hosts, empty=False)
    names, more = ([node_name("c", number) for number in range(one.nodes.count)] for one in (spec, grown))
    offers, kept = offers_of(spec, empty), offers_of(spec, full)
    grown_offers = [*kept, changed(offers[0], host=f"h{hosts:04d}")]
    packed = changed(spec, placement=changed(spec.placement, strategy="pack"))
    placed = place_nodes(spec, names, offers)
    whole = whole_of(full)
    text = dump_whole(whole)
    acts: dict[str, Callable[[], object]] = {
        "an offer, on the host": partial(offers_of, spec, empty[:1]),
        "offers read": partial(told, offers),
        "plan, spread": partial(place_nodes, spec, names, offers),
        "plan, packed": partial(place_nodes, packed, names, offers),
        "plan, one host more": partial(place_nodes, grown, more, grown_offers),
        "slices": partial(slice_cluster, spec, placed),
        "all nodes written": partial(dump_whole, whole),
        "all nodes read": partial(parse_whole, text, source="network gpbr0"),
        "files of a node": partial(render, spec, whole),
        "status": partial(status, full),
        "inventory": partial(inventory, full, full[0].place.gpus),
        "overlay of a host": partial(overlay, hosts),
        "checks between hosts": partial(judge, hosts),
    }
    times = {what: statistics.median(processor_ms(act) for _ in range(rounds)) for what, act in acts.items()}
    sizes = {
        "spec as a label, KiB": len(dump_spec(spec)) / 1024,
        "all nodes as a label, KiB": len(text) / 1024,
        "files of a node, KiB": render(spec, whole) / 1024,
        "steps for the overlay of a host": overlay(hosts),
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
    return {"times": times, "sizes": {**sizes, "largest size of the process, MiB": peak}}


def processor_ms(act: Callable[[], object]) -> float:
    """What a call takes of the processor."""
    started = time.process_time()
    act()
    return (time.process_time() - started) * MS


def render_table(found: Mapping[int, Mapping[str, Any]]) -> str:
    """A row for each thing that was measured, a column for each number of hosts."""
    first = next(iter(found.values()))
    rows = [["", *(f"{hosts:,} hosts" for hosts in found)], ["---"] * (len(found) + 1)]
    rows += [[f"{what}, ms", *(f"{one['times'][what]:,.1f}" for one in found.values())] for what in first["times"]]
    rows += [[what, *(f"{one['sizes'][what]:,.0f}" for one in found.values())] for what in first["sizes"]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure each number of hosts in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="measure the first number of hosts, in this process")
    asked = parser.parse_args()
    if asked.json:
        sys.stdout.write(json.dumps(measure(asked.hosts[0], asked.rounds)))
        return
    found = {}
    for hosts in asked.hosts:
        argv = [sys.executable, "-m", "benchmarks.many_hosts", "--json", "--hosts", str(hosts)]
        done = subprocess.run([*argv, "--rounds", str(asked.rounds)], check=True, capture_output=True, text=True)
        found[hosts] = json.loads(done.stdout)
        sys.stderr.write(f"{hosts} hosts: done\n")
    sys.stdout.write(f"{describe()}\n\n{render_table(found)}\n")


if __name__ == "__main__":
    main()
