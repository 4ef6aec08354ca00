"""The images that the planned nodes need: one for each role, built when the engine lacks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.build_image import BuildSite, ensure_image
from gpuprov.cluster.recipes import recipe_for
from gpuprov.cluster.services import init_of
from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import File
from gpuprov.drivers.networks import Attachment
from gpuprov.gpu.wheels import image_wheels
from gpuprov.spec.addressing import capacity, gateway, mac, public_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, ImageState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.provision.plane_recipe import Init, PlaneRecipe
    from gpuprov.provision.recipe import Recipe
    from gpuprov.spec.models import ClusterSpec


def ensure_node_image(
    driver: Driver,
    spec: ClusterSpec,
    plane: PlaneRecipe,
    host: HostGpus,
    *,
    networks: Callable[[], None],
    reporter: Reporter,
) -> ImageState:
    """The image for nodes of a plane; it is built on the cluster's NAT network, which `networks` waits for."""
    with reporter.phase("image"):
        recipe = node_recipe(spec, plane, host, init=init_of(driver))
        site = build_site(spec, driver, networks=networks)
        return ensure_image(driver, recipe, site=site, reporter=reporter).image


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


def node_recipe(spec: ClusterSpec, plane: PlaneRecipe, host: HostGpus, *, init: Init) -> Recipe:
    """What goes into the image."""
    return recipe_for(spec, plane, image_wheels(host), init=init)


def build_site(spec: ClusterSpec, driver: Driver, *, networks: Callable[[], None]) -> BuildSite:
    """The builder's place on the NAT bridge: the last address, which a cluster of full size alone would use."""
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
        networks=networks,
    )
