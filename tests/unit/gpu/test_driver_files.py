from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.driver_files import (
    find_nvidia_cards,
    find_switches,
    parse_information,
    parse_mig_minors,
    parse_proc_devices,
    parse_version,
)
from gpuprov.gpu.lost import LostGpu
from gpuprov.gpu.models import ProcGpu
from gpuprov.gpu.pci import parse_pci

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "/proc/driver/nvidia/gpus/0000:18:00.0/information"
INFORMATION = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 120
GPU UUID: \t GPU-a1b0a1b0-7c4d-9e21-5b3f-84d2c06ef01a
Bus Location: \t 0000:18:00.0
Device Minor: \t 2
GPU Excluded:\t No
"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n", "535.183.01"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs)\n", "580.95.05"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95  Release Build\nGCC 12.3.0\n", "580.95"),
    ],
)
def test_version(text: str, version: str) -> None:
    assert parse_version(text) == version


def test_no_version_is_an_error() -> None:
    with pytest.raises(HostNotReady):
        parse_version("GCC version: gcc 12.2.0 \n")


def test_majors_are_those_of_character_devices() -> None:
    text = "Character devices:\n195 nvidia\n509 nvidia-uvm\n\nBlock devices:\n  9 nvidia-uvm\n"
    assert parse_proc_devices(text) == {"nvidia": 195, "nvidia-uvm": 509}
    assert parse_proc_devices("") == {}


def test_mig_minors() -> None:
    assert parse_mig_minors("config 1\ngpu0/gi1/ci0/access 13\nbroken\n") == {"config": 1, "gpu0/gi1/ci0/access": 13}


def test_information() -> None:
    gpu = parse_information(PLACE, INFORMATION)
    assert isinstance(gpu, ProcGpu)
    assert (gpu.minor, gpu.pci, gpu.model) == (2, "0000:18:00.0", "NVIDIA H100 80GB HBM3")
    assert parse_information(PLACE, INFORMATION.replace("Excluded:\t No", "Excluded:\t Yes")) is None
    without_address = INFORMATION.replace("Bus Location", "Bus")
    assert parse_information(PLACE, without_address) == gpu


@pytest.mark.parametrize(
    ("old", "new", "minor"),
    [
        ("a1b0a1b0-7c4d-9e21-5b3f-84d2c06ef01a", "????????-????-????-????-????????????", 2),
        ("Device Minor: \t 2\n", "", None),
    ],
)
def test_a_gpu_that_was_never_initialised_has_no_identity(old: str, new: str, minor: int | None) -> None:
    gpu = parse_information(PLACE, INFORMATION.replace(old, new))
    assert isinstance(gpu, LostGpu)
    assert (gpu.pci, gpu.minor, gpu.uuid) == ("0000:18:00.0", minor, "")
    assert "the driver has not initialised it" in gpu.why


@pytest.mark.parametrize("text", ["65:00.0", "0000:65:00.0", "00000000:65:00.0"])
def test_pci_spellings(text: str) -> None:
    assert parse_pci(text) == "0000:65:00.0"


@pytest.mark.parametrize("text", ["65:00", "65:00.8", "g5:00.0", "000:65:00.0", ""])
def test_no_pci_address(text: str) -> None:
    assert parse_pci(text) is None


def test_switches_are_the_bridges_that_the_driver_has(tmp_path: Path) -> None:
    devices = {
        "0000:05:00.0": ("0x10de", "0x068000", "nvidia-nvswitch"),
        "0000:06:00.0": ("0x10de", "0x068000", "vfio-pci"),  # given to a guest
        "0000:07:00.0": ("0x10de", "0x068000", "forcedeth"),  # a chipset of old
        "0000:08:00.0": ("0x8086", "0x068000", "nvidia-nvswitch"),
        "0000:18:00.0": ("0x10de", "0x030200", "nvidia"),
    }
    for address, (vendor, kind, driver) in devices.items():
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
        (folder / "driver").symlink_to(f"../../drivers/{driver}")
    assert find_switches(tmp_path) == ["0000:05:00.0"]
    assert find_nvidia_cards(tmp_path) == ("0000:18:00.0",)
    assert find_switches(tmp_path / "nothing") == []
