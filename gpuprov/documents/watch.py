"""`verify --watch`: what has changed since the round before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.verify.changes import Change


def watch_document(changes: Sequence[Change], *, host: str) -> dict[str, Any]:
    """The changes of one round."""
    return document("watch", host=host, changes=[change_document(change) for change in changes])


def change_document(change: Change) -> dict[str, Any]:
    """What is other with one node, or with the host."""
    return {
        "node": change.node or None,
        "before": change.before,
        "after": change.after,
        "simulated": change.simulated,
        "problems": [
            {"id": check.id, "status": check.status, "evidence": check.evidence, "fix": check.fix or None}
            for check in change.problems
        ],
        "well": list(change.well),
        "error": change.error or None,
    }
