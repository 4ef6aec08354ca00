"""Bring a node image to a state, or say what that would change: `image build` and `image rm` for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.build_image import find_built
from gpuprov.cluster.built_images import match_images
from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.services import init_of
from gpuprov.planes.registry import check_spec, plane_of
from gpuprov.workflows import standalone_image

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.spec.models import ClusterSpec


def ensure_image_built(
    driver: Driver, spec: ClusterSpec, host: Host, gpus: HostGpus, *, reporter: Reporter, check: bool = False
) -> tuple[str | None, tuple[str, ...]]:
    """The name of the image for the spec's role, None where it would have to be built first, and the changes.

    Raises:
        GpuprovError: Something refused or failed; nothing is left of the attempt.
    """
    if check:
        check_spec(spec)
        found = find_built(driver, node_recipe(spec, plane_of(spec.nodes.role).recipe, gpus, init=init_of(driver)))
        return (found.name, ()) if found else (None, (f"built an image for {spec.nodes.role} nodes",))
    ensured = standalone_image.build_image(driver, spec, host, gpus, reporter=reporter)
    return ensured.image.name, (f"built image {ensured.image.name}",) if ensured.built else ()


def ensure_image_absent(
    driver: Driver, name: str, host: Host, *, reporter: Reporter, check: bool = False
) -> tuple[str, ...]:
    """Remove an image, if it is there; returns the changes.

    Raises:
        EngineError: More than one image begins so.
    """
    found = match_images(driver, name)
    if not found:
        return ()
    if check and len(found) == 1:
        return (f"removed image {found[0].name}",)
    return standalone_image.remove_image(driver, name, host, reporter=reporter).changed
