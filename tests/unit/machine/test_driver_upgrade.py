"""A cluster meets its host with another NVIDIA driver: the plan names what changed, `cluster up` repairs it, once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.images import node_recipe
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.drivers.base import LABEL_DRIVER, LABEL_FINGERPRINT
from gpuprov.lifecycle.cluster_up import preview_changes
from gpuprov.roles.registry import role_of
from tests.unit.machine.test_gpu_findings import facts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.gpu.models import DriverFiles, HostGpus
    from tests.fakes.world import World

pytestmark = pytest.mark.slow

OLD, NEW = "580.95.05", "590.44.01"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture
def gpus(world: World) -> World:
    """A host with eight GPUs and their driver, and the images for it; create-node has made a node too."""
    host = facts_of("eight-gpu").gpus
    assert host
    assert host.driver
    assert host.driver.version == OLD
    world.gpus = host
    for role, image in world.engine.images.items():
        recipe = node_recipe(world.spec(), role_of(role).recipe, host, init="systemd")
        image.labels = {**image.labels, LABEL_FINGERPRINT: recipe.fingerprint}
    world.up(3)
    world.create("web", role="plain", gpus="7")
    assert world.up(3).unchanged
    return world


def upgraded(host: HostGpus, *, without: str = "none", **changes: object) -> HostGpus:
    """The host after an upgrade; `without` is a library that the new driver has not got."""
    assert host.driver
    libraries = tuple(path.replace(OLD, NEW) for path in host.driver.libraries if without not in path)
    driver = replace(host.driver, version=NEW, libraries=libraries, **changes)  # type: ignore[arg-type]
    return replace(host, driver_version=NEW, driver=driver)


def driver_of(world: World) -> DriverFiles:
    assert world.gpus.driver
    return world.gpus.driver


def meet(world: World, host: HostGpus) -> None:
    """The host is this one now; files of the old driver are gone."""
    before, world.gpus = driver_of(world), host
    now = driver_of(world)
    gone = {*before.libraries, before.nvidia_smi} - {*now.libraries, now.nvidia_smi}
    world.engine.gone = {path for path in gone if path}


CASES: dict[str, tuple[Callable[[HostGpus], HostGpus], str]] = {
    "another version": (
        upgraded,
        f"(until now {LIBRARIES}/libcuda.so.1 ({LIBRARIES}/libcuda.so.{OLD} ro), {LIBRARIES}/libcuda.so.{OLD}, 9 more)",
    ),
    "a library less": (
        lambda host: upgraded(host, without="libnvidia-gpucomp"),
        f"{LABEL_DRIVER} {NEW} (until now {OLD})",
    ),
    "another uvm major": (
        lambda host: upgraded(host, uvm_major=511),
        "devices /dev/nvidia-uvm (511:0 mode 0666), /dev/nvidia-uvm-tools (511:1 mode 0666) (until now ",
    ),
    "no modeset": (
        lambda host: upgraded(host, modeset=False),
        "devices none (until now /dev/nvidia-modeset); mounts ",
    ),
    "nvidia-smi is elsewhere": (
        lambda host: upgraded(host, nvidia_smi="/usr/lib/nvidia/current/nvidia-smi"),
        f"{LABEL_DRIVER} {NEW} (until now {OLD})",
    ),
    "another uvm major since the reboot, and the same driver": (
        lambda host: replace(host, driver=replace(host.driver, uvm_major=511) if host.driver else None),
        "(until now /dev/nvidia-uvm (509:0 mode 0666), /dev/nvidia-uvm-tools (509:1 mode 0666))",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("status", ["running", "stopped"])
@pytest.mark.parametrize("case", CASES)
def test_another_driver_is_named_and_met(gpus: World, case: str, status: str) -> None:
    """Running nodes keep what they had open; those that the reboot left stopped could not start with what is gone."""
    change, words = CASES[case]
    meet(gpus, change(gpus.gpus))
    for node in gpus.engine.nodes.values():
        node.status = "stopped" if status == "stopped" else "running"
    gpus.engine.faults.clear()
    planned = preview_changes(gpus.driver, gpus.spec(3), gpus.host, reporter=gpus.reporter)
    assert gpus.steps() == []
    repairs = [line for line in planned if line.startswith("repair node ")]
    assert [line.split(":")[0].split()[-1] for line in repairs] == ["c000", "c001", "c002", "web"]
    assert all(words in line for line in repairs), repairs
    assert all(len(line) < 700 for line in repairs), repairs
    assert ("start node c001" in planned) is (status == "stopped")
    assert not [line for line in planned if line.startswith("restart")]
    assert gpus.up(3).changed == planned
    assert "stop_node" not in {step for step, _ in gpus.steps()}
    driver = driver_of(gpus)
    for node in gpus.engine.nodes.values():
        assert node.status == "running"
        assert node.labels[LABEL_DRIVER] == driver.version
        sources = {mount.source for mount in node.mounts}
        assert f"{LIBRARIES}/libcuda.so.{driver.version}" in sources
        assert sources <= {*driver.libraries, driver.nvidia_smi}
        assert {device.major for device in node.devices if "uvm" in device.path} == {driver.uvm_major}
    assert preview_changes(gpus.driver, gpus.spec(3), gpus.host, reporter=gpus.reporter) == ()
    assert gpus.up(3).unchanged


def test_a_node_whose_libraries_are_gone_starts_only_once_it_was_repaired(gpus: World) -> None:
    gpus.engine.nodes["c001"].status = "stopped"
    meet(gpus, upgraded(gpus.gpus))
    with pytest.raises(EngineError) as refused:
        gpus.driver.start_node("c001")
    assert "missing source path" in refused.value.evidence
    gpus.up(3)
    gpus.driver.start_node("c001")


def test_a_node_that_has_to_restart_anyway_meets_the_new_driver_too(gpus: World) -> None:
    gpus.engine.nodes["c001"].privileged = True
    meet(gpus, upgraded(gpus.gpus, uvm_major=511))
    planned = preview_changes(gpus.driver, gpus.spec(3), gpus.host, reporter=gpus.reporter)
    assert "restart node c001" in planned
    gpus.up(3)
    assert gpus.engine.nodes["c001"].status == "running"
    assert gpus.up(3).unchanged


def test_an_engine_that_replaces_nodes_meets_it_when_no_job_runs(gpus: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(gpus.driver), "capabilities", gpus.driver.capabilities - {"devices-live"})
    meet(gpus, upgraded(gpus.gpus))
    gpus.slurm.jobs["c001"] = "17"
    before = gpus.engine.dump()
    with pytest.raises(UsageError, match=r"there are jobs on c\[000-002\],web"):
        gpus.up(3)
    assert gpus.engine.dump() == before
    gpus.slurm.jobs.clear()
    names = [f"restart node {name}" for name in ("c000", "c001", "c002", "web")]
    assert [line for line in gpus.up(3).changed if line.startswith("restart")] == names
    assert gpus.up(3).unchanged


def test_libraries_upgraded_under_the_loaded_module_change_nothing(gpus: World) -> None:
    libraries = tuple(path.replace(OLD, NEW) for path in driver_of(gpus).libraries)
    meet(gpus, replace(gpus.gpus, driver=replace(driver_of(gpus), libraries=libraries)))
    before = gpus.engine.dump()
    for run in (
        lambda: preview_changes(gpus.driver, gpus.spec(3), gpus.host, reporter=gpus.reporter),
        lambda: gpus.up(3),
    ):
        with pytest.raises(HostNotReady) as refused:
            run()
        assert refused.value.fix.startswith("reboot after a driver upgrade")
    assert gpus.engine.dump() == before


def test_a_simulated_driver_s_version_is_a_label_only(world: World) -> None:
    world.up(2)
    world.gpus = replace(world.gpus, driver_version=NEW)
    world.engine.faults.clear()
    changed = world.up(2).changed
    assert changed == tuple(f"repair node c00{n}: {LABEL_DRIVER} {NEW} (until now {OLD})" for n in range(2))
    assert world.engine.nodes["c001"].labels[LABEL_DRIVER] == NEW
    assert world.up(2).unchanged
