"""The hosts that a verb is about."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cli.session import Session
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import HostsBySsh


def open_fleet(
    session: Session, engine: str | None = None, *, here_alone: bool = False, reporter: Reporter | None = None
) -> Fleet:
    """This machine and the hosts that were added; none is asked yet.

    Args:
        engine: The one that was typed; this machine alone is meant then.
        here_alone: Whether it is without that, too.
        reporter: Is told of what goes on; the session's where None.
    """
    from gpuprov.fleet.fleet import Fleet

    return Fleet(
        here=session.host,
        others={} if here_alone or engine else _remembered_or_unknown(),
        connect=partial(way_to_hosts, session, reporter),
        reporter=reporter or session.reporter,
        engine=engine or "",
    )


def _remembered_or_unknown() -> Mapping[str, RemoteMachine]:
    from gpuprov.core.errors import UsageError

    try:
        return remembered_hosts()
    except UsageError as error:  # of the inventory: what this machine has can be used all the same
        from gpuprov.fleet.fleet import UnknownHosts

        return UnknownHosts(error)


def remembered_hosts() -> Mapping[str, RemoteMachine]:
    """Those that `host add` has remembered."""
    from gpuprov.link.hosts_file import read_machines
    from gpuprov.link.places import ensure_places

    return read_machines(ensure_places().inventory)


def way_to_hosts(session: Session, reporter: Reporter | None = None) -> HostsBySsh:
    """By ssh; what hosts say of their progress, `reporter` is told, or else the session's."""
    from gpuprov.link.hosts import HostsBySsh

    return HostsBySsh(members=session.members, reporter=reporter or session.reporter)


def open_controller(session: Session, engine: str | None, cluster: str) -> Driver:
    """The way to the nodes that take a cluster's jobs, here or on its hosts."""
    from gpuprov.fleet.where import reach_controller

    return reach_controller(open_fleet(session, engine), cluster)
