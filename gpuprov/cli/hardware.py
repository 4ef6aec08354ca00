"""`gpuprov hardware`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.engine import cluster_option, engine_option, open_engine_of_cluster
from gpuprov.cli.tables import render_table
from gpuprov.core.errors import GpuprovError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.planes.hardware_answers import MachineHardware, NodeHardware

_HEADERS = ("MACHINE", "PROCESSOR", "THREADS", "GPU", "CC", "MULTIPROCESSORS", "BLOCK SIZE", "REASON")


@click.command()
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, cluster: str, engine: str | None) -> None:
    """Show the processors and GPUs of this host and of the cluster's running nodes, as CUDA's driver tells them.

    BLOCK SIZE is a number of threads for a block that suits most kernels.
    """
    from gpuprov.documents.hardware import hardware_document
    from gpuprov.workflows.hardware import ask_this_machine, look_at_nodes

    own = ask_this_machine()
    nodes: Sequence[NodeHardware] = ()
    try:
        nodes = look_at_nodes(partial(open_engine_of_cluster, session, engine, cluster), cluster)
    except GpuprovError as error:
        session.reporter.warn(f"this host alone: {error.what}; {error.evidence}")
    document = hardware_document(own, nodes, host=session.host.name)
    session.show(document, render_hardware(own, nodes, colour=session.colour))


def render_hardware(own: MachineHardware, nodes: Sequence[NodeHardware], *, colour: bool) -> str:
    """A line for each GPU, and one for a machine without."""
    rows = [*_rows(own.machine, own)]
    for one in nodes:
        rows += [*_rows(one.node, one.hardware)] if one.hardware else [(one.node, *[None] * 6, one.reason)]
    return render_table(_HEADERS, rows, colour=colour)


def _rows(name: str, machine: MachineHardware) -> Iterator[tuple[Any, ...]]:
    for gpu in machine.gpus or ({},):
        mark = "SIMULATED " if gpu and machine.simulated else ""
        shown = gpu.get("name") or gpu.get("uuid")
        yield (
            *(name, machine.cpu, machine.threads, f"{mark}{shown}" if gpu else None, gpu.get("compute_capability")),
            *(gpu.get("multiprocessors"), gpu.get("block_size_hint"), machine.reason if not gpu.get("name") else None),
        )
