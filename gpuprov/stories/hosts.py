"""`host add`, `list`, `show` and `remove`: the hosts that this user has added, and how one becomes one of them."""

from __future__ import annotations

import platform
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov import __version__
from gpuprov.core.errors import HostNotReady, TimedOut, Unreachable, UsageError
from gpuprov.core.names import fold
from gpuprov.core.outcome import Outcome
from gpuprov.core.own_folders import make_own_folder
from gpuprov.core.reporter import Silent
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.units import GIB
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest, ask_member
from gpuprov.link.bare_host import install_there, look_at_bare_host, remove_there
from gpuprov.link.connection import SshConnection
from gpuprov.link.hosts_file import forget_machine, read_machines, remember_machine
from gpuprov.link.install_paths import PLACE
from gpuprov.link.members import MemberProcesses
from gpuprov.link.several import ask_hosts, told_by
from gpuprov.link.ssh_failure import NotInstalled
from gpuprov.provision.own_wheel import own_files, own_fingerprint, own_requirements, pack_wheel
from gpuprov.provision.rootfs import default_cache
from gpuprov.provision.wheels import ensure_wheels
from gpuprov.shapes.nodes import Nodes
from gpuprov.shapes.orders import ListOrder, LookOrder, PrepareOrder
from gpuprov.shapes.outcome import Changes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.bare_host import BareHost
    from gpuprov.link.places import Places
    from gpuprov.link.several import HostAnswer
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.nodes import NodeRow

ROOM_BYTES: Final = GIB
SKEW_S: Final = 60.0
PYTHON: Final = (3, 10)
LOOK_S: Final = 25.0  # the engines there have 10 s of it


@dataclass(frozen=True, kw_only=True)
class AddOrder:
    """What `host add` is asked for.

    Attributes:
        machine: The host and the way to it.
        engine: Which engine to prepare there; empty for the default one of that host.
    """

    machine: RemoteMachine
    engine: str = ""


def add_host(order: AddOrder, places: Places, *, reporter: Reporter) -> Outcome:
    """Have a host ready for nodes; a second run changes nothing, and goes on where a killed one ended.

    Args:
        places: Where connections, host keys and the inventory are.

    Raises:
        Unreachable: ssh does not come through; its words are the evidence.
        HostNotReady: The host lacks something; nothing of it was changed.
        GpuprovError: A later step failed; the same command goes on with it.
    """
    machine = order.machine
    make_own_folder(places.config, variable="XDG_CONFIG_HOME")
    connection = SshConnection(machine=machine, places=places, takes_new_key=True)
    changed = []
    known = connection.known_fingerprint()
    try:
        with reporter.phase("connect"):
            facts = look_at_bare_host(connection, reporter)
    finally:  # also of a host that does not let this user in: nobody is asked again
        if not known and (shown := connection.known_fingerprint()):
            changed.append(f"accepted the host key of {machine.name}: {shown}")
            reporter.note(changed[0])
    refuse_unfit(machine, facts)
    files = own_files()
    name = f"{__version__}-{own_fingerprint(files)}-{facts.python}"
    if facts.installed != name:
        wheels = _gather(files, facts.python, machine, reporter)
        with reporter.phase("install"):
            install_there(connection, name, wheels, reporter)
        changed.append(f"installed gpuprov {__version__} on {machine.name}: {PLACE}")
    if remember_machine(places.inventory, machine):
        changed.append(f"added {machine.name} to {places.inventory}")
    with reporter.phase("prepare"):
        request = MemberRequest(order=PrepareOrder(engine=order.engine))
        prepared = ask_member(connection, request, reporter=reporter)
    changed += [f"{machine.name}: {line}" for line in read_answer(Changes, prepared, machine.name).changed]
    return Outcome(changed=tuple(changed))


def refuse_unfit(machine: RemoteMachine, facts: BareHost) -> None:
    """Refuse a host that cannot have gpuprov, with all that is wrong at once.

    Raises:
        HostNotReady: It cannot.
    """
    problems = find_unfit(machine, facts)
    if problems:
        raise HostNotReady(
            f"{machine.name} cannot be added",
            evidence="\n".join(evidence for evidence, _ in problems),
            fix="; ".join(dict.fromkeys(fix for _, fix in problems)),
        )


def find_unfit(machine: RemoteMachine, facts: BareHost) -> list[tuple[str, str]]:
    """What a host lacks: the evidence and what to do, for each. Pure."""
    least = ".".join(map(str, PYTHON))
    on = f"on {machine.name}: "
    if not facts.machine:  # nothing else could be found out
        seen = f"its python3 is {facts.python}" if facts.python else "it has no python3"
        return [(f"{seen}; gpuprov needs Python {least} or newer", f"{on}apt-get install python3")]
    found = []
    if facts.system != "Linux":
        found.append((f"it runs {facts.system}, and nodes need Linux", "add a host with Linux"))
    if facts.uid != 0:
        fix = f"gpuprov host add {machine.name} --address {machine.address} --user root"
        found.append((f"ssh logs in as uid {facts.uid}, and root is needed", fix))
    if facts.machine != platform.machine():
        evidence = f"its processor is {facts.machine}, and that of this machine is {platform.machine()}"
        found.append((evidence, f"run `host add` on a machine with {facts.machine}"))
    if facts.free_bytes < ROOM_BYTES and not facts.installed:
        room = f"{facts.free_bytes / GIB:.1f} GiB are free where {PLACE} is to be, and {ROOM_BYTES / GIB:g} is needed"
        found.append((room, f"{on}df -h {PLACE.rpartition('/')[0]}"))
    if abs(facts.skew_s) > SKEW_S:
        way = "ahead of" if facts.skew_s > 0 else "behind"
        clock = f"its clock is {abs(facts.skew_s):.0f} s {way} that of this machine; {SKEW_S:g} s are allowed"
        found.append((clock, f"{on}timedatectl set-ntp true"))
    if facts.foreign:
        found.append((f"{PLACE} exists, and gpuprov did not create it", f"{on}ls -la {PLACE}"))
    return found


def _gather(files: dict[str, Path], python: str, machine: RemoteMachine, reporter: Reporter) -> list[Path]:
    """The wheels of gpuprov and of all that it needs, for the Python there."""
    with reporter.phase("packages"):
        own = pack_wheel(files, default_cache())
        try:
            return [own, *ensure_wheels(own_requirements(), python=python, cache=default_cache())]
        except (HostNotReady, TimedOut) as error:
            raise type(error)(
                f"the Python packages for {machine.name} could not be downloaded on this machine",
                evidence=error.evidence,
                fix=error.fix,
            ) from error


def look_at_hosts(machines: Sequence[RemoteMachine], places: Places) -> tuple[HostAnswer, ...]:
    """What each host says of itself; changes nothing."""
    request = MemberRequest(order=LookOrder(), total_s=scaled_limit_s(LOOK_S))
    with closing(MemberProcesses(places)) as members:
        return ask_hosts(dict.fromkeys(machines, request), members, reporter=Silent())


def ask_host(machine: RemoteMachine, places: Places) -> Told:
    """What one host says of itself; changes nothing.

    Raises:
        GpuprovError: It does not answer; how long it is known to be away is in the error.
    """
    (answer,) = look_at_hosts([machine], places)
    return told_by(answer)


def remove_host(name: str, places: Places, *, forget: bool, reporter: Reporter) -> Outcome:
    """Remove gpuprov from a host without nodes, and the host from the inventory; no change if it is not there.

    The engine stays as it is, with its images. `host undo` there reverts what `host prepare` did.

    Args:
        places: Where connections, host keys and the inventory are.
        forget: Leave the host as it is, also with nodes, and unreachable.

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
    try:
        request = MemberRequest(order=ListOrder(), total_s=scaled_limit_s(LOOK_S))
        rows = read_answer(Nodes, ask_member(connection, request, reporter=reporter), name).nodes
    except NotInstalled:
        return  # a run was killed after it had removed it
    except Unreachable as error:
        raise type(error)(error.what, evidence=error.evidence, fix=f"{error.fix}; {_forgetting(name)}") from error
    if rows:
        raise still_has_nodes(name, rows)


def still_has_nodes(name: str, rows: Sequence[NodeRow]) -> UsageError:
    """The error of a host that has these nodes, with a command for each of their clusters."""
    clusters = sorted({row.cluster for row in rows})
    downs = "; ".join(f"gpuprov cluster down {cluster}" for cluster in clusters)
    return UsageError(
        f"{name} still has nodes",
        evidence=", ".join(
            f"{fold([row.name for row in rows if row.cluster == cluster])} of {cluster}" for cluster in clusters
        ),
        fix=f"{_forgetting(name)}; if they are yours and no longer needed, on {name}: {downs}",
    )


def _forgetting(name: str) -> str:
    return f"to leave the host as it is, and forget it: gpuprov host remove {name} --forget"
