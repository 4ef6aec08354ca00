"""The images that were built, and the node in which one is being built; nothing here builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_FINGERPRINT

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, ImageState, NodeState


def find_builder(driver: Driver) -> NodeState | None:
    """The node in which an image is being made, or was when its build was killed."""
    builder = driver.find_node(driver.builder)
    return builder if builder is not None and builder.ours else None


def describe_builder(engine: str) -> str:
    """In words, after "is": the node that `find_builder` finds in an engine."""
    return f"an image build, under way or interrupted; the next one removes it: gpuprov image build --engine {engine}"


def remove_left_builder(driver: Driver, reporter: Reporter) -> None:
    """Remove what a killed build left; the caller holds the host lock, so that nobody builds."""
    if find_builder(driver) is not None:
        reporter.note("removing what an interrupted image build left")
        driver.delete_node(driver.builder)


def list_built(driver: Driver) -> list[ImageState]:
    """The images that gpuprov made."""
    return driver.list_images()


def match_images(driver: Driver, name: str) -> list[ImageState]:
    """The images of ours of that name, or whose fingerprints begin so."""
    return [
        image
        for image in driver.list_images()
        if name and (name == image.name or image.labels.get(LABEL_FINGERPRINT, "").startswith(name))
    ]


def delete_built(driver: Driver, name: str) -> ImageState:
    """Remove an image of ours, by name or by the first digits of its fingerprint; nodes made from it stay.

    Raises:
        EngineError: There is none, or more than one, of that name.
    """
    matching = match_images(driver, name)
    if len(matching) != 1:
        raise EngineError(
            f"{len(matching)} gpuprov images match {name!r}",
            evidence=f"images: {', '.join(image.name for image in driver.list_images()) or 'none'}",
            fix="gpuprov image list",
        )
    driver.delete_image(matching[0].id)
    return matching[0]
