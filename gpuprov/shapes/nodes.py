"""Nodes in rows, as `list`, `cluster status`, `cluster up`, Ansible's modules, members and bundles tell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, Literal

from msgspec import UNSET, UnsetType, field
from msgspec.structs import force_setattr

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.node import NodeLimits
from gpuprov.shapes.words import GpuUuid, Word, Words

OLD_IMAGE: Final = "old image: {}"
RowStatus = Literal["running", "stopped", "frozen", "error", "unreachable", "missing"]


class NodeRow(Shape, frozen=True, kw_only=True):
    """One node, as tables and documents show it.

    Attributes:
        host: Name of the host that it is on.
        cluster: `(foreign)` for what gpuprov did not make.
        engine: `lxd`, `incus` or `docker`.
        role: What it is for; empty for what gpuprov did not make.
        status: `unreachable` on a host that does not answer, `missing` where its host has no such node; both only of
            clusters that span hosts.
        address: On the NAT network; empty where it is not on it.
        private_address: On the private network; empty where it is not on it.
        gpus: UUIDs of the GPUs or MIG instances that it holds.
        devices: Their device nodes.
        sharing: `exclusive` or `shared`; empty where it holds no GPU.
        simulated: Whether its GPUs are simulated.
        work: The word of its role for it, whichever role that is, such as `idle`; empty where there is none.
        health: `ok`; `old image` with what that lacks, or what is wrong, and the command that mends it; of a copy of a
            node, which node it is a copy of; empty for what else gpuprov did not make.
        limits: What it may use of its host.
        slurm: As `work`, whose name it was, until the next release.
    """

    name: Word
    host: Word
    cluster: Word
    engine: Word
    role: Word
    status: RowStatus
    address: Word
    private_address: Word
    gpus: tuple[GpuUuid, ...]
    devices: tuple[Word, ...]
    sharing: Word
    simulated: bool
    work: Word
    health: Words
    image: Word
    limits: NodeLimits = field(default_factory=NodeLimits)
    slurm: Word = ""

    def __post_init__(self) -> None:
        force_setattr(self, "slurm", self.work)

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with it; an older image is no fault."""
        return self.health == "ok" or self.health.startswith(OLD_IMAGE.format(""))


class HostStatus(Shape, frozen=True, kw_only=True):
    """A host of a cluster, and why it did not answer or do its part.

    Attributes:
        away_since: When this machine first failed to reach it, in UTC.
    """

    name: Word
    status: Literal["ready", "away", "error"]
    away_since: Word | None
    error: ErrorParts | None


def describe_shared(held: Iterable[tuple[str, Sequence[str]]]) -> str:
    """That nodes of a cluster share GPUs, in words: `6 nodes share 4 GPUs`; empty where each has its own.

    Args:
        held: For each node its host and the UUIDs that it holds.
    """
    leased = [[(host, uuid) for uuid in uuids] for host, uuids in held if uuids]
    units = set(chain.from_iterable(leased))
    if sum(map(len, leased)) == len(units):
        return ""
    return f"{len(leased)} nodes share {len(units)} GPU{'' if len(units) == 1 else 's'}"


class Nodes(Document, frozen=True, kw_only=True, tag="gpuprov.nodes/v1"):
    """The document of `gpuprov list --json`: the nodes of every cluster, on every engine.

    Attributes:
        host: Name of the host.
        error: There where some hosts did not answer.
    """

    host: str
    nodes: tuple[NodeRow, ...]
    error: ErrorParts | UnsetType = UNSET


class ListedCluster(Shape, frozen=True, kw_only=True):
    """A cluster that has nodes.

    Attributes:
        hosts: Those that have nodes of it.
        running: How many of the nodes are running.
        gpus: How many GPUs or MIG instances the nodes hold; one that several share counts once.
        simulated: Whether these are simulated.
    """

    name: Word
    hosts: tuple[Word, ...]
    engines: tuple[Word, ...]
    roles: tuple[Word, ...]
    nodes: int
    running: int
    gpus: int
    simulated: bool


class Clusters(Document, frozen=True, kw_only=True, tag="gpuprov.clusters/v1"):
    """The document of `gpuprov cluster list --json`: the clusters that have nodes, on every engine.

    Attributes:
        host: Name of the host.
        error: There where some hosts did not answer.
    """

    host: str
    clusters: tuple[ListedCluster, ...]
    error: ErrorParts | UnsetType = UNSET


class ClusterStatus(Document, frozen=True, kw_only=True, tag="gpuprov.cluster-status/v1"):
    """The document of `gpuprov cluster status --json`: the nodes of one cluster, and the folder that they share.

    Attributes:
        host: Name of the host.
        shared_folder: Folder of the host that the nodes share; null if there is none.
        hosts: There where the cluster spans hosts: each of them.
        error: There where some hosts did not answer or do their part.
    """

    host: str
    cluster: Word
    shared_folder: str | None
    nodes: tuple[NodeRow, ...]
    hosts: tuple[HostStatus, ...] | UnsetType = UNSET
    error: ErrorParts | UnsetType = UNSET
