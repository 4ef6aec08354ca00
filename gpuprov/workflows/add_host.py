"""`host add`: let ssh in, look, bring gpuprov there, remember the host, and have it prepare itself."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from gpuprov import __version__
from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.outcome import Outcome
from gpuprov.core.units import GIB
from gpuprov.host.remote.ask import MemberRequest, ask_member
from gpuprov.host.remote.bare_host import install_there, look_at_bare_host
from gpuprov.host.remote.connection import SshConnection
from gpuprov.host.remote.install_paths import PLACE
from gpuprov.host.remote.inventory import remember_machine
from gpuprov.provision.own_wheel import own_files, own_fingerprint, own_requirements, pack_wheel
from gpuprov.provision.rootfs import default_cache
from gpuprov.provision.wheels import ensure_wheels
from gpuprov.workflows.member import PrepareOrder

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.host.remote.bare_host import BareFacts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.host.remote.places import Places

ROOM_BYTES: Final = GIB
SKEW_S: Final = 60.0
PYTHON: Final = (3, 10)


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
        order: What is asked for.
        places: Where connections, host keys and the inventory are.
        reporter: Is told what goes on.

    Raises:
        Unreachable: ssh does not come through; its words are the evidence.
        HostNotReady: The host lacks something; nothing of it was changed.
        GpuprovError: A later step failed; the same command goes on with it.
    """
    machine = order.machine
    places.config.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        request = MemberRequest(verb="prepare", document=asdict(PrepareOrder(engine=order.engine)))
        prepared = ask_member(connection, request, reporter=reporter)
    lines = prepared.get("changed")
    changed += [f"{machine.name}: {line}" for line in lines or () if isinstance(line, str)]
    return Outcome(changed=tuple(changed))


def refuse_unfit(machine: RemoteMachine, facts: BareFacts) -> None:
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


def find_unfit(machine: RemoteMachine, facts: BareFacts) -> list[tuple[str, str]]:
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
        found.append((f"{PLACE} is there, and gpuprov did not make it", f"{on}ls -la {PLACE}"))
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
