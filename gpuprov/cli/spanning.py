"""The hosts that were added, and the way to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.failure import show_result as show_result  # noqa: PLC0414

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cli.session import Session
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.remote.hosts import HostsBySsh
    from gpuprov.host.remote.machine import RemoteMachine


def remembered_hosts() -> Mapping[str, RemoteMachine]:
    """Those that `host add` has remembered."""
    from gpuprov.host.remote.inventory import read_machines
    from gpuprov.host.remote.places import ensure_places

    return read_machines(ensure_places().inventory)


def way_to_hosts(session: Session, reporter: Reporter | None = None) -> HostsBySsh:
    """By ssh; what hosts say of their progress, `reporter` is told, or else the session's."""
    from gpuprov.host.remote.hosts import HostsBySsh

    return HostsBySsh(members=session.members, reporter=reporter or session.reporter)
