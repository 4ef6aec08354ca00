"""`gpuprov image list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import ask_engines, engine_option
from gpuprov.cli.tables import render_table
from gpuprov.core.units import MIB

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@engine_option
@click.pass_obj
def command(session: Session, engine: str | None) -> None:
    """List the node images on all engines."""
    from gpuprov.cluster.built_images import describe_builder, find_builder, list_built
    from gpuprov.documents.images import images_document
    from gpuprov.drivers.base import LABEL_IMAGE, LABEL_VERSION

    answers = ask_engines(session, engine, lambda driver: (driver.name, list_built(driver), find_builder(driver)))
    found = [(name, image) for name, images, _ in answers for image in images]
    builders = [(name, builder) for name, _, builder in answers if builder]
    rows = [
        (
            image.name,
            name,
            image.labels.get(LABEL_IMAGE),
            image.size_bytes and f"{image.size_bytes // MIB} MiB",
            image.created,
            image.labels.get(LABEL_VERSION),
        )
        for name, image in found
    ]
    for name, builder in builders:
        rows.append((builder.name, name, None, None, "unfinished", builder.labels.get(LABEL_VERSION)))
        session.reporter.note(f"{builder.name} in {name} is {describe_builder(name)}")
    table = render_table(("IMAGE", "ENGINE", "BASE", "SIZE", "CREATED", "GPUPROV"), rows, colour=session.colour)
    session.show(images_document(found, builders, host=session.host.name), table)
