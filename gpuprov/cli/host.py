"""Hosts: add, list, show, remove; and this machine: prepare, undo, doctor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, cast

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import WHERE_NONE_IS_SAID, engine_for_new, host_engine_option
from gpuprov.cli.options import complete_hosts
from gpuprov.cli.tables import Screen, render_table
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.several import HostAnswer
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.doctor import Need, Part
    from gpuprov.shapes.engine import EngineCluster
    from gpuprov.shapes.host import Host, KnownHost

_HEADERS: Final = ("HOST", "ADDRESS", "STATUS", "ENGINES", "NODES", "GPUS", "FREE", "MODEL")
_host_argument = click.argument("name", shell_complete=complete_hosts)


@command(
    click.argument("name"),
    click.option("--address", help="Address, or an alias in ~/.ssh/config.  [default: NAME]"),
    click.option("--user", help="User to log in as; must be root there.  [default: as ssh does]"),
    click.option("--port", type=click.IntRange(1, 65535), help="Port of its sshd.  [default: as ssh does]"),
    click.option("--identity-file", metavar="FILE", help="The private key to log in with.  [default: as ssh does]"),
    click.option("--proxy-jump", metavar="HOST", help="Jump host.  [default: as ssh does]"),
    host_engine_option,
)
def add(session: Session, /, *, name: str, **way: str | int | None) -> Outcome:
    """Add a host that ssh reaches: check it, install this gpuprov there, prepare an engine, and remember it.

    A second run changes nothing, or brings gpuprov there up to date. For a host that is known, options that are left
    out are as they were. A host key that nobody has seen is accepted and shown; one that has changed is refused.
    """
    from gpuprov.link.hosts_file import resolve_machine
    from gpuprov.link.places import ensure_places
    from gpuprov.stories.hosts import AddOrder, add_host

    places = ensure_places()
    order = AddOrder(machine=resolve_machine(places.inventory, name, **way), engine=session.engine or "")
    return add_host(order, places, reporter=session.reporter)


@command()
def list_hosts(session: Session) -> Result:
    """List the hosts that `host add` has added, with what each reports now. Changes nothing.

    All are asked at once. If some do not answer, the others are listed all the same, and it exits with 7.
    """
    from gpuprov.core.errors import GpuprovError
    from gpuprov.link.hosts_file import read_machines
    from gpuprov.link.places import ensure_places
    from gpuprov.link.several import require_all
    from gpuprov.shapes.host import Hosts
    from gpuprov.stories.hosts import look_at_hosts

    places = ensure_places()
    answers = look_at_hosts(tuple(read_machines(places.inventory).values()), places)
    told = tuple(map(_tell, answers))
    text = "no hosts; add one: gpuprov host add NAME --address ADDRESS"
    if answers:
        rows = [_cells(answer, one.look) for answer, one in zip(answers, told, strict=True)]
        text = render_table(_HEADERS, rows, screen=session.screen, spare=("ADDRESS", "ENGINES"))
    error = None
    try:
        require_all(answers)
    except GpuprovError as refused:
        error = refused
    return Result(document=Hosts(hosts=told), text=text, error=error)


def _tell(answer: HostAnswer) -> KnownHost:
    from gpuprov.link.answers import read_answer
    from gpuprov.shapes.base import of_object
    from gpuprov.shapes.error import ErrorParts
    from gpuprov.shapes.host import Host, KnownHost

    machine = answer.machine
    return KnownHost(
        name=machine.name,
        address=machine.address,
        user=machine.user or None,
        port=machine.port,
        identity_file=machine.identity_file or None,
        proxy_jump=machine.proxy_jump or None,
        status="away" if answer.away_since else "error" if answer.error else "ready",
        away_since=answer.away_since or None,
        error=of_object(ErrorParts, answer.error) if answer.error else None,
        look=None if answer.document is None else read_answer(Host, answer.document, machine.name),
    )


def _cells(answer: HostAnswer, look: Host | None) -> Sequence[object]:
    machine = answer.machine
    if look is None:
        status = f"away since {answer.away_since}" if answer.away_since else "error"
        return (machine.name, machine.destination, status, "", "", "", "", "")
    gpus = look.gpus.gpus if look.gpus else ()
    free = [gpu for gpu in gpus if gpu.present and not gpu.holders]
    models = sorted({gpu.model for gpu in gpus if gpu.present and gpu.model})
    engines = ",".join([*look.facts, *(f"{engine}?" for engine in look.silent)])
    counts = (len(look.nodes), len(gpus), len(free))
    return (machine.name, machine.destination, "ready", engines, *counts, ", ".join(models))


@command(_host_argument)
def show(session: Session, name: str) -> Result:
    """Show a host: its engines, nodes, GPUs and their holders, room and kernel limits. Changes nothing."""
    from gpuprov.link.answers import read_answer
    from gpuprov.link.hosts_file import get_machine
    from gpuprov.link.places import ensure_places
    from gpuprov.shapes.host import Host
    from gpuprov.stories.hosts import ask_host

    places = ensure_places()
    machine = get_machine(places.inventory, name)
    look = read_answer(Host, ask_host(machine, places), name)
    return Result(document=look, text=_host_text(machine, look, screen=session.screen))


def _host_text(machine: RemoteMachine, look: Host, *, screen: Screen) -> str:
    from gpuprov.cli.gpus import render_board
    from gpuprov.cli.list import render_nodes
    from gpuprov.cluster.told_gpus import board_of
    from gpuprov.core.units import GIB

    engines = [
        f"{name} {facts.version} on {facts.storage}{_describe_cluster(facts.cluster)}"
        for name, facts in look.facts.items()
    ]
    engines += [f"{name} does not respond: {error.what}" for name, error in look.silent.items()]
    limits = [f"{check} {'unknown' if limit is None else limit}" for check, limit in look.limits.items()]
    lines = [
        f"host: {machine.name} ({machine.destination})",
        f"machine: {look.machine}, Linux {look.kernel}",
        f"disk: {look.disk_free_bytes / GIB:.1f} GiB free",
        f"limits: {', '.join(limits)}",
        *(f"engine: {engine}" for engine in engines or ["none"]),
        "",
        render_nodes(look.nodes, screen=screen) if look.nodes else "no nodes",
        "",
    ]
    if look.gpus:
        lines.append(render_board(board_of(look.gpus), screen=screen))
    elif look.gpu_error:
        lines.append(f"the GPUs cannot be determined: {look.gpu_error.what}: {look.gpu_error.evidence}")
    return "\n".join(lines)


def _describe_cluster(cluster: EngineCluster | None) -> str:
    """What to add to a line about an engine; nothing where it is in no cluster of its own."""
    if cluster is None:
        return ""
    away = f"; away: {', '.join(cluster.away)}" if cluster.away else ""
    return f", member {cluster.member} of a cluster of {', '.join(cluster.members)}{away}"


@command(
    _host_argument,
    click.option("--forget", is_flag=True, help="Leave the host as it is, with its nodes, even if it is unreachable."),
)
def remove(session: Session, name: str, *, forget: bool) -> Outcome:
    """Remove gpuprov from a host that has no nodes, and forget the host. Its engine and images stay."""
    from gpuprov.link.places import ensure_places
    from gpuprov.stories.hosts import remove_host

    return remove_host(name, ensure_places(), forget=forget, reporter=session.reporter)


@command(
    host_engine_option,
    click.option(
        "--pool-size",
        type=click.IntRange(min=5),
        default=None,
        metavar="GIB",
        help="Create a storage pool of this size for LXD or Incus, unless one with copy-on-write exists.  [default: "
        "what the disk allows, if there is no pool]",
    ),
    click.option(
        "--refresh",
        is_flag=True,
        help="Also rebuild the cache of images, and fetch the list of security updates.",
    ),
)
def prepare(session: Session, pool_size: int | None, *, refresh: bool) -> Outcome:
    """Prepare this machine for nodes; a second run changes nothing. Needs root.

    Installs and starts the engine if it is missing, and creates a btrfs pool for LXD or Incus if it has no storage.
    LXD, Incus and Docker can be used side by side: prepare the machine for each, in any order. On a fresh
    machine, it also builds the base of the first image.
    """
    from gpuprov.assets import get_asset
    from gpuprov.lifecycle.prepare_host import HostOrder, own_program, prepare_host, variables_for

    chosen = _engine(session)
    order = HostOrder(
        roles_path=get_asset("roles"),
        engine=chosen,
        pool_size_gib=pool_size,
        variables=variables_for(chosen, os.environ),
        first_image=True,
        program=own_program(),
        refresh=refresh,
    )
    return prepare_host(order, session.host, reporter=session.reporter)


@command(host_engine_option)
def undo(session: Session) -> Outcome:
    """Revert what `host prepare` created, and nothing else; packages are kept. Needs root."""
    from gpuprov.assets import get_asset
    from gpuprov.lifecycle.prepare_host import HostOrder, undo_host, variables_for

    chosen = _engine(session)
    order = HostOrder(roles_path=get_asset("roles"), engine=chosen, variables=variables_for(chosen, os.environ))
    return undo_host(order, session.host, reporter=session.reporter)


@command(
    click.option("--engine", type=click.Choice(ENGINES), help=f"The engine to check.  [default: {WHERE_NONE_IS_SAID}]")
)
def doctor(session: Session) -> Result:
    """List what the host lacks; changes nothing.

    Exits with 3 if a requirement for nodes is missing.
    """
    from gpuprov.core.errors import HostNotReady
    from gpuprov.machine.examine import examine_host
    from gpuprov.shapes.cluster_spec import ClusterSpec

    chosen = _engine(session)
    seen = examine_host(session.host, session.reporter, spec=ClusterSpec(engine=chosen))
    rows = [(finding.status, finding.id, finding.evidence) for finding in seen.findings]
    parts = [render_table(("STATUS", "CHECK", "EVIDENCE"), rows, screen=session.screen)]
    if seen.roles:
        parts += ["", *_render_needs(seen.roles, chosen, screen=session.screen)]
    fixes = [f"{finding.id}: {finding.fix}" for finding in seen.findings if finding.fix]
    if fixes:
        parts += ["", "fixes:", *fixes]
    return Result(document=seen, text="\n".join(parts), code=0 if seen.passed else HostNotReady.exit_code)


def _render_needs(needs: Sequence[Need], engine: str, *, screen: Screen) -> list[str]:
    """A row for each role with the least versions, and one with what this host has."""
    columns: tuple[Part, ...] = ("kernel", "engine", "driver", "compute_capability")
    cells = {(need.role, need.part): need for need in needs}
    has = {need.part: "SIMULATED" if need.met == "SIMULATED" else need.has for need in needs}
    roles = dict.fromkeys(need.role for need in needs)
    rows = [(role, *(_render_need(cells.get((role, part))) for part in columns)) for role in roles]
    rows.append(("this host", *(has.get(part) for part in columns)))
    return [
        "minimum requirements of each role; driver and compute capability only for real GPUs:",
        render_table(("ROLE", "LINUX", engine.upper(), "DRIVER", "COMPUTE CAPABILITY"), rows, screen=screen),
    ]


def _render_need(need: Need | None) -> str | None:
    if need is None:
        return None
    return f"{need.least} (lacking)" if need.met == "no" else need.least


def _engine(session: Session) -> Engine:
    return cast("Engine", session.engine) if session.engine else engine_for_new(session.host)
