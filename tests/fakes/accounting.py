"""A cluster of the fake engine whose Slurm has accounting."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.images import node_recipe
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_RECIPE
from gpuprov.provision.recipe_record import dump_recipe_record, record_recipe
from gpuprov.roles.registry import ROLES

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from tests.fakes.world import World


def accounting_spec(world: World, count: int = 2, **more: Any) -> ClusterSpec:
    """A spec with accounting; the engine has the image for it already."""
    spec = world.spec(count, **{"share": True, "accounting": True, **more})
    recipe = node_recipe(spec, ROLES["slurm"].recipe_of(spec), world.gpus, init="systemd")
    record = record_recipe(recipe, recipe.hash_contents())
    image = world.engine.images["slurm"]
    labels = {**image.labels, LABEL_FINGERPRINT: record.fingerprint, LABEL_RECIPE: dump_recipe_record(record)}
    world.engine.images["counting"] = replace(image, id="counting", name="counting", labels=labels)
    return spec
