"""What verbs that touch an engine share: its option, the host's GPUs, and how an Outcome is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import GpuMode

DEFAULT_CLUSTER = "lab"

engine_option: Callable[[Any], Any] = click.option(
    "--engine", type=click.Choice(["lxd", "incus"]), default="lxd", show_default=True, help="The engine nodes live in."
)
cluster_option: Callable[[Any], Any] = click.option(
    "--cluster", default=DEFAULT_CLUSTER, show_default=True, metavar="NAME", help="The cluster."
)
gpu_mode_option: Callable[[Any], Any] = click.option(
    "--gpu-mode",
    type=click.Choice(["auto", "real", "simulated"]),
    help="Simulate GPUs where there are none (auto), refuse to (real), or always simulate.  [default: auto]",
)


def open_engine(engine: str) -> Driver:
    """Connect to the engine."""
    from gpuprov.drivers.registry import open_driver

    return open_driver(engine)


def observe_gpus(mode: GpuMode) -> HostGpus:
    """The host's GPUs; GPUPROV_SIMULATED_GPUS says how many there are where they are simulated."""
    from gpuprov.workflows import host_gpus

    return host_gpus.observe_gpus(mode)


def host_gpus(session: Session, mode: str | None) -> HostGpus:
    """The host's GPUs; simulated ones are announced, never silent."""
    host = observe_gpus(cast("GpuMode", mode or "auto"))
    if host.simulated:
        session.reporter.warn(f"GPUs are SIMULATED: {host.reason}")
    return host


def show_outcome(session: Session, outcome: Outcome) -> None:
    """One line for each change, or `unchanged`."""
    session.show(
        {"changed": list(outcome.changed), "unchanged": outcome.unchanged},
        "\n".join(outcome.changed) or "unchanged",
    )
