"""`image build` and `image rm`, and what verbs that need images do where one is missing.

A build takes minutes. It holds a lock of its own, and the host's only for moments: other verbs go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from gpuprov import __version__
from gpuprov.cluster.build_image import OWNER, EnsuredImage, ensure_image, find_built
from gpuprov.cluster.built_images import (
    LABEL_PURPOSE,
    PURPOSE,
    delete_built,
    find_build_networks,
    find_builder,
    match_images,
    remove_left_build,
    remove_superseded,
)
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.images import build_site, node_recipe
from gpuprov.cluster.network_plan import network_requests
from gpuprov.cluster.networks import isolate_networks
from gpuprov.cluster.refresh_cache import look_for_updates
from gpuprov.cluster.services import init_of
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.core.interrupts import to_its_end
from gpuprov.core.names import BRIDGES
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.planes.registry import check_spec, plane_of
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NetworkSpec
from gpuprov.spec.draft import NETWORK_VALUES, SHARE, Draft

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cluster.build_image import BuildSite
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.host.base import Host
    from gpuprov.provision.recipe import Recipe
    from gpuprov.shapes.engine import ImageState

# The builder's own: apart from what clusters have by default, perhaps on another engine.
_NETWORK: Final = NetworkSpec(
    bridge=f"{BRIDGES}998",
    subnet="10.0.251.0/24",
    private_bridge=f"{BRIDGES}999",
    private_subnet="10.0.252.0/24",
)
Built = Mapping[str, "ImageState"]  # by role, by this run
HostPorts = tuple[int | str, ...]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class MissingImages:
    """What a story found out under the host's lock, and changed nothing: it needs images that are not there.

    Attributes:
        recipes: What goes into them, by role.
        host_ports: Ports of the host that a build may reach, such as that of a mirror.
    """

    recipes: Mapping[str, Recipe]
    host_ports: HostPorts = ()


def with_images(
    driver: Driver, host: Host, attempt: Callable[[Host, Built], Result | MissingImages], *, reporter: Reporter
) -> Result:
    """Attempt it; where images are missing, build them while others may change the host, and start over.

    Args:
        driver: The engine.
        host: The machine.
        attempt: Takes the host's lock, observes, and does it with the images that are there.
        reporter: Is told what goes on.
    """
    built: dict[str, ImageState] = {}
    while isinstance(done := attempt(host, built), MissingImages):
        for role, recipe in done.recipes.items():
            ensured = ensure_built(driver, recipe, host, host_ports=done.host_ports, reporter=reporter)
            built[role] = ensured.image
        host = host.afresh()
    return done


def build_image(
    driver: Driver, spec: ClusterSpec, host: Host, gpus: HostGpus, *, reporter: Reporter, fresh: bool = False
) -> EnsuredImage:
    """Build the image for the spec's role unless it is there; with `fresh` of new packages in any case.

    Raises:
        GpuprovError: Something refused or failed; nothing is left of the attempt.
    """
    check_spec(spec, left=frozenset({SHARE}))
    recipe = node_recipe(spec, plane_of(spec.nodes.role).recipe, gpus, init=init_of(driver))
    ensured = ensure_built(driver, recipe, host, host_ports=spec.network.host_ports, reporter=reporter, fresh=fresh)
    if fresh:
        look_for_updates(recipe.base, reporter=reporter)
    return ensured


def ensure_built(
    driver: Driver, recipe: Recipe, host: Host, *, host_ports: HostPorts, reporter: Reporter, fresh: bool = False
) -> EnsuredImage:
    """Build a recipe's image unless it is there, on a bridge that is made for that alone and removed again.

    The host's lock is held only while that bridge is made and removed.

    Raises:
        GpuprovError: Something refused or failed; nothing is left of the attempt.
    """
    host = host.checked(lambda: None)  # whatever others do meanwhile, an image is the same
    if not fresh and (found := find_built(driver, recipe)):
        with host.image_lock_if_free() as free:
            if free:
                _remove_left(driver, host, reporter)
        return EnsuredImage(image=found, built=False)
    with host.image_lock(reporter), Rollback(reporter, left_over=AGAIN) as rollback:
        _remove_left(driver, host, reporter)
        if not fresh and (found := find_built(driver, recipe)):
            return EnsuredImage(image=found, built=False)
        with reporter.phase("image"):
            site, network = _make_network(driver, host, host_ports, rollback, reporter)
            ensured = ensure_image(driver, recipe, site=site, reporter=reporter, fresh=fresh)
            _remove_network(driver, host, network, reporter)
        if fresh:
            with host.lock(reporter):
                remove_superseded(driver, ensured.image, reporter)
    return ensured


def _remove_left(driver: Driver, host: Host, reporter: Reporter) -> None:
    """Remove what a killed build left, if it left anything; the caller holds the lock of image builds."""
    if find_builder(driver) or find_build_networks(driver.list_networks()):
        with host.lock(reporter):
            remove_left_build(driver, driver.list_networks(), reporter)


def _make_network(
    driver: Driver, host: Host, host_ports: HostPorts, rollback: Rollback, reporter: Reporter
) -> tuple[BuildSite, str]:
    """A bridge for the builder alone; returns the builder's place on it, and its name."""
    with host.lock(reporter), reporter.phase("networks"):
        around = Surroundings(driver, host, observe_cluster(driver, OWNER))
        network = changed(_NETWORK, host_ports=host_ports)
        spec = around.settle(Draft(spec=ClusterSpec(name=OWNER, network=network), left=NETWORK_VALUES))
        warn_of_silence(around.silent, reporter)
        wanted, _ = network_requests(spec, version=__version__)
        request = replace(wanted, labels={**wanted.labels, LABEL_PURPOSE: PURPOSE})
        undo = partial(_remove_network, driver, host, request.name, reporter)
        rollback.add(f"network {request.name}", undo)
        to_its_end(partial(driver.create_network, request))
        isolate_networks(driver, [request.name], reporter=reporter)
        driver.complete_network(request)
    return build_site(spec, driver), request.name


def _remove_network(driver: Driver, host: Host, name: str, reporter: Reporter) -> None:
    with host.lock(reporter):
        driver.delete_network(name)


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
