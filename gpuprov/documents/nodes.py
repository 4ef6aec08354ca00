"""Nodes in rows, as `list`, `cluster status`, `cluster up`, Ansible's modules and bundles tell them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.planes.across.rows import NodeRow


def row_document(row: NodeRow) -> dict[str, Any]:
    """One node; the word of its plane stands under `slurm`, whichever plane that is."""
    known = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(row).items()}
    known["slurm"], known["limits"] = known.pop("work"), asdict(row.limits)
    return known


def nodes_document(rows: Iterable[NodeRow], *, host: str) -> dict[str, Any]:
    """The nodes of every cluster."""
    return document("nodes", host=host, nodes=[row_document(row) for row in rows])


def status_document(cluster: str, rows: Iterable[NodeRow], *, host: str, shared_folder: str) -> dict[str, Any]:
    """The nodes of one cluster, and the folder of the host that they share."""
    nodes = [row_document(row) for row in rows]
    return document("cluster-status", host=host, cluster=cluster, shared_folder=shared_folder or None, nodes=nodes)
