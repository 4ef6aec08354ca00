"""Commands with this terminal's input and output in a node of any host."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.drivers.base import Driver
    from gpuprov.link.address import RemoteMachine


def enter(session: Session, node: str, engine: str | None, words: Sequence[str], run: Callable[[Driver], int]) -> int:
    """Run it here, or on the host that has the node, over ssh; returns its exit status.

    Args:
        session: Of this run.
        node: What is entered.
        engine: The one that was typed; this machine alone is meant then.
        words: The same command, as it is typed on the node's own host.
        run: Runs it on this machine.
    """
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.cluster.find_engine import open_engine_of_node
    from gpuprov.fleet.where import find_host

    machine = find_host(open_fleet(session, engine), node)
    if machine is not None:
        return _run_on_host(session, machine, words)
    return run(open_engine_of_node(node, engine or "", session.host, reporter=session.reporter))


def _run_on_host(session: Session, machine: RemoteMachine, words: Sequence[str]) -> int:
    from gpuprov.cli.open_fleet import way_to_hosts
    from gpuprov.link.install_paths import PROGRAM

    said = {"--quiet": session.quiet, "--verbose": session.verbose, "--json": session.as_json}
    flags = [flag for flag, given in said.items() if given]
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json
    session.members.close()  # that may take hours
    return way_to_hosts(session).attach(machine, [PROGRAM, *flags, *words], terminal=terminal)
