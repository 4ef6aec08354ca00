"""What a verb changed, what `cluster up` did besides, and what it would do."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import Document, derive
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.nodes import HostStatus, NodeRow, describe_shared
from gpuprov.shapes.verify import Report
from gpuprov.shapes.words import Words


class Changes(Document, frozen=True, kw_only=True, tag="gpuprov.outcome/v1"):
    """What a verb changed.

    Attributes:
        host: Name of the host.
        changed: A line for each change.
        unchanged: Whether everything was as asked already.
        error: There where some hosts of the cluster did not answer or do their part.
    """

    host: str
    changed: tuple[Words, ...]
    unchanged: bool = False
    error: ErrorParts | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Derive what follows from the changes."""
        derive(self, unchanged=not self.changed)


class ClusterUp(Document, frozen=True, kw_only=True, tag="gpuprov.cluster-up/v1"):
    """The document of `gpuprov cluster up --json`.

    Attributes:
        host: Name of the host.
        changed: A line for each change.
        unchanged: Whether everything was as asked already.
        verify: There where the nodes were proven.
        shared: There where nodes of the cluster share GPUs: `6 nodes share 4 GPUs`.
        hosts: There where the cluster spans hosts: each of them.
        error: There where some hosts did not answer or do their part.
    """

    host: str
    changed: tuple[Words, ...]
    unchanged: bool = False
    verify: Report | UnsetType = UNSET
    shared: str | UnsetType = UNSET
    nodes: tuple[NodeRow, ...]
    hosts: tuple[HostStatus, ...] | UnsetType = UNSET
    error: ErrorParts | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Derive what follows from the changes, and from the nodes."""
        shared = describe_shared((row.host, row.gpus) for row in self.nodes)
        derive(self, unchanged=not self.changed, shared=shared or UNSET)


class Plan(Document, frozen=True, kw_only=True, tag="gpuprov.plan/v1"):
    """The document of `gpuprov cluster plan --json`.

    Attributes:
        host: Name of the host.
        plan: A line for each change that `cluster up` would make.
        kept: A line for each node from `create-node` or `clone` that the spec does not have and that stays unless
            `--prune` is given.
        older: A line for each node with an older image than it would be made from now, and what it lacks; nodes that
            lack the same have one line.
        shared: There where nodes of the cluster would share GPUs: `6 nodes share 4 GPUs`.
        unlimited: There where nodes would stay without limits of processes and memory: a line that names them.
        error: There where jobs are why `cluster up` would be refused, or some hosts of the cluster did not answer.
    """

    host: str
    plan: tuple[Words, ...]
    kept: tuple[Words, ...] = ()
    older: tuple[Words, ...] = ()
    shared: str | UnsetType = UNSET
    unlimited: tuple[Words, ...] | UnsetType = UNSET
    error: ErrorParts | UnsetType = UNSET
