"""What verbs that touch an engine share: its option, the host's GPUs, and how an Outcome is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from gpuprov.cli.parameters import checked_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import GpuMode

DEFAULT_CLUSTER = "lab"

engine_option: Callable[[Any], Any] = click.option(
    "--engine",
    type=click.Choice(["lxd", "incus", "docker"]),
    help="What runs the nodes.  [default: the engine that has them; lxd for new ones]",
)
host_engine_option: Callable[[Any], Any] = click.option(
    "--engine", type=click.Choice(["lxd", "docker"]), default="lxd", show_default=True, help="The engine to install."
)
cluster_option: Callable[[Any], Any] = click.option(
    "--cluster",
    default=DEFAULT_CLUSTER,
    show_default=True,
    metavar="NAME",
    callback=checked_cluster,
    help="The cluster.",
)
cluster_argument: Callable[[Any], Any] = click.argument("name", default=DEFAULT_CLUSTER, callback=checked_cluster)
gpu_mode_option: Callable[[Any], Any] = click.option(
    "--gpu-mode",
    type=click.Choice(["auto", "real", "simulated"]),
    help="Simulate GPUs where there are none (auto), refuse to (real), or always simulate.  [default: auto]",
)


def open_engine(engine: str | None) -> Driver:
    """Connect to the engine, or to the default one."""
    from gpuprov.cluster.find_engine import DEFAULT
    from gpuprov.drivers.registry import open_driver

    return open_driver(engine or DEFAULT)


def open_engine_of_nodes(engine: str | None, *names: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the nodes."""
    from gpuprov.cluster.find_engine import engine_of_nodes

    return open_engine(engine) if engine else engine_of_nodes(names)


def open_engine_of_cluster(engine: str | None, cluster: str, *, creates: bool = False) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the cluster, or that it is `created` on."""
    from gpuprov.cluster.find_engine import engine_of_cluster

    return open_engine(engine) if engine else engine_of_cluster(cluster, creates=creates)


def open_engine_of_image(engine: str | None, image: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the node image."""
    from gpuprov.cluster.find_engine import engine_of_image

    return open_engine(engine) if engine else engine_of_image(image)


def open_engines(session: Session, engine: str | None) -> list[Driver]:
    """Connect to the engine that was asked for, else to all that answer; the default one's silence is mentioned.

    Raises:
        HostNotReady: No engine answers.
    """
    from gpuprov.cluster.find_engine import DEFAULT, open_answering

    if engine:
        return [open_engine(engine)]
    drivers, errors = open_answering()
    if DEFAULT in errors:
        if not drivers:
            raise errors[DEFAULT]
        session.reporter.note(f"without {DEFAULT}: {errors[DEFAULT].what}")
    return list(drivers.values())


def observe_gpus(mode: GpuMode) -> HostGpus:
    """The host's GPUs; GPUPROV_SIMULATED_GPUS says how many there are where they are simulated."""
    from gpuprov.host import gpus as host_gpus

    return host_gpus.observe_gpus(mode)


def host_gpus(session: Session, mode: str | None) -> HostGpus:
    """The host's GPUs; simulated ones are announced, never silent."""
    host = observe_gpus(cast("GpuMode", mode or "auto"))
    if host.simulated:
        session.reporter.warn(f"GPUs are SIMULATED: {host.reason}")
    return host


def show_outcome(session: Session, outcome: Outcome) -> None:
    """One line for each change, or `unchanged`."""
    from gpuprov.documents.outcome import outcome_document

    session.show(
        outcome_document(outcome, host=session.host),
        "\n".join(outcome.changed) or "unchanged",
    )
