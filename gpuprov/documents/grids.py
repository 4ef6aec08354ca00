"""Grids of a cluster, as `grid run` and the verbs beside it tell them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.host.pulled_runs import Pulled
    from gpuprov.planes.work.grid_answers import GridSubmitted, GridTable
    from gpuprov.planes.work.grid_status import GridStatus


def grid_submitted_document(submitted: GridSubmitted, *, cluster: str, host: str) -> dict[str, Any]:
    """What was submitted, and what was not missing."""
    told = {**asdict(submitted), "runs": list(submitted.runs)}
    return document("grid-submitted", host=host, cluster=cluster, **told)


def grid_local_document(project: Path, exit_code: int, *, host: str) -> dict[str, Any]:
    """That runs were made on this machine."""
    return document("grid-local", host=host, project=project.name, folder=str(project / "runs"), exit_code=exit_code)


def grid_status_document(status: GridStatus, *, cluster: str, host: str) -> dict[str, Any]:
    """What has become of the runs."""
    runs = [{**asdict(run), "gpus": list(run.gpus)} for run in status.runs]
    return document("grid-status", host=host, cluster=cluster, project=status.project, counts=status.counts, runs=runs)


def grid_results_document(table: GridTable, project: str, *, cluster: str, host: str) -> dict[str, Any]:
    """All runs as a table."""
    return document(
        "grid-results",
        host=host,
        cluster=cluster,
        project=project,
        simulated=table.simulated,
        columns=list(table.columns),
        rows=[*map(list, table.rows)],
    )


def grid_pulled_document(pulled: Pulled, project: str, *, cluster: str, host: str) -> dict[str, Any]:
    """What came to this machine."""
    return document(
        "grid-pulled",
        host=host,
        cluster=cluster,
        project=project,
        folder=str(pulled.folder),
        table=str(pulled.table),
        runs=list(pulled.runs),
        here=pulled.here,
        files=pulled.files,
        bytes=pulled.total_bytes,
    )
