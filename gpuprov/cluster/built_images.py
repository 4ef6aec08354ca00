"""The images that were built, and what there is where one is being built; nothing here builds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError
from gpuprov.core.fingerprint import short
from gpuprov.core.names import fold, name_cluster
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.shapes.engine import ImageState

LABEL_PURPOSE: Final = "gpuprov.purpose"
PURPOSE: Final = "image build"  # of a bridge that goes with the build


def find_builder(driver: Driver) -> NodeState | None:
    """The node in which an image is being made, or was when its build was killed."""
    builder = driver.find_node(driver.builder)
    return builder if builder is not None and builder.ours else None


def describe_builder(engine: str) -> str:
    """In words, after "is": the node that `find_builder` finds in an engine."""
    return f"an image build, under way or interrupted; the next one removes it: gpuprov image build --engine {engine}"


def find_build_networks(networks: Iterable[NetworkState]) -> tuple[str, ...]:
    """The bridges that were made for an image build alone; they are made before its node and go after it."""
    return tuple(network.name for network in networks if network.ours and network.labels.get(LABEL_PURPOSE) == PURPOSE)


def remove_left_build(driver: Driver, networks: Iterable[NetworkState], reporter: Reporter) -> None:
    """Remove what a killed build left; the caller holds the host's lock and that of image builds: nobody builds."""
    left = find_build_networks(networks)
    builder = find_builder(driver)
    if builder is not None or left:
        reporter.note("removing leftovers of an interrupted image build")
    if builder is not None:
        driver.delete_node(builder.name)
    for name in left:
        driver.delete_network(name)


def list_built(driver: Driver) -> list[ImageState]:
    """The images that gpuprov made."""
    return driver.list_images()


def list_alike(driver: Driver, fingerprint: str) -> list[ImageState]:
    """The images of one recipe: the newest is last, and older ones are there until no node was made from them."""
    alike = (image for image in driver.list_images() if image.labels.get(LABEL_FINGERPRINT) == fingerprint)
    return sorted(alike, key=lambda image: image.created)


def new_name(fingerprint: str, *, taken: bool) -> str:
    """What an image is to be called: by its recipe, and by the time where there is one of the same recipe."""
    return f"{short(fingerprint)}-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}" if taken else short(fingerprint)


def remove_superseded(driver: Driver, image: ImageState, reporter: Reporter) -> tuple[str, ...]:
    """Remove older images of its recipe from which no node was made; the caller holds the host's lock.

    Returns:
        What was removed.
    """
    removed = []
    nodes = driver.list_nodes()
    for other in list_alike(driver, image.labels[LABEL_FINGERPRINT]):
        users = sorted(node.name for node in nodes if node.labels.get(LABEL_IMAGE) == other.name)
        if other.id == image.id:
            continue
        if users:
            clusters = sorted({node.labels.get(LABEL_CLUSTER, "") for node in nodes if node.name in users})
            renew = name_cluster("gpuprov cluster up --renew", clusters[0])
            reporter.note(f"{other.name} is kept for {fold(users)}; to replace such nodes: {renew}")
        else:
            driver.delete_image(other.id)
            removed.append(other.name)
    return tuple(removed)


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
