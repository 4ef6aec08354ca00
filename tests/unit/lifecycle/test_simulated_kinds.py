"""A cluster on a simulated host of another kind: types for Slurm, and placement by what GPUs are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_GPU_TYPES
from gpuprov.gpu.observe import observe
from gpuprov.shapes.base import changed
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from tests.fakes.world import World


def test_slurm_knows_the_types_of_a_mixed_host(world: World) -> None:
    world.gpus = observe(root=NOWHERE, mode="simulated", profile="mixed")
    world.up(spec=world.spec(4, sharing="exclusive"))
    types = [node.labels[LABEL_GPU_TYPES] for _, node in sorted(world.engine.nodes.items())]
    assert sorted(types) == ["a100", "h100", "h100", "t4"]
    slurm = world.engine.nodes["c000"].files["/etc/slurm/slurm.conf"].content
    for name in ("Gres=gpu:a100:1", "Gres=gpu:h100:1", "Gres=gpu:t4:1"):
        assert name in str(slurm)


def test_nodes_go_to_the_gpus_that_a_spec_asks_for(world: World) -> None:
    world.gpus = observe(root=NOWHERE, mode="simulated", profile="mixed")
    spec = world.spec(2, sharing="exclusive")
    world.up(spec=changed(spec, gpus=changed(spec.gpus, model="H100")))
    assert {node.labels[LABEL_GPU_TYPES] for node in world.engine.nodes.values()} == {"h100"}


def test_a_host_that_has_no_such_gpu_is_refused(world: World) -> None:
    world.gpus = observe(root=NOWHERE, mode="simulated", profile="gtx1080")
    with pytest.raises(UsageError, match="GPU"):
        world.up(spec=world.spec(2, sharing="exclusive"))
