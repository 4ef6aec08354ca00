from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.device_nodes import NodeStat, find_wrong_nodes, plan_device_nodes, plan_simulated_nodes
from gpuprov.gpu.device_numbers import paths_of_unit
from gpuprov.gpu.host_device_nodes import find_missing_links, stat_nodes
from gpuprov.gpu.models import MigInstance
from gpuprov.shapes.node import CharDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    Recorded = Callable[[str], Any]


def numbers(devices: Sequence[CharDevice]) -> dict[str, str]:
    return {device.path: f"{device.major}:{device.minor}" for device in devices}


def test_a_node_gets_the_minors_of_its_gpus_and_no_others(recorded: Recorded) -> None:
    host = recorded("eight-gpu").observe()
    assert numbers(plan_device_nodes(host.units[:2], host.driver)) == {
        "/dev/nvidia2": "195:2",
        "/dev/nvidia3": "195:3",
        "/dev/nvidiactl": "195:255",
        "/dev/nvidia-modeset": "195:254",
        "/dev/nvidia-uvm": "509:0",
        "/dev/nvidia-uvm-tools": "509:1",
    }


def test_the_major_of_uvm_is_this_boots(recorded: Recorded) -> None:
    host = recorded("one-gpu").observe()
    assert numbers(plan_device_nodes(host.units, host.driver))["/dev/nvidia-uvm"] == "508:0"


def test_without_uvm_no_node_is_made(recorded: Recorded) -> None:
    host = recorded("uvm-missing").observe()
    with pytest.raises(HostNotReady) as caught:
        plan_device_nodes(host.units, host.driver)
    assert caught.value.fix == "nvidia-modprobe -u -c0"
    assert plan_device_nodes((), host.driver) == ()


def test_a_mig_instance_brings_its_two_capabilities(recorded: Recorded) -> None:
    host = recorded("mig").observe()
    minors = host.driver.caps_minors
    devices = numbers(plan_device_nodes(host.units[1:2], host.driver))
    assert devices["/dev/nvidia1"] == "195:1"
    assert "/dev/nvidia0" not in devices
    capabilities = {path: number for path, number in devices.items() if "caps" in path}
    assert capabilities == {
        f"/dev/nvidia-caps/nvidia-cap{minors[name]}": f"236:{minors[name]}"
        for name in ("gpu1/gi2/access", "gpu1/gi2/ci0/access")
    }
    assert not any("caps" in device.path for device in plan_device_nodes(host.units[2:], host.driver))


def test_an_unknown_capability_is_an_error(recorded: Recorded) -> None:
    mig, plain = recorded("mig").observe(), recorded("one-gpu").observe()
    with pytest.raises(HostNotReady, match="gpu1/gi1/access"):
        plan_device_nodes(mig.units[:1], plain.driver)


def test_simulated_nodes_have_a_control_device_unless_it_would_be_real(recorded: Recorded) -> None:
    gpus = recorded("no-gpu").observe().units[1:2]
    assert numbers(plan_simulated_nodes(gpus, driver_loaded=False)) == {
        "/dev/nvidia1": "195:1",
        "/dev/nvidiactl": "195:255",
    }
    assert numbers(plan_simulated_nodes(gpus, driver_loaded=True)) == {"/dev/nvidia1": "195:1"}
    assert plan_simulated_nodes((), driver_loaded=False) == ()


def test_a_simulated_mig_instance_brings_its_two_capabilities_too(recorded: Recorded) -> None:
    gpu = recorded("no-gpu").observe().units[1]
    parts = [
        replace(gpu, uuid=uuid, mig=(MigInstance(index=0, uuid=uuid, gpu_instance=number, compute_instance=0),))
        for uuid, number in (("MIG-1", 1), ("MIG-2", 2))
    ]
    devices = plan_simulated_nodes(parts, driver_loaded=True)
    assert numbers(devices) == {
        "/dev/nvidia1": "195:1",
        **{f"/dev/nvidia-caps/nvidia-cap{number}": f"195:{256 + number}" for number in (147, 148, 156, 157)},
    }
    assert paths_of_unit(parts[1], None) == tuple(device.path for device in (devices[0], *devices[3:]))


def test_a_real_one_has_those_of_the_driver(recorded: Recorded) -> None:
    host = recorded("mig").observe()
    (gpu, *capabilities) = paths_of_unit(host.units[1], host.driver)
    planned = [device.path for device in plan_device_nodes(host.units[1:2], host.driver) if "caps" in device.path]
    assert (gpu, sorted(capabilities)) == ("/dev/nvidia1", sorted(planned))


@pytest.mark.parametrize("name", ["one-gpu", "eight-gpu", "h100-vm", "h200-vm"])
def test_a_healthy_hosts_own_nodes_are_right(recorded: Recorded, name: str) -> None:
    host = recorded(name).observe()
    assert find_wrong_nodes(plan_device_nodes(host.units, host.driver), recorded(name).device_stats) == ()


def test_wrong_nodes_of_the_host_are_told_with_what_was_wanted(recorded: Recorded) -> None:
    host, stats = recorded("one-gpu").observe(), recorded("one-gpu").device_stats
    stats["/dev/nvidia-uvm"] = NodeStat(kind="char", major=510, minor=0)
    stats["/dev/nvidia0"] = NodeStat(kind="other", major=0, minor=0)
    del stats["/dev/nvidiactl"]
    assert find_wrong_nodes(plan_device_nodes(host.units, host.driver), stats) == (
        "/dev/nvidia0 is not a character device (expected 195:0)",
        "/dev/nvidiactl is missing (expected 195:255)",
        "/dev/nvidia-uvm is 510:0 (expected 508:0)",
    )


def test_stat_sees_the_null_device_and_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/null").symlink_to("/dev/null")
    (tmp_path / "dev/file").write_text("")
    devices = [CharDevice(path=f"/dev/{name}", major=1, minor=3) for name in ("null", "file", "absent")]
    found = stat_nodes(tmp_path, devices)
    assert found["/dev/null"] == NodeStat(kind="char", major=1, minor=3)
    assert found["/dev/file"].kind == "other"
    assert "/dev/absent" not in found


def test_a_device_without_its_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "dev/char").mkdir(parents=True)
    (tmp_path / "dev/char/195:0").symlink_to("/dev/null")
    devices = [CharDevice(path=f"/dev/nvidia{minor}", major=195, minor=minor) for minor in (0, 1)]
    assert find_missing_links(tmp_path, devices) == (devices[1],)


def test_modeset_is_passed_only_where_it_is_loaded(recorded: Recorded) -> None:
    host = recorded("one-gpu").observe()
    without = replace(host.driver, modeset=False)
    assert "/dev/nvidia-modeset" in numbers(plan_device_nodes(host.units, host.driver))
    assert "/dev/nvidia-modeset" not in numbers(plan_device_nodes(host.units, without))
    assert not recorded("uvm-missing").observe().driver.modeset
