"""`image build` and `image rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.built_images import (
    delete_built,
    match_images,
)
from gpuprov.cluster.images import ensure_built
from gpuprov.cluster.refresh_cache import look_for_updates
from gpuprov.core.outcome import Outcome
from gpuprov.roles.registry import check_spec, role_recipe
from gpuprov.spec.draft import SHARE

if TYPE_CHECKING:
    from gpuprov.cluster.build_image import EnsuredImage
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec


def build_image(
    driver: Driver, spec: ClusterSpec, host: Host, gpus: HostGpus, *, reporter: Reporter, fresh: bool = False
) -> EnsuredImage:
    """Build the image for the spec's role unless it is there; with `fresh` of new packages in any case.

    Raises:
        GpuprovError: Something refused or failed; nothing is left of the attempt.
    """
    check_spec(spec, left=frozenset({SHARE}))
    recipe = role_recipe(driver, spec, spec.nodes.role, gpus)
    ensured = ensure_built(driver, recipe, host, host_ports=spec.network.host_ports, reporter=reporter, fresh=fresh)
    if fresh:
        look_for_updates(recipe.base, reporter=reporter)
    return ensured


def remove_image(driver: Driver, name: str, host: Host, *, reporter: Reporter) -> Outcome:
    """Remove an image by name or by the first digits of its fingerprint; one that is not there is said, and no error.

    Raises:
        EngineError: There is more than one of that name.
    """
    with host.lock(reporter):
        if name and not match_images(driver, name):
            reporter.note(f"there is no image {name}")
            return Outcome()
        return Outcome(changed=(f"removed image {delete_built(driver, name).name}",))
