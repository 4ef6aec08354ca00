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
    """List the node images on all engines, and which of them lack security updates."""
    import time

    from gpuprov.cluster.built_images import describe_builder, find_builder, list_built
    from gpuprov.cluster.image_updates import update_notes, updates_of
    from gpuprov.documents.images import images_document
    from gpuprov.drivers.base import LABEL_IMAGE, LABEL_VERSION
    from gpuprov.provision.cache_age import look_at_cache
    from gpuprov.provision.rootfs import default_cache

    answers = ask_engines(session, engine, lambda driver: (driver.name, list_built(driver), find_builder(driver)))
    found = [(name, image) for name, images, _ in answers for image in images]
    cache = default_cache()
    updates = [updates_of(image, cache) for _, image in found]
    builders = [(name, builder) for name, _, builder in answers if builder]
    rows: list[tuple[str | None, ...]] = [
        (
            image.name,
            name,
            image.labels.get(LABEL_IMAGE),
            f"{image.size_bytes // MIB} MiB" if image.size_bytes else None,
            image.created,
            image.labels.get(LABEL_VERSION),
            of_it.describe(),
        )
        for (name, image), of_it in zip(found, updates, strict=True)
    ]
    for name, builder in builders:
        rows.append((builder.name, name, None, None, "unfinished", builder.labels.get(LABEL_VERSION), None))
        session.reporter.note(f"{builder.name} in {name} is {describe_builder(name)}")
    age, now = look_at_cache(cache), time.time()
    for note in (*update_notes(updates, now), age.describe(now)):
        if note:
            session.reporter.note(note)
    titles = ("IMAGE", "ENGINE", "BASE", "SIZE", "CREATED", "GPUPROV", "SECURITY")
    table = render_table(titles, rows, colour=session.colour)
    session.show(images_document(found, builders, updates, age, host=session.host.name), table)
