"""What a verb changed, what `cluster up` did besides, and what it would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document
from gpuprov.documents.nodes import row_document
from gpuprov.gpu.allocate import describe_shared
from gpuprov.shapes.base import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.core.outcome import Outcome
    from gpuprov.planes.across.rows import NodeRow
    from gpuprov.shapes.verify import Report


def outcome_document(outcome: Outcome, *, host: str) -> dict[str, Any]:
    """Of every verb that changes something."""
    return document("outcome", host=host, changed=list(outcome.changed), unchanged=outcome.unchanged)


def cluster_up_document(
    outcome: Outcome, report: Report | None, rows: Iterable[NodeRow], *, host: str
) -> dict[str, Any]:
    """Of `cluster up`; `verify` is in it where the nodes were proven, `shared` where nodes share GPUs."""
    rows = tuple(rows)
    shared = describe_shared((row.host, row.gpus) for row in rows)
    return document(
        "cluster-up",
        host=host,
        changed=list(outcome.changed),
        unchanged=outcome.unchanged,
        **({"verify": write(report)} if report else {}),
        **({"shared": shared} if shared else {}),
        nodes=[row_document(row) for row in rows],
    )


def plan_document(
    lines: Iterable[str],
    beside: Iterable[str],
    older: Iterable[str] = (),
    *,
    host: str,
    shared: str = "",
    unlimited: Sequence[str] = (),
) -> dict[str, Any]:
    """Of `cluster plan`: a line for each change that there would be, and for nodes that would stay as they are.

    Args:
        lines: Of changes.
        beside: Of nodes that the spec does not have.
        older: Of nodes with an older image.
        host: The machine.
        shared: That nodes would share GPUs, in words; empty where each would have its own.
        unlimited: Of nodes that would stay without limits of processes and memory.
    """
    told = {**({"shared": shared} if shared else {}), **({"unlimited": list(unlimited)} if unlimited else {})}
    return document("plan", host=host, plan=list(lines), kept=list(beside), older=list(older), **told)


def nothing_to_do(older: Sequence[str]) -> str:
    """What a plan without changes says to people."""
    return "nothing to do but to replace nodes" if older else "nothing to do: the cluster matches its spec"
