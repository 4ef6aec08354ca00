"""What each node of a cluster must be: from its labels and the host's GPUs, both observed before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.people_files import keys_digest
from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.drivers.base import (
    LABEL_ACCESS,
    LABEL_ACCESS_REASON,
    LABEL_ADDRESS,
    LABEL_HOST_GPUS,
    LABEL_PEOPLE,
    LABEL_PRIVATE_ADDRESS,
    LABEL_ROLE,
    LABEL_SHARING,
)
from gpuprov.gpu.device_nodes import plan_device_nodes, plan_simulated_nodes
from gpuprov.gpu.simulate import node_document
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.sssd import LABEL_SSSD
from gpuprov.verify.checks.host import HOST
from gpuprov.verify.models import Expectation, HostProblem, Peer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import NodeState
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.node import CharDevice
    from gpuprov.shapes.whole import Member
    from gpuprov.verify.models import Observation

# A rule that opens every GPU opens this one too, on a host of one GPU as well; 254 and 255 are modeset and control.
_NOBODYS_MINOR: Final = 253
_LOW_MINORS: Final = (0, 1, 2, 3)
_COUNT_DIGITS: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Gpus:
    """The GPU side of an expectation."""

    devices: tuple[CharDevice, ...] = ()
    capability: tuple[int, int] | None = None
    denied: tuple[int, ...] = (*_LOW_MINORS, _NOBODYS_MINOR)
    driver_version: str | None = None
    problem: HostProblem | None = None
    simulation: dict[str, Any] | None = None


def expect_node(
    node: NodeState, state: ClusterState, host: HostGpus | GpuprovError | None, *, beside: Sequence[Member] = ()
) -> Expectation:
    """Put together what is known of one node.

    Args:
        host: GPUs of the host in the mode of the node's access; the error if they could not be told; None where the
            node holds none.
        beside: The cluster's running nodes on other hosts, which it reaches by the private network alone.
    """
    access = node.labels.get(LABEL_ACCESS, "none")
    uuids = leased_uuids(node)
    gpus = _expect_gpus(node.name, uuids, access, host)
    recorded = state.recorded if LABEL_PEOPLE in node.labels else None
    people = recorded.people if isinstance(recorded, ClusterSpec) else None
    return Expectation(
        node=node.name,
        cluster=state.name,
        status=node.status,
        complete=node.complete,
        role=node.labels.get(LABEL_ROLE, ""),
        access=access,
        access_reason=node.labels.get(LABEL_ACCESS_REASON, ""),
        gpus=uuids,
        sharing=node.labels.get(LABEL_SHARING, "shared"),
        devices=gpus.devices,
        capability=gpus.capability,
        denied=gpus.denied,
        driver_version=gpus.driver_version,
        host_problem=gpus.problem,
        simulation=gpus.simulation,
        peers=(*_peers(node, state.nodes), *_peers_beside(node, beside)),
        gateway=gateway_of(state) if _is_on(node, "eth0", LABEL_ADDRESS) else None,
        host=node.host,
        host_gpus=_count(node.labels.get(LABEL_HOST_GPUS, "")),
        shards_per_gpu=(state.settled.slurm.shards_per_gpu or 0) if state.settled else 0,
        people=None if people is None else {one.name: one.uid for one in people if one.uid is not None},
        people_keys=keys_digest(people or ()),
        of_directory=tuple(one.name for one in people or () if one.in_directory),
        sssd=LABEL_SSSD in node.labels if isinstance(state.recorded, ClusterSpec) and state.recorded.sssd else None,
    )


def expect_host(nodes: Sequence[Expectation], seen: Observation, *, name: str, gateway: str | None) -> Expectation:
    """What the host must be for these nodes; the GPUs that none of them is asked about are asked about here."""
    accesses = {node.access for node in nodes}
    driver = (seen.facts or {}).get("driver", {})
    real = driver.get("version") is not None or bool(accesses - {"none", "simulated"})
    access = "raw" if real else "simulated" if "simulated" in accesses else "none"
    looked_at = {uuid for node in nodes if node.status == "running" for uuid in node.gpus}
    gpus = ((seen.facts or {}).get("nvml") or {}).get("gpus", [])
    unlooked = tuple(gpu["uuid"] for gpu in gpus if not looked_at & {gpu["uuid"], *gpu["mig"]})
    most = max((node.host_gpus for node in nodes), default=0)
    return Expectation(
        node=HOST, status="running", access=access, gpus=unlooked, gateway=gateway, host=name, host_gpus=most
    )


def listed_gpus(seen: Observation) -> tuple[str, ...]:
    """UUIDs that NVML lists on the host."""
    return tuple(gpu["uuid"] for gpu in ((seen.facts or {}).get("nvml") or {}).get("gpus", []))


def _expect_gpus(node: str, uuids: tuple[str, ...], access: str, host: HostGpus | GpuprovError | None) -> _Gpus:
    if not uuids or host is None:
        return _Gpus()
    if isinstance(host, GpuprovError):
        return _Gpus(problem=HostProblem(evidence=f"{host.what}: {host.evidence}", fix=host.fix))
    units = {unit.uuid: unit for unit in host.units}
    gone = [uuid for uuid in uuids if uuid not in units]
    if gone:
        there = ", ".join(units) or "none"
        lost = f"; lost: {'; '.join(map(str, host.lost))}" if host.lost else ""
        return _Gpus(
            problem=HostProblem(
                evidence=f"the node holds {', '.join(gone)}, which this host does not have; present: {there}{lost}",
                fix=f"nvidia-smi -L; if it does not come back: gpuprov rm {node}; gpuprov cluster up",
            )
        )
    held = [units[uuid] for uuid in uuids]
    minors = {gpu.minor for gpu in held}
    denied = tuple(sorted({gpu.minor for gpu in host.gpus} - minors | {_NOBODYS_MINOR}))
    version = host.driver.version if host.driver else None
    if access == "simulated":
        document = node_document(dict(host.document or {}), uuids)
        devices = plan_simulated_nodes(held, driver_loaded=host.driver is not None)
        return _Gpus(devices=devices, denied=denied, driver_version=version, simulation=document)
    known = [gpu.compute_capability for gpu in held if gpu.compute_capability is not None]
    real = replace(_real_gpus(held, denied, host), capability=min(known, default=None))
    if access != "raw" and real.problem and host.driver:
        return replace(real, problem=None)  # the engine hands in what raw would lack
    return real


def _real_gpus(held: list[Gpu], denied: tuple[int, ...], host: HostGpus) -> _Gpus:
    if host.driver is None:
        return _Gpus(denied=denied, problem=HostProblem(evidence=host.reason, fix="modprobe nvidia && nvidia-smi"))
    try:
        devices = plan_device_nodes(held, host.driver)
    except HostNotReady as error:
        problem = HostProblem(evidence=f"{error.what}: {error.evidence}", fix=error.fix)
        return _Gpus(denied=denied, driver_version=host.driver.version, problem=problem)
    return _Gpus(devices=devices, denied=denied, driver_version=host.driver.version)


def _peers(node: NodeState, nodes: Sequence[NodeState]) -> tuple[Peer, ...]:
    """Every other finished node that runs, by its addresses on networks that the node is on too.

    A stopped one is not expected to answer.
    """
    public = _is_on(node, "eth0", LABEL_ADDRESS)
    private = _is_on(node, "eth1", LABEL_PRIVATE_ADDRESS)
    return tuple(
        Peer(
            name=other.name,
            address=other.labels.get(LABEL_ADDRESS, "") if public else "",
            private_address=other.labels.get(LABEL_PRIVATE_ADDRESS, "") if private else "",
        )
        for other in nodes
        if other.name != node.name and other.status == "running" and other.complete
    )


def _peers_beside(node: NodeState, beside: Sequence[Member]) -> tuple[Peer, ...]:
    if not _is_on(node, "eth1", LABEL_PRIVATE_ADDRESS):
        return ()
    return tuple(Peer(name=other.name, address="", private_address=other.private_address) for other in beside)


def _count(label: str) -> int:
    """A number of GPUs; 0 where an earlier version noted none, or the label is damaged."""
    return int(label) if label.isascii() and label.isdecimal() and len(label) <= _COUNT_DIGITS else 0


def _is_on(node: NodeState, interface: str, label: str) -> bool:
    """Whether a node has an address on a network, or is to have one."""
    return interface in node.addresses or bool(node.labels.get(label))


def gateway_of(state: ClusterState) -> str | None:
    """The host's address on the cluster's NAT network; a private one has none."""
    addresses = [network.address for network in state.own_networks if network.address]
    return addresses[0].partition("/")[0] if addresses else None
