from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.access import Access, decide_access
from gpuprov.gpu.driver_mounts import plan_library_mounts
from gpuprov.gpu.libraries import find_libraries, find_nvidia_smi

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Recorded = Callable[[str], Any]


def test_no_gpu_no_access(recorded: Recorded) -> None:
    assert decide_access(recorded("one-gpu").observe(), ()) == Access(kind="none", reason="the node has no GPU")


def test_simulated_says_so(recorded: Recorded) -> None:
    host = recorded("no-gpu").observe()
    access = decide_access(replace(host, offers={"cdi": "seen"}), host.units[:1])
    assert (access.kind, access.mounts) == ("simulated", ())
    assert access.reason.startswith("SIMULATED")
    assert [device.path for device in access.devices] == ["/dev/nvidia0", "/dev/nvidiactl"]


def test_simulated_beside_a_driver_opens_nothing_real(recorded: Recorded) -> None:
    host = recorded("one-gpu").observe("simulated")
    access = decide_access(host, host.units[:1])
    assert [(device.major, device.minor) for device in access.devices] == [(195, 128)]


def test_raw_is_taken_where_it_can_serve_whatever_else_is_offered(recorded: Recorded) -> None:
    host = recorded("eight-gpu").observe()
    access = decide_access(replace(host, offers={"cdi": "seen", "nvidia-runtime": "seen"}), host.units[:1])
    assert access.kind == "raw"
    assert access.devices[0].path == "/dev/nvidia2"
    assert all(mount.read_only for mount in access.mounts)


def test_what_the_engine_offers_is_taken_only_where_raw_cannot_serve(recorded: Recorded) -> None:
    host = recorded("uvm-missing").observe()
    access = decide_access(replace(host, offers={"nvidia-runtime": "seen", "cdi": "seen"}), host.units)
    assert (access.kind, access.devices, access.mounts) == ("nvidia-runtime", (), ())
    assert "nvidia-uvm is not loaded" in access.reason
    with pytest.raises(HostNotReady, match="nvidia-uvm is not loaded"):
        decide_access(host, host.units)


def test_libraries_are_mounted_under_the_names_they_are_loaded_by(recorded: Recorded) -> None:
    mounts = {mount.target: mount.source for mount in plan_library_mounts(recorded("eight-gpu").observe().driver)}
    folder = "/usr/lib/x86_64-linux-gnu"
    assert mounts[f"{folder}/libcuda.so.1"] == f"{folder}/libcuda.so.580.95.05"
    assert mounts[f"{folder}/libcuda.so.580.95.05"] == f"{folder}/libcuda.so.580.95.05"
    assert mounts[f"{folder}/libnvidia-nvvm.so.4"] == f"{folder}/libnvidia-nvvm.so.580.95.05"
    assert mounts["/usr/bin/nvidia-smi"] == "/usr/bin/nvidia-smi"
    assert not any("glcore" in target or "cudadebugger" in target for target in mounts)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("one-gpu", "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.550.90.07"),
        ("uvm-missing", "/usr/lib64/libcuda.so.535.183.01"),
        ("h100-vm", "/usr/local/nvidia/lib64/libcuda.so.580.159.04"),
        ("h200-vm", "/usr/local/nvidia/lib64/libcuda.so.580.159.04"),
    ],
)
def test_libraries_are_found_where_distributions_put_them(recorded: Recorded, name: str, source: str) -> None:
    mounts = {mount.target: mount.source for mount in plan_library_mounts(recorded(name).observe().driver)}
    assert mounts["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] == source


@pytest.mark.parametrize(
    ("name", "source"),
    [("one-gpu", "/usr/lib/nvidia/current/nvidia-smi"), ("h200-vm", "/usr/local/nvidia/bin/nvidia-smi")],
)
def test_nvidia_smi_is_mounted_from_behind_links_and_scripts(recorded: Recorded, name: str, source: str) -> None:
    mounts = {mount.target: mount.source for mount in plan_library_mounts(recorded(name).observe().driver)}
    assert mounts["/usr/bin/nvidia-smi"] == source


def test_a_script_in_place_of_nvidia_smi_is_no_program_for_nodes(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/nvidia-smi").write_text("#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-smi\n")
    assert find_nvidia_smi(tmp_path) is None
    program = tmp_path / "usr/local/nvidia/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF")
    assert find_nvidia_smi(tmp_path) == "/usr/local/nvidia/bin/nvidia-smi"


def test_an_nvidia_smi_that_this_user_may_not_read_is_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF")
    monkeypatch.setattr(Path, "open", Mock(side_effect=PermissionError(13, "Permission denied")))
    assert find_nvidia_smi(tmp_path) == "/usr/bin/nvidia-smi"


def test_libraries_of_another_version_are_never_mounted(recorded: Recorded) -> None:
    host = recorded("driver-mismatch").observe("simulated")
    with pytest.raises(HostNotReady) as caught:
        plan_library_mounts(host.driver)
    assert "libcuda.so.550.90.07 is not on this host" in caught.value.what
    assert "libcuda.so.550.163.01" in caught.value.evidence


def test_both_versions_present_takes_the_modules(recorded: Recorded) -> None:
    driver = recorded("one-gpu").observe().driver
    both = replace(
        driver, libraries=(*[path.replace("90.07", "163.01") for path in driver.libraries], *driver.libraries)
    )
    assert plan_library_mounts(both) == plan_library_mounts(driver)


def test_a_link_to_a_library_is_not_mounted_instead_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    (folder / "nvidia/current").mkdir(parents=True)
    (folder / "nvidia/current/libcuda.so.550.90.07").write_text("")
    (folder / "libcuda.so.550.90.07").symlink_to("/etc/alternatives/glx--libcuda.so.550.90.07")
    assert find_libraries(tmp_path) == ("/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.550.90.07",)
