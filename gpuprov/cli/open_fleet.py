"""The hosts that a verb is about."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cli import spanning

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.fleet.fleet import Fleet


def open_fleet(session: Session, *, here_alone: bool = False) -> Fleet:
    """This machine and the hosts that were added, or this machine alone; none is asked yet."""
    from gpuprov.fleet.fleet import Fleet

    return Fleet(
        here=session.host,
        others={} if here_alone else spanning.remembered_hosts(),
        connect=partial(spanning.way_to_hosts, session),
        reporter=session.reporter,
    )
