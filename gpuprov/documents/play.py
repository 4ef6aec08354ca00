"""`play`: what a playbook did on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.provision.site import SiteResult


def play_document(playbook: Path, result: SiteResult) -> dict[str, Any]:
    """A run that has ended; where a host failed, the command line adds the error."""
    hosts = {
        host.stats.host: {
            "status": host.status,
            "ok": host.stats.ok,
            "changed": host.stats.changed,
            "failed": host.stats.failed,
            "unreachable": host.stats.unreachable,
            "skipped": host.stats.skipped,
            "task": host.problem.title if host.problem else None,
            "message": host.problem.message if host.problem else None,
        }
        for host in result.hosts
    }
    changes = [{"host": event.host, "task": event.title, "diff": event.diff or None} for event in result.changes]
    log = str(result.log) if result.log else None
    return document("play", play={"playbook": str(playbook), "hosts": hosts, "changes": changes, "log": log})
