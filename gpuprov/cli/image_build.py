"""`gpuprov image build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.engine import engine_option, gpu_mode_option, open_engine, show_outcome
from gpuprov.cli.roles import role_option
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ImageSpec, NodesSpec

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.choices import GpuMode


@click.command()
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path),
    help="Spec file of a cluster whose nodes the image is for (docs/spec.md); the other options override it.",
)
@click.option("--base", help=f"Suite to build from, or image:NAME.  [default: the file's, or {ImageSpec().base}]")
@click.option("--package", "packages", multiple=True, metavar="NAME", help="A Debian package to add; repeatable.")
@role_option(f"Purpose of the nodes.  [default: the file's, or {NodesSpec().role}]")
@gpu_mode_option
@click.option("--refresh", is_flag=True, help="Build it of the newest packages, though it exists.")
@engine_option
@click.pass_obj
def command(session: Session, /, packages: tuple[str, ...], **options: object) -> None:
    """Build the node image if the engine does not have it."""
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.core.outcome import Outcome
    from gpuprov.lifecycle.standalone_image import build_image
    from gpuprov.roles.registry import load_draft
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.draft import Draft

    file = cast("Path | None", options["file"])
    draft = load_draft(file) if file is not None else Draft(spec=ClusterSpec(), engine_open=True)
    given = {key: said for key, said in options.items() if said is not None}
    image, nodes, gpus = draft.spec.image, draft.spec.nodes, draft.spec.gpus
    image = changed(image, base=cast("str", given.get("base", image.base)), packages=packages or image.packages)
    spec = ClusterSpec(image=image, nodes=NodesSpec(role=cast("str", given.get("role", nodes.role))))
    engine = cast("str | None", given.get("engine", None if draft.engine_open else draft.spec.engine))
    mode = cast("GpuMode", given.get("gpu_mode", gpus.mode))
    driver = open_engine(session.host, engine)
    found = get_gpus(session.host, mode, reporter=session.reporter)
    fresh = bool(options["refresh"])
    ensured = build_image(driver, spec, session.host, found, reporter=session.reporter, fresh=fresh)
    show_outcome(session, Outcome(changed=(f"built image {ensured.image.name}",) if ensured.built else ()))
