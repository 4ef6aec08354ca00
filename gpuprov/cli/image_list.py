"""`gpuprov image list`."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.engine import ask_engines, engine_option
from gpuprov.cli.tables import render_table
from gpuprov.core.units import MIB

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.cluster.image_updates import ImageUpdates
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.images import ListedImage


@click.command()
@engine_option
@click.pass_obj
def command(session: Session, engine: str | None) -> None:
    """List the node images on all engines, and which of them lack security updates."""
    import time

    from gpuprov.cluster.built_images import describe_builder, find_builder, list_built
    from gpuprov.cluster.image_updates import update_notes, updates_of
    from gpuprov.drivers.base import LABEL_IMAGE, LABEL_VERSION
    from gpuprov.provision.cache_age import look_at_cache
    from gpuprov.provision.rootfs import default_cache
    from gpuprov.shapes.images import ImageCache, Images, UnfinishedImage

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
    table = render_table(titles, rows, screen=session.screen)
    document = Images(
        host=session.host.name,
        images=tuple(_tell(name, image, of_it) for (name, image), of_it in zip(found, updates, strict=True)),
        unfinished=tuple(
            UnfinishedImage(name=one.name, engine=cast("Engine", name), status=one.status) for name, one in builders
        ),
        cache=ImageCache(
            folder=str(age.folder), bases=tuple(map(_when, age.bases)), wheels=tuple(map(_when, age.wheels))
        ),
    )
    session.show(document, table)


def _tell(engine: str, image: ImageState, updates: ImageUpdates) -> ListedImage:
    from gpuprov.drivers.base import LABEL_PACKAGES
    from gpuprov.shapes.images import ImageSecurity, ListedImage

    looked = None if updates.looked is None else _when(updates.looked)
    return ListedImage(
        name=image.name,
        engine=cast("Engine", engine),
        size_bytes=image.size_bytes,
        created=image.created,
        labels={name: value for name, value in image.labels.items() if name != LABEL_PACKAGES},
        security=ImageSecurity(state=updates.state, lacking=updates.lacking, looked=looked),
    )


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, tz=timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
