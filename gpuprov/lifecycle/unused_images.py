"""Images that no node was made from, and that the next nodes would not be made from either; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.built_images import list_alike, list_built
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_IMAGE
from gpuprov.lifecycle.image_age import current_fingerprints
from gpuprov.machine.survey import survey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host


def find_unused(host: Host, engine: str, *, reporter: Reporter) -> Mapping[str, tuple[str, ...]]:
    """Their names, by engine: of the one that is said, or of all.

    Raises:
        GpuprovError: No engine responds.
    """
    if engine:
        return {engine: _unused(host.open(engine))}
    seen = survey(host.engines, _unused)
    seen.require_answer()
    warn_of_silence(seen.errors, reporter)
    return seen.answers


def _unused(driver: Driver) -> tuple[str, ...]:
    """All but the newest of each recipe that a role has now, or that nodes were made from."""
    images = list_built(driver)
    used = {node.labels.get(LABEL_IMAGE) for node in driver.list_nodes()}
    recipes = {image.labels.get(LABEL_FINGERPRINT, "") for image in images if image.name in used}
    if any(image.name not in used for image in images):
        recipes |= current_fingerprints(driver)
    kept = {alike[-1].name for alike in (list_alike(driver, recipe) for recipe in recipes) if alike}
    return tuple(sorted(image.name for image in images if image.name not in used | kept))
