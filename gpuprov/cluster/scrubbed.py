"""What a cluster that scrubs GPUs between people cannot protect: GPUs that nodes share, and those of nodes that go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter


def refuse_shared(spec: ClusterSpec, designs: Iterable[NodeDesign]) -> None:
    """Refuse nodes with jobs whose GPUs are shared, by variables or as they were created, where the spec says scrub.

    Args:
        spec: Of the cluster.
        designs: Its nodes as they are to be.

    Raises:
        UsageError: There is such a node.
    """
    if not spec.gpus.scrub:
        return
    for design in designs:
        if design.gpus and design.sharing != "exclusive" and design.role == spec.nodes.role:
            raise UsageError(
                f"{design.name} shares its GPUs, and a scrub between people would protect nothing there",
                evidence="gpus.scrub is true, but other nodes may use these GPUs at the same time and find what jobs "
                "left; NVIDIA_VISIBLE_DEVICES alone asks for shared GPUs",
                fix=f"for a new node: --gpus 1 --exclusive, without that variable; for one that exists: "
                f"gpuprov rm {design.name}, or gpus.scrub: false",
            )


def tell_of_leaving(leaving: Iterable[tuple[ClusterState, Sequence[str]]], reporter: Reporter) -> None:
    """Say that memory of the GPUs of nodes that go is not overwritten, where people of their cluster may expect it."""
    for state, nodes in leaving:
        if nodes and isinstance(state.recorded, ClusterSpec) and state.recorded.gpus.scrub:
            reporter.note(
                f"memory of the GPUs of {fold(tuple(nodes))} is not scrubbed now: a cluster with gpus.scrub does so "
                "before a job, others may find what was left"
            )
