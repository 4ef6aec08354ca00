"""Read what a loaded NVIDIA kernel driver shows in /proc and /sys, under any root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.information import read_information
from gpuprov.gpu.libraries import find_libraries, find_nvidia_smi
from gpuprov.gpu.lost import LostGpu
from gpuprov.gpu.models import DriverFiles, ProcGpu
from gpuprov.gpu.pci import normalise_pci

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.gpu.information import Information

_VERSION = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
_DEVICE = re.compile(r"^\s*(\d+) (\S+)$", re.MULTILINE)
_EXCLUDED = re.compile(r"^GPU Excluded:\s+Yes", re.MULTILINE)
_DEVICES = "sys/bus/pci/devices"
_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
_BRIDGE_CLASSES = ("0x0680",)
_SWITCH_DRIVER = "nvidia-nvswitch"


def loaded_version(root: Path) -> str | None:
    """The version of the loaded module, as the kernel has it: a driver that hangs is not asked."""
    file = root / "sys/module/nvidia/version"
    return file.read_text().strip() if file.is_file() else None


def read_driver_files(root: Path) -> DriverFiles | None:
    """Gather the facts of the loaded driver, or None where none is loaded; of one that hangs, without its GPUs.

    Raises:
        HostNotReady: The driver's own files have invalid contents.
    """
    version_file = root / "proc/driver/nvidia/version"
    if not version_file.is_file():
        return None
    information = read_information(root)
    majors = parse_proc_devices(_text(root / "proc/devices"))
    listed = [parse_information(path, text) for path, text in information.texts.items()]
    return DriverFiles(
        version=parse_version(version_file.read_text()),
        uvm_major=majors.get("nvidia-uvm"),
        caps_major=majors.get("nvidia-caps"),
        caps_minors=parse_mig_minors(_text(root / "proc/driver/nvidia-caps/mig-minors")),
        modeset="nvidia-modeset" in majors or (root / "sys/module/nvidia_modeset").is_dir(),
        gpus=tuple(sorted((gpu for gpu in listed if isinstance(gpu, ProcGpu)), key=lambda gpu: gpu.pci)),
        lost=(*(gpu for gpu in listed if isinstance(gpu, LostGpu)), *_list_untaken(root, information)),
        cards=find_nvidia_cards(root),
        excluded=_list_excluded(information.texts),
        silent=information.silent,
        libraries=find_libraries(root),
        nvidia_smi=find_nvidia_smi(root),
    )


def find_nvidia_cards(root: Path) -> tuple[str, ...]:
    """PCI addresses of NVIDIA GPUs, with or without a driver."""
    return _find_devices(root, _DISPLAY_CLASSES)


def _find_devices(root: Path, classes: tuple[str, ...]) -> tuple[str, ...]:
    devices = sorted((root / _DEVICES).glob("*"))
    ours = (device for device in devices if _text(device / "vendor").strip() == _NVIDIA_VENDOR)
    return tuple(device.name for device in ours if _text(device / "class").startswith(classes))


def find_card_drivers(root: Path) -> dict[str, str | None]:
    """PCI address of each NVIDIA GPU to the name of the kernel driver that has taken it; None where none has."""
    return {card: _driver(root, card) for card in find_nvidia_cards(root)}


def find_switches(root: Path) -> list[str]:
    """PCI addresses of the NVSwitches that the driver has; those of NVLink 5 and later are not on the bus."""
    return [address for address in _find_devices(root, _BRIDGE_CLASSES) if _driver(root, address) == _SWITCH_DRIVER]


def _driver(root: Path, address: str) -> str | None:
    link = root / _DEVICES / address / "driver"
    return link.readlink().name if link.is_symlink() else None


def parse_version(text: str) -> str:
    """The module's version, from /proc/driver/nvidia/version; the proprietary and the open module write it differently.

    Raises:
        HostNotReady: There is none in it.
    """
    match = _VERSION.search(text)
    if match is None:
        raise HostNotReady(
            "the NVIDIA driver does not report its version",
            evidence=f"/proc/driver/nvidia/version: {text.strip()!r}",
            fix="dmesg | grep NVRM",
        )
    return match[1]


def parse_proc_devices(text: str) -> dict[str, int]:
    """Names of character devices to majors, from /proc/devices."""
    characters = text.partition("Block devices:")[0]
    return {name: int(major) for major, name in _DEVICE.findall(characters)}


def parse_mig_minors(text: str) -> dict[str, int]:
    """Capability names (`gpu0/gi1/ci0/access`) to minors of nvidia-caps."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}  # noqa: PLR2004 - name and minor


def parse_information(path: str, text: str) -> ProcGpu | LostGpu | None:
    """One /proc/driver/nvidia/gpus/<pci>/information; None for a GPU that the driver was told to leave out.

    UUID or minor is missing while a GPU has never been initialised, and where it cannot be.
    """
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    if values.get("GPU Excluded") == "Yes":
        return None
    uuid, minor = (values.get(key, "") for key in ("GPU UUID", "Device Minor"))
    pci = normalise_pci(values.get("Bus Location") or Path(path).parent.name)
    number = int(minor) if minor.isdecimal() else None
    if "?" in uuid or not uuid.startswith("GPU-") or number is None:
        why = f"the driver has not initialised it: UUID {uuid!r}, minor {minor!r} in {path}"
        return LostGpu(why=why, minor=number, pci=pci, model=values.get("Model", ""))
    return ProcGpu(uuid=uuid, minor=number, pci=pci, model=values.get("Model", "unknown"))


def _list_untaken(root: Path, information: Information) -> list[LostGpu]:
    """GPUs on the bus that the driver has tried in vain, or does not support."""
    listed = {normalise_pci(Path(path).parent.name) for path in information.texts}
    return [
        LostGpu(why="it is on the PCI bus, but no driver has taken it", pci=card)
        for card, name in find_card_drivers(root).items()
        if name is None and not information.silent and normalise_pci(card) not in listed
    ]


def _list_excluded(texts: Mapping[str, str]) -> tuple[str, ...]:
    found = sorted(path for path, text in texts.items() if _EXCLUDED.search(text))
    return tuple(normalise_pci(Path(path).parent.name) for path in found)


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
