"""A cluster that spans hosts, as verbs tell it: what they tell of one on one host, and the hosts besides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.core.error_document import error_parts
from gpuprov.documents.envelope import document
from gpuprov.documents.nodes import status_document
from gpuprov.documents.outcome import cluster_up_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.outcome import Outcome
    from gpuprov.planes.rows import NodeRow


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
    reports: Iterable[Mapping[str, Any]],
    *,
    host: str,
) -> dict[str, Any]:
    """Of `cluster up`; `reports` are what `verify` told on each host."""
    told = cluster_up_document(outcome, None, rows, host=host)
    return {**told, "hosts": list(hosts), "verified": list(reports)}


def spanning_verify_document(cluster: str, level: str, reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of `verify`: the reports of all hosts as one, with the checks of each host under `hosts`."""
    verdicts = [str(report["verdict"]) for report in reports]
    worst = next((verdict for verdict in ("fail", "unknown", "warn", "pass") if verdict in verdicts), "unknown")
    return document(
        "verify",
        cluster=cluster,
        level=level,
        verdict=worst,
        passed=bool(reports) and all(report["passed"] is True for report in reports),
        simulated=any(report["simulated"] is True for report in reports),
        duration_s=max((float(report["duration_s"]) for report in reports), default=0.0),
        host=None,
        hosts=[report["host"] for report in reports if report["host"] is not None],
        nodes=[node for report in reports for node in report["nodes"]],
    )
