from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_FINGERPRINT
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.inventory import group_name, render_graph, render_script, tell_nodes
from gpuprov.shapes.base import changed, write
from gpuprov.stories.inventory import read_inventory
from tests.fakes.doors import door_of
from tests.fakes.host import fleet_of

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import GpuMode
    from tests.fakes.host import FakeHost
    from tests.fakes.world import World


def simulate(mode: GpuMode) -> HostGpus:
    assert mode == "simulated"
    return observe(root=Path("/nonexistent"), mode=mode)


def seeing(world: World, driver: Driver) -> FakeHost:
    """The world's host, with this engine."""
    world.host.engines = (door_of(driver),)
    return world.host


def test_a_node_is_a_host_with_its_addresses_gpus_and_groups(world: World) -> None:
    world.begin_with(2)
    inventory = read_inventory(fleet_of(seeing(world, world.driver)))
    host = write(inventory.hosts["c001"])
    assert host["ansible_connection"] == "gpuprov.cluster.gpuprov"
    assert host["ansible_host"] == host["gpuprov_address"] == "10.0.3.3"
    assert host["gpuprov_private_address"] == "10.0.5.2"
    assert (host["gpuprov_engine"], host["gpuprov_role"], host["gpuprov_cluster"]) == ("fake", "slurm", "lab")
    assert (host["gpuprov_sharing"], host["gpuprov_simulated"], host["gpuprov_status"]) == ("shared", True, "running")
    (gpu,) = host["gpuprov_gpus"]
    assert gpu == {
        "uuid": world.gpus.gpus[1].uuid,
        "label": "1",
        "index": 1,
        "minor": 1,
        "device": "/dev/nvidia1",
        "pci": world.gpus.gpus[1].pci,
        "mig": {"enabled": False, "index": None, "gpu_instance": None, "compute_instance": None},
        "model": "SIMULATED NVIDIA H100 80GB HBM3",
        "memory_bytes": world.gpus.gpus[1].memory_bytes,
        "compute_capability": "9.0",
    }
    assert host["gpuprov_driver"] == world.gpus.driver_version
    assert host["gpuprov_host"] == "here"
    both = ("c000", "c001")
    assert inventory.groups == {
        "cluster_lab": both,
        "engine_fake": both,
        "gpu_simulated_nvidia_h100_80gb_hbm3": both,
        "role_slurm": both,
    }
    assert inventory.warnings == ()


def test_the_script_form_names_every_host_and_group(world: World) -> None:
    world.begin_with(2)
    inventory = read_inventory(fleet_of(seeing(world, world.driver)))
    script = render_script(inventory)
    assert script["_meta"]["hostvars"] == {name: write(node) for name, node in inventory.hosts.items()}
    assert script["role_slurm"] == {"hosts": ["c000", "c001"]}
    assert set(script["all"]["children"]) == {"ungrouped", *inventory.groups}
    assert "  |--@role_slurm:\n  |  |--c000\n  |  |--c001" in render_graph(inventory)


def test_what_is_foreign_or_unfinished_is_no_host(world: World) -> None:
    world.begin_with(2)
    nodes = world.driver.list_nodes()
    foreign = changed(nodes[0], labels={})
    unfinished = changed(nodes[1], labels={k: v for k, v in nodes[1].labels.items() if k != LABEL_FINGERPRINT})
    driver = world.driver
    driver.list_nodes = lambda: [foreign, unfinished]  # type: ignore[method-assign]
    assert read_inventory(fleet_of(seeing(world, driver))).hosts == {}


def test_a_name_that_two_engines_have_is_left_out_and_the_others_stay(world: World) -> None:
    world.begin_with(2)
    first, second = sorted(world.driver.list_nodes(), key=lambda node: node.name)
    inventory = tell_nodes([("lxd", first), ("lxd", second), ("docker", first)], simulate)
    assert list(inventory.nodes) == ["c001"]
    (warning,) = inventory.warnings
    assert warning == (
        "the inventory omits c000: two engines have a node of that name\n"
        "evidence: lxd and docker have it\n"
        "fix: gpuprov rm c000 --engine docker"
    )


def test_a_host_whose_driver_is_broken_still_has_an_inventory(world: World) -> None:
    def broken(_mode: GpuMode) -> HostGpus:
        raise HostNotReady("NVML does not work", evidence="code 18", fix="reboot")

    world.begin_with(1)
    (node,) = world.driver.list_nodes()
    real = changed(node, labels={**node.labels, LABEL_ACCESS: "raw"})
    inventory = tell_nodes([("lxd", real)], broken)
    (gpu,) = inventory.nodes["c000"].gpuprov_gpus
    assert gpu.uuid == world.gpus.gpus[0].uuid
    assert gpu.model is None
    assert inventory.warnings == ("NVML does not work\nevidence: code 18\nfix: reboot",)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("NVIDIA GeForce GTX 1080 Ti", "gpu_nvidia_geforce_gtx_1080_ti"),
        ("  H100-80GB (SXM) ", "gpu_h100_80gb_sxm"),
    ],
)
def test_a_group_is_named_as_ansible_takes_it(value: str, name: str) -> None:
    assert group_name("gpu", value) == name
