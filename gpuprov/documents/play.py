"""`play`: what a playbook did on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.provision.site import SiteResult


def play_document(playbook: Path, result: SiteResult, *, host: str) -> dict[str, Any]:
    """A run that has ended, on this host; where a host failed, the command line adds the error."""
    hosts = {
        one.stats.host: {
            "status": one.status,
            "ok": one.stats.ok,
            "changed": one.stats.changed,
            "failed": one.stats.failed,
            "unreachable": one.stats.unreachable,
            "skipped": one.stats.skipped,
            "task": one.problem.title if one.problem else None,
            "message": one.problem.message if one.problem else None,
        }
        for one in result.hosts
    }
    changes = [{"host": event.host, "task": event.title, "diff": event.diff or None} for event in result.changes]
    log = str(result.log) if result.log else None
    play = {"playbook": str(playbook), "hosts": hosts, "changes": changes, "log": log}
    return document("play", host=host, play=play)
