"""What verbs that touch an engine share: its option, and the way to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpuprov.cli.options import complete_clusters
from gpuprov.cli.session import Session
from gpuprov.cli.settings import implied_cluster, implied_engine
from gpuprov.shapes.choices import DEFAULT_CLUSTER, DEFAULT_ENGINE, ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import Engine

WHERE_NONE_IS_SAID = f"{DEFAULT_ENGINE}, or incus if it is installed and LXD is not"

engine_option: Callable[[Any], Any] = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    callback=implied_engine,
    help=f"Engine that runs the nodes.  [default: the engine that has them; for new nodes {WHERE_NONE_IS_SAID}]",
)
host_engine_option: Callable[[Any], Any] = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help=f"Which engine.  [default: {WHERE_NONE_IS_SAID}]",
)
cluster_option: Callable[[Any], Any] = click.option(
    "--cluster",
    default=DEFAULT_CLUSTER,
    show_default=True,
    metavar="NAME",
    is_eager=True,  # before ids and nodes: what is wrong with them names the cluster
    callback=implied_cluster,
    shell_complete=complete_clusters,
    help="Name of the cluster.",
)
cluster_argument: Callable[[Any], Any] = click.argument(
    "cluster", metavar="[NAME]", default=DEFAULT_CLUSTER, callback=implied_cluster, shell_complete=complete_clusters
)
_gpu_mode_option: Callable[[Any], Any] = click.option(
    "--gpu-mode",
    type=click.Choice(["auto", "real", "simulated"]),
    help="If the host has no GPU, simulate (auto) or refuse (real); or always simulate.  [default: auto]",
)


def _simulate_such(context: click.Context, _parameter: click.Parameter, typed: str | None) -> None:
    if typed and isinstance(context.obj, Session):
        context.obj.gpu_profile = typed


_gpu_profile_option: Callable[[Any], Any] = click.option(
    "--gpu-profile",
    metavar="NAME|FILE",
    expose_value=False,
    callback=_simulate_such,
    help="Which GPUs this host simulates: h100x8, a100x4, gtx1080, t4x2, mixed, or the file of a recorded host.  "
    "[default: four H100]",
)


def gpu_mode_option(function: Any) -> Any:  # noqa: ANN401 - click's own
    """Whether GPUs are simulated, and which then; the session's host gets the profile."""
    return _gpu_mode_option(_gpu_profile_option(function))


def typed_gpu_option(session: Session, gpu_mode: str | None) -> str:
    """What was typed of this host's GPUs, as it was typed; empty for nothing."""
    profile = f"--gpu-profile {session.gpu_profile}" if session.gpu_profile else ""
    return f"--gpu-mode {gpu_mode}" if gpu_mode else profile


def is_typed(option: str) -> bool:
    """Whether the user has said it, and it is no default."""
    return click.get_current_context().get_parameter_source(option) is not ParameterSource.DEFAULT


def open_engine(host: Host, engine: str | None) -> Driver:
    """Connect to the engine, or to the default one."""
    return host.open(engine or engine_for_new(host))


def engine_for_new(host: Host) -> Engine:
    """The engine for what is new on a host, where none is said."""
    from gpuprov.machine.survey import default_engine

    return default_engine(host.engines)


def open_engine_of_image(session: Session, engine: str | None, image: str) -> Driver:
    """Connect to the engine that was asked for, else to the one that has the node image."""
    from gpuprov.cluster.find_engine import engine_of_image

    if engine:
        return open_engine(session.host, engine)
    return engine_of_image(image, session.host.engines, reporter=session.reporter)
