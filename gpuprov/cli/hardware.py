"""`gpuprov hardware`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import cluster_option, engine_option, open_engine_of_cluster
from gpuprov.cli.tables import render_table
from gpuprov.core.errors import GpuprovError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.shapes.hardware import Machine, NodeHardware

_HEADERS = ("MACHINE", "PROCESSOR", "THREADS", "GPU", "CC", "MULTIPROCESSORS", "BLOCK SIZE", "REASON")


@click.command()
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, cluster: str, engine: str | None) -> int:
    """Show the processors and GPUs of this host and of the cluster's running nodes, as CUDA's driver reports them.

    If hosts were added, also those of the hosts, and of the nodes on them. --engine shows those of this machine alone.

    BLOCK SIZE is a number of threads for a block that suits most kernels.
    """
    from gpuprov.cluster.here_alone import is_here_alone
    from gpuprov.cluster.host_gpus import warn_of_lost
    from gpuprov.shapes.hardware import Hardware
    from gpuprov.workflows.hardware import ask_this_machine, look_at_nodes

    own = ask_this_machine()
    known = spanning.remembered_hosts() if engine is None else {}
    if known and not is_here_alone(session.host, cluster):
        return _show_hosts(session, own, known, cluster)
    with suppress(GpuprovError):  # what CUDA's driver says of this machine is told in any case
        warn_of_lost(session.host.gpus("auto"), reporter=session.reporter)
    nodes: Sequence[NodeHardware] = ()
    try:
        nodes = look_at_nodes(partial(open_engine_of_cluster, session, engine, cluster), cluster)
    except GpuprovError as error:
        session.reporter.warn(f"this host only: {error.what}; {error.evidence}")
    document = Hardware(host=session.host.name, hardware=own, nodes=tuple(nodes))
    session.show(document, render_hardware(own, nodes, colour=session.colour))
    return 0


def _show_hosts(session: Session, own: Machine, known: Mapping[str, RemoteMachine], cluster: str) -> int:
    from msgspec import structs

    from gpuprov.shapes.hardware import Hardware, HostHardware
    from gpuprov.spanning.hosts_hardware import hardware_over_hosts
    from gpuprov.spanning.parts.host_statuses import host_statuses
    from gpuprov.spanning.parts.over_hosts import part_error

    seen = hardware_over_hosts(known, spanning.way_to_hosts(session), cluster)
    silences = seen.silences
    rows = list(_rows(own.machine, own))
    for host, found in seen.hardware.items():
        rows += [*_rows(host, found.hardware), *_rows_of_nodes(found.nodes)]
    machines = {host: found.hardware for host, found in seen.hardware.items()}
    hosts = [
        HostHardware(**structs.asdict(status), hardware=machines.get(status.name))
        for status in host_statuses(known, silences.failed, silences.away)
    ]
    nodes = tuple(node for found in seen.hardware.values() for node in found.nodes)
    document = Hardware(host=session.host.name, hardware=own, nodes=nodes, hosts=tuple(hosts))
    text = render_table(_HEADERS, rows, colour=session.colour)
    return spanning.show_result(session, document, text, part_error(silences.failed, of=silences.asked), 0)


def render_hardware(own: Machine, nodes: Sequence[NodeHardware], *, colour: bool) -> str:
    """A line for each GPU, and one for a machine without."""
    return render_table(_HEADERS, [*_rows(own.machine, own), *_rows_of_nodes(nodes)], colour=colour)


def _rows_of_nodes(nodes: Sequence[NodeHardware]) -> Iterator[tuple[Any, ...]]:
    for one in nodes:
        yield from _rows(one.node, one.hardware) if one.hardware else [(one.node, *[None] * 6, one.reason)]


def _rows(name: str, machine: Machine) -> Iterator[tuple[Any, ...]]:
    own = (name, machine.cpu, machine.threads)
    if not machine.gpus:
        yield (*own, *[None] * 4, machine.reason)
    for gpu in machine.gpus:
        shown = f"{'SIMULATED ' if machine.simulated else ''}{gpu.name or gpu.uuid}"
        numbers = (gpu.compute_capability, gpu.multiprocessors, gpu.block_size_hint)
        yield (*own, shown, *numbers, None if gpu.name else machine.reason)
