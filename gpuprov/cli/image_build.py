"""`gpuprov image build`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.engine import engine_option, gpu_mode_option, open_engine, show_outcome
from gpuprov.cli.roles import role_option
from gpuprov.spec.models import ImageSpec, NodesSpec

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.spec.models import GpuMode


@click.command()
@click.option("--base", default=ImageSpec().base, show_default=True, help="Suite to build from, or image:NAME.")
@click.option("--package", "packages", multiple=True, metavar="NAME", help="A Debian package to add; repeatable.")
@role_option("Purpose of the nodes.", default=NodesSpec().role)
@gpu_mode_option
@engine_option
@click.pass_obj
def command(
    session: Session, base: str, packages: tuple[str, ...], role: str, gpu_mode: str | None, engine: str | None
) -> None:
    """Build the node image if the engine does not have it."""
    from gpuprov.cluster.host_gpus import find_gpus
    from gpuprov.core.outcome import Outcome
    from gpuprov.spec.models import ClusterSpec, ImageSpec
    from gpuprov.workflows.standalone_image import build_image

    spec = ClusterSpec(image=ImageSpec(base=base, packages=packages), nodes=NodesSpec(role=role))
    gpus = find_gpus(session.host, cast("GpuMode", gpu_mode or "auto"), reporter=session.reporter)
    ensured = build_image(open_engine(session.host, engine), spec, session.host, gpus, reporter=session.reporter)
    show_outcome(session, Outcome(changed=(f"built image {ensured.image.name}",) if ensured.built else ()))
