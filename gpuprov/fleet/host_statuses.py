"""Which hosts of a cluster answer, and why the others do not, as documents tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.error_document import error_parts
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.nodes import HostStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.core.errors import GpuprovError


def host_statuses(
    names: Iterable[str], failed: Mapping[str, GpuprovError], away: Mapping[str, str]
) -> tuple[HostStatus, ...]:
    """Each of the hosts."""
    return tuple(
        HostStatus(
            name=name,
            status="away" if name in away else "error" if name in failed else "ready",
            away_since=away.get(name),
            error=ErrorParts(**error_parts(failed[name])) if name in failed else None,
        )
        for name in names
    )
