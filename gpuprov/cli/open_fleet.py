"""The hosts that a verb is about."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cli import spanning

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.fleet import Fleet


def open_fleet(
    session: Session, engine: str | None = None, *, here_alone: bool = False, reporter: Reporter | None = None
) -> Fleet:
    """This machine and the hosts that were added; none is asked yet.

    Args:
        session: Of this run.
        engine: The one that was typed; this machine alone is meant then.
        here_alone: Whether it is without that, too.
        reporter: Is told of what goes on; the session's where None.
    """
    from gpuprov.fleet.fleet import Fleet

    return Fleet(
        here=session.host,
        others={} if here_alone or engine else spanning.remembered_hosts(),
        connect=partial(spanning.way_to_hosts, session, reporter),
        reporter=reporter or session.reporter,
        engine=engine or "",
    )
