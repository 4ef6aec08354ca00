"""What `verify --watch` says: lines for people, one JSON document a line for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.session import moment
from gpuprov.core.printable import continued
from gpuprov.shapes.watch import Watch
from gpuprov.verify.report import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.shapes.watch import Change

CLUSTER_WORDS = {"error": "cannot be checked", "ok": "responds again"}


def tell_changes(session: Session, changes: Sequence[Change]) -> None:
    """Say what has changed, on stdout and in the log."""
    at = moment()
    lines = [line for change in changes for line in render_change(change)]
    text = "\n".join(f"{at} {line}" for line in lines)
    session.show_round(Watch(at=at, host=session.host.name, changes=tuple(changes)), text, at=at)
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
        lines.append(continued(f"{change.node}:   {check.id}: {check.status}: {check.evidence}"))
        lines += [f"{change.node}:     fix: {check.fix}"] if check.fix else []
    return lines + [f"{change.node}:   {name}: pass" for name in change.well]
