"""`gpuprov hardware`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.show_result import show_result
from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.fleet.fleet import Fleet, FleetAnswers
    from gpuprov.shapes.hardware import Hardware, HostHardware, Machine, NodeHardware

_HEADERS = ("MACHINE", "PROCESSOR", "THREADS", "GPU", "CC", "MULTIPROCESSORS", "BLOCK SIZE", "REASON")


@click.command()
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, cluster: str, engine: str | None) -> int:
    """Show the processors and GPUs of this host and of the cluster's running nodes, as CUDA's driver reports them.

    If hosts were added, also those of the hosts, and of the nodes on them, unless the cluster is on this machine alone.
    --engine shows those of this machine alone.

    BLOCK SIZE is a number of threads for a block that suits most kernels.
    """
    from msgspec import UNSET

    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.questions.hardware import HARDWARE
    from gpuprov.shapes.hardware import Hardware
    from gpuprov.shapes.orders import HardwareOrder

    fleet = open_fleet(session, engine).of_cluster(cluster)
    told = fleet.ask(HARDWARE, HardwareOrder(cluster=cluster, engine=engine or ""))
    if fleet.name_here in told.failed:
        raise told.failed[fleet.name_here]
    own = told.answers[fleet.name_here].hardware
    rows = [*_rows(own.machine, own)]
    for host, found in told.answers.items():
        rows += [] if host == fleet.name_here else _rows(host, found.hardware)
        rows += _rows_of_nodes(found.nodes)
    document = Hardware(
        host=session.host.name,
        hardware=own,
        nodes=tuple(node for found in told.answers.values() for node in found.nodes),
        hosts=_hosts(fleet, told) if fleet.others else UNSET,
    )
    text = render_table(_HEADERS, rows, screen=session.screen)
    return show_result(session, document, text, told.error, 0)


def _hosts(fleet: Fleet, told: FleetAnswers[Hardware]) -> tuple[HostHardware, ...]:
    from msgspec import structs

    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.shapes.hardware import HostHardware

    machines = {host: found.hardware for host, found in told.answers.items()}
    statuses = host_statuses(fleet.others, told.failed, told.away)
    return tuple(HostHardware(**structs.asdict(one), hardware=machines.get(one.name)) for one in statuses)


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
