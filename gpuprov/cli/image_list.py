"""`gpuprov image list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, open_engine
from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from gpuprov.cli.session import Session

MIB = 1 << 20


@click.command()
@engine_option
@click.pass_obj
def command(session: Session, engine: str) -> None:
    """List the node images that gpuprov made."""
    from gpuprov.drivers.base import LABEL_IMAGE, LABEL_VERSION
    from gpuprov.workflows.build_image import list_images

    images = list_images(open_engine(engine))
    rows = [
        (
            image.name,
            image.labels.get(LABEL_IMAGE),
            image.size_bytes and f"{image.size_bytes // MIB} MiB",
            image.created,
            image.labels.get(LABEL_VERSION),
        )
        for image in images
    ]
    documents = [
        {"name": image.name, "size_bytes": image.size_bytes, "created": image.created, "labels": dict(image.labels)}
        for image in images
    ]
    table = render_table(("IMAGE", "BASE", "SIZE", "CREATED", "GPUPROV"), rows, colour=session.colour)
    session.show({"images": documents}, table)
