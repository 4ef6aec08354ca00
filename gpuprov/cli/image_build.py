"""`gpuprov image build`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.engine import engine_option, gpu_mode_option, host_gpus, open_engine, show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.spec.models import Role


@click.command()
@click.option("--base", default="bookworm", show_default=True, help="Suite to build from, or image:NAME.")
@click.option("--package", "packages", multiple=True, metavar="NAME", help="A Debian package to add; repeatable.")
@click.option(
    "--role", type=click.Choice(["plain", "slurm"]), default="slurm", show_default=True, help="Purpose of the nodes."
)
@gpu_mode_option
@engine_option
@click.pass_obj
def command(
    session: Session, base: str, packages: tuple[str, ...], role: str, gpu_mode: str | None, engine: str | None
) -> None:
    """Build the node image if the engine does not have it."""
    from gpuprov.core.outcome import Outcome
    from gpuprov.spec.models import ClusterSpec, ImageSpec, NodesSpec
    from gpuprov.workflows.image_verbs import build_image

    spec = ClusterSpec(image=ImageSpec(base=base, packages=packages), nodes=NodesSpec(role=cast("Role", role)))
    host = host_gpus(session, gpu_mode)
    ensured = build_image(open_engine(engine), spec, host, reporter=session.reporter)
    show_outcome(session, Outcome(changed=(f"built image {ensured.image.name}",) if ensured.built else ()))
