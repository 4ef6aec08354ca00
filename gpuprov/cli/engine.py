"""What verbs that touch an engine share: its option, the way to it, and how an Outcome is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuprov.cli.parameters import checked_cluster
from gpuprov.core.names import DEFAULT_CLUSTER
from gpuprov.drivers.registry import INSTALLABLE
from gpuprov.spec.models import DEFAULT_ENGINE, ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host

Answer = TypeVar("Answer")

engine_option: Callable[[Any], Any] = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help=f"Engine that runs the nodes.  [default: the engine that has them; {DEFAULT_ENGINE} for new nodes]",
)
host_engine_option: Callable[[Any], Any] = click.option(
    "--engine",
    type=click.Choice(INSTALLABLE),
    default=DEFAULT_ENGINE,
    show_default=True,
    help="The engine to prepare.",
)
cluster_option: Callable[[Any], Any] = click.option(
    "--cluster",
    default=DEFAULT_CLUSTER,
    show_default=True,
    metavar="NAME",
    callback=checked_cluster,
    help="Name of the cluster.",
)
cluster_argument: Callable[[Any], Any] = click.argument("name", default=DEFAULT_CLUSTER, callback=checked_cluster)
gpu_mode_option: Callable[[Any], Any] = click.option(
    "--gpu-mode",
    type=click.Choice(["auto", "real", "simulated"]),
    help="If the host has no GPU, simulate (auto) or refuse (real); or always simulate.  [default: auto]",
)


def open_engine(host: Host, engine: str | None) -> Driver:
    """Connect to the engine, or to the default one."""
    return host.open(engine or DEFAULT_ENGINE)


def open_engine_of_nodes(host: Host, engine: str | None, *names: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the nodes."""
    from gpuprov.cluster.find_engine import engine_of_nodes

    return open_engine(host, engine) if engine else engine_of_nodes(names, host.engines)


def open_engine_of_cluster(host: Host, engine: str | None, cluster: str, *, creates: bool = False) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the cluster, or that it is `created` on."""
    from gpuprov.cluster.find_engine import engine_of_cluster

    return open_engine(host, engine) if engine else engine_of_cluster(cluster, host.engines, creates=creates)


def open_engine_of_image(host: Host, engine: str | None, image: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the node image."""
    from gpuprov.cluster.find_engine import engine_of_image

    return open_engine(host, engine) if engine else engine_of_image(image, host.engines)


def ask_engines(session: Session, engine: str | None, question: Callable[[Driver], Answer]) -> list[Answer]:
    """What the engine that was asked for answers, or else what all do; those that are silent are named.

    Raises:
        GpuprovError: No engine responds.
    """
    from gpuprov.host.survey import survey

    if engine:
        return [question(open_engine(session.host, engine))]
    seen = survey(session.host.engines, question)
    seen.require_answer()
    for name, error in seen.errors.items():
        session.reporter.note(f"without {name}: {error.what}: {error.evidence}")
    return list(seen.answers.values())


def show_outcome(session: Session, outcome: Outcome) -> None:
    """One line for each change, or `unchanged`."""
    from gpuprov.documents.outcome import outcome_document

    session.show(
        outcome_document(outcome, host=session.host.name),
        "\n".join(outcome.changed) or "unchanged",
    )
