"""`host list`, `host show` and `host remove`: the hosts that this user has added."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import Unreachable, UsageError
from gpuprov.core.names import fold
from gpuprov.core.outcome import Outcome
from gpuprov.core.reporter import Silent
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.documents.member_answers import read_rows
from gpuprov.host.remote.ask import MemberRequest, ask_member
from gpuprov.host.remote.bare_host import remove_there
from gpuprov.host.remote.connection import SshConnection
from gpuprov.host.remote.install_paths import PLACE, PROGRAM
from gpuprov.host.remote.inventory import forget_machine, read_machines
from gpuprov.host.remote.several import ask_hosts, failure_of
from gpuprov.host.remote.ssh_failure import NotInstalled
from gpuprov.workflows.member import ListOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.host.remote.places import Places
    from gpuprov.host.remote.several import HostAnswer

LOOK_S: Final = 25.0  # the engines there have 10 s of it


def look_at_hosts(machines: Sequence[RemoteMachine], places: Places) -> tuple[HostAnswer, ...]:
    """What each host says of itself; changes nothing."""
    request = MemberRequest(verb="look", document={}, total_s=scaled_limit_s(LOOK_S))
    return ask_hosts(dict.fromkeys(machines, request), places, reporter=Silent())


def ask_host(machine: RemoteMachine, places: Places) -> Mapping[str, Any]:
    """What one host says of itself; changes nothing.

    Raises:
        GpuprovError: It does not answer; how long it is known to be away is in the error.
    """
    (answer,) = look_at_hosts([machine], places)
    if answer.document is None:
        raise failure_of(answer)
    return answer.document


def remove_host(name: str, places: Places, *, forget: bool, reporter: Reporter) -> Outcome:
    """Remove gpuprov from a host without nodes, and the host from the inventory; no change if it is not there.

    The engine stays as it is, with its images. `host undo` there reverts what `host prepare` did.

    Args:
        name: The host.
        places: Where connections, host keys and the inventory are.
        forget: Leave the host as it is, also with nodes, and unreachable.
        reporter: Is told what goes on.

    Raises:
        UsageError: It has nodes.
        Unreachable: Nobody can tell.
    """
    machine = read_machines(places.inventory).get(name)
    if machine is None:
        return Outcome()
    connection = SshConnection(machine=machine, places=places)
    changed = []
    if not forget:
        with reporter.phase("look"):
            _refuse_nodes(connection, reporter)
        with reporter.phase("remove"):
            remove_there(connection, reporter)
        changed.append(f"removed {PLACE} of {name}")
    connection.close()
    connection.forget_key()
    places.mark_there(machine)
    if forget_machine(places.inventory, name):
        changed.append(f"removed {name} from {places.inventory}")
    return Outcome(changed=tuple(changed))


def _refuse_nodes(connection: SshConnection, reporter: Reporter) -> None:
    name = connection.machine.name
    forget = f"to leave the host as it is, and forget it: gpuprov host remove {name} --forget"
    try:
        request = MemberRequest(verb="list", document=asdict(ListOrder()), total_s=scaled_limit_s(LOOK_S))
        rows = read_rows(ask_member(connection, request, reporter=reporter), name)
    except NotInstalled:
        return  # a run was killed after it had removed it
    except Unreachable as error:
        raise type(error)(error.what, evidence=error.evidence, fix=f"{error.fix}; {forget}") from error
    if rows:
        clusters = sorted({row.cluster for row in rows})
        raise UsageError(
            f"{name} still has nodes",
            evidence=", ".join(
                fold([row.name for row in rows if row.cluster == cluster]) + f" of {cluster}" for cluster in clusters
            ),
            fix=f"on {name}: gpuprov cluster down {clusters[0]}; {forget}",
        )


def run_in_node_there(machine: RemoteMachine, places: Places, node: str, argv: Sequence[str]) -> int:
    """Run a command in a node of a host, with this process's own streams; returns its exit status.

    It is a command of its own over the connection, so that a terminal and binary streams pass as ssh passes them.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return SshConnection(machine=machine, places=places).attach([PROGRAM, "exec", node, "--", *argv], terminal=terminal)
