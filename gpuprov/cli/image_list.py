"""`gpuprov image list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, open_engines
from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from gpuprov.cli.session import Session

MIB = 1 << 20


@click.command()
@engine_option
@click.pass_obj
def command(session: Session, engine: str | None) -> None:
    """List the node images that gpuprov made, on every engine."""
    from gpuprov.cluster.build_image import list_images
    from gpuprov.documents.images import images_document
    from gpuprov.drivers.base import LABEL_IMAGE, LABEL_VERSION

    found = [(driver.name, image) for driver in open_engines(session, engine) for image in list_images(driver)]
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
    table = render_table(("IMAGE", "ENGINE", "BASE", "SIZE", "CREATED", "GPUPROV"), rows, colour=session.colour)
    session.show(images_document(found, host=session.host), table)
