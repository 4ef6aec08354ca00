"""The images that the planned nodes need: one for each role, and where one is built that the engine lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.build_image import BuildSite
from gpuprov.cluster.recipes import recipe_for
from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import File
from gpuprov.drivers.networks import Attachment
from gpuprov.gpu.wheels import image_wheels
from gpuprov.spec.addressing import capacity, gateway, mac, public_address

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver, ImageState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.provision.plane_recipe import Init, PlaneRecipe
    from gpuprov.provision.recipe import Recipe
    from gpuprov.spec.models import ClusterSpec


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
