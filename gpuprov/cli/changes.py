"""What `verify --watch` says: lines for people, one JSON document a line for programs."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from gpuprov.verify.report import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.verify.changes import Change

SCHEMA = "gpuprov.watch/v1"
CLUSTER_WORDS = {"error": "cannot be looked at", "ok": "answers again"}


def tell_changes(session: Session, changes: Sequence[Change]) -> None:
    """Say what has changed, on stdout and in the log."""
    at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = [line for change in changes for line in render_change(change)]
    if session.as_json:
        document = {"version": 1, "schema": SCHEMA, "at": at, "changes": [to_document(change) for change in changes]}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("".join(f"{at} {line}\n" for line in lines))
    sys.stdout.flush()
    for line in lines:
        session.log.note(line)


def render_change(change: Change) -> list[str]:
    """A line for the verdict, then one for each check that has changed."""
    if not change.node:
        return [f"the cluster {CLUSTER_WORDS[change.after]}{f': {change.error}' if change.error else ''}"]
    mark = f" {SIMULATED}" if change.simulated else ""
    step = change.after if change.before == change.after else f"{change.before} -> {change.after}"
    lines = [f"{change.node}: {step}{mark}"]
    for check in change.problems:
        lines.append(f"{change.node}:   {check.id}: {check.status}: {check.evidence}")
        lines += [f"{change.node}:     fix: {check.fix}"] if check.fix else []
    return lines + [f"{change.node}:   {name}: pass" for name in change.well]


def to_document(change: Change) -> dict[str, Any]:
    """A change, for programs."""
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
