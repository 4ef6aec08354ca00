"""The images that nodes need. A story that finds one missing under the host's lock has it built without it.

A build takes minutes. It holds a lock of its own, and the host's only for moments: other verbs go on meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov import __version__
from gpuprov.cluster.build_image import OWNER, BuildSite, EnsuredImage, ensure_image, find_built
from gpuprov.cluster.built_images import (
    LABEL_PURPOSE,
    PURPOSE,
    find_build_networks,
    find_builder,
    remove_left_build,
    remove_superseded,
)
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.network_plan import network_requests
from gpuprov.cluster.networks import isolate_networks
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.surroundings import Surroundings
from gpuprov.core.errors import EngineError
from gpuprov.core.interrupts import to_its_end
from gpuprov.core.names import BRIDGES
from gpuprov.core.rollback import AGAIN, Rollback
from gpuprov.drivers.base import LABEL_FINGERPRINT, File
from gpuprov.gpu.wheels import image_wheels
from gpuprov.provision.recipe import recipe_for
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NetworkSpec
from gpuprov.shapes.node import Attachment
from gpuprov.spec.addressing import capacity, gateway, mac, public_address
from gpuprov.spec.draft import NETWORK_VALUES, Draft

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.provision.recipe import Recipe
    from gpuprov.provision.role_recipe import Init, RoleRecipe
    from gpuprov.shapes.engine import ImageState

# The builder's own: apart from what clusters have by default, perhaps on another engine.
_NETWORK: Final = NetworkSpec(
    bridge=f"{BRIDGES}998",
    subnet="10.0.251.0/24",
    private_bridge=f"{BRIDGES}999",
    private_subnet="10.0.252.0/24",
)
HostPorts = tuple[int | str, ...]


@dataclass(frozen=True, kw_only=True)
class MissingImages:
    """What a story found out under the host's lock, and changed nothing: it needs images that are not there.

    Attributes:
        recipes: What goes into them, by role.
        host_ports: Ports of the host that a build may reach, such as that of a mirror.
    """

    recipes: Mapping[str, Recipe]
    host_ports: HostPorts = ()

    def build(self, driver: Driver, host: Host, reporter: Reporter) -> dict[str, ImageState]:
        """Build them, by role; the caller does not hold the host's lock."""
        return {
            role: ensure_built(driver, recipe, host, host_ports=self.host_ports, reporter=reporter).image
            for role, recipe in self.recipes.items()
        }


def find_images(
    driver: Driver, recipes: Mapping[str, Recipe], built: Mapping[str, ImageState], *, host_ports: HostPorts
) -> tuple[dict[str, ImageState], MissingImages | None]:
    """The images that are there, by role, and what is missing.

    Args:
        recipes: What goes into them, by role.
        built: Those that this run has built: what they were made from may have changed since.
        host_ports: Ports of the host that a build may reach.
    """
    there = driver.list_images() if recipes else []
    found = {image.labels.get(LABEL_FINGERPRINT): image for image in there}
    known = {image.id: image for image in there}
    images = {
        role: image
        for role, recipe in recipes.items()
        if (image := found.get(recipe.fingerprint) or (known.get(built[role].id) if role in built else None))
    }
    missing = {role: recipe for role, recipe in recipes.items() if role not in images}
    return images, MissingImages(recipes=missing, host_ports=host_ports) if missing else None


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


def get_named_image(driver: Driver, name: str) -> ImageState:
    """An image of gpuprov's or of the engine's.

    Raises:
        EngineError: There is none of that name.
    """
    image = driver.find_image(name)
    if image is None:
        known = ", ".join(image.name for image in driver.list_images())
        raise EngineError(
            f"{driver.name} has no image {name!r}",
            evidence=f"gpuprov images: {known or 'none'}",
            fix="gpuprov image list; or omit --image",
        )
    return image


def node_recipe(spec: ClusterSpec, role: RoleRecipe, host: HostGpus, *, init: Init) -> Recipe:
    """What goes into the image."""
    return recipe_for(spec, role, image_wheels(host), init=init)


def build_site(spec: ClusterSpec, driver: Driver) -> BuildSite:
    """The builder's place on the NAT bridge of its own: the last address."""
    from ipaddress import IPv4Network

    last = capacity(IPv4Network(spec.network.subnet)) - 1
    router = str(gateway(spec.network).ip)
    return BuildSite(
        attachments=(
            Attachment(
                network=spec.network.bridge,
                interface="eth0",
                kind="veth",
                address=str(public_address(last, spec.network)),
                mac=mac(spec.name, driver.builder, "eth0"),
                gateway=router,
            ),
        ),
        files=(
            File(path="/etc/resolv.conf", content=f"nameserver {driver.nameserver or router}\n".encode()),
            File(path="/etc/hosts", content=b"127.0.0.1 localhost\n"),
        ),
    )
