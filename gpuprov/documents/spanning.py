"""A cluster that spans hosts, as verbs tell it: what they tell of one on one host, and the hosts besides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.core.error_document import error_parts
from gpuprov.documents.nodes import status_document
from gpuprov.documents.outcome import cluster_up_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.outcome import Outcome
    from gpuprov.planes.across.rows import NodeRow
    from gpuprov.shapes.verify import Report


def hosts_documents(
    names: Iterable[str], failed: Mapping[str, GpuprovError], away: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The hosts of a cluster: which of them answer, and why the others do not."""
    return [
        {
            "name": name,
            "status": "away" if name in away else "error" if name in failed else "ready",
            "away_since": away.get(name),
            "error": error_parts(failed[name]) if name in failed else None,
        }
        for name in names
    ]


def spanning_status_document(
    cluster: str, rows: Iterable[NodeRow], hosts: Sequence[Mapping[str, Any]], *, host: str, shared_folder: str
) -> dict[str, Any]:
    """Of `cluster status`; `host` is the machine that asked."""
    return {**status_document(cluster, rows, host=host, shared_folder=shared_folder), "hosts": list(hosts)}


def spanning_up_document(
    outcome: Outcome,
    rows: Iterable[NodeRow],
    hosts: Sequence[Mapping[str, Any]],
    report: Report | None,
    *,
    host: str,
) -> dict[str, Any]:
    """Of `cluster up`; `report` is what `verify` said."""
    return {**cluster_up_document(outcome, report, rows, host=host), "hosts": list(hosts)}
