"""The recipe of the image for nodes of a cluster; apart from what builds it, which tables of nodes do not need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.assets import get_asset
from gpuprov.provision.recipe import Recipe, image_recipe

if TYPE_CHECKING:
    from gpuprov.gpu.wheels import CudaWheels
    from gpuprov.provision.plane_recipe import Init, PlaneRecipe
    from gpuprov.shapes.cluster_spec import ClusterSpec


def recipe_for(spec: ClusterSpec, plane: PlaneRecipe, wheels: CudaWheels, *, init: Init) -> Recipe:
    """What goes into the image of nodes of a plane, on hosts with these packages of CUDA's."""
    return image_recipe(
        spec.image,
        plane=plane,
        wheels=wheels,
        init=init,
        roles_path=get_asset("roles"),
        smoke_kernels=get_asset("smoke_kernels"),
    )
