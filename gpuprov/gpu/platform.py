"""Kinds of host whose GPUs NVIDIA's driver for Linux does not serve, or serves in another way, by their name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.gpu.driver_files import find_card_drivers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.gpu.models import Gpu

_VGPU: Final = re.compile(r"\bGRID\b|\bvGPU\b|-\d+[QCBA]$")
_VGPU_HOST: Final = ("sys/module/nvidia_vgpu_vfio", "sys/class/mdev_bus")


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Why a host has GPUs, and NVIDIA's driver for Linux does not serve them; what to do about it."""

    text: str
    fix: str


def find_platform(root: Path) -> Platform | None:
    """What a host without a loaded NVIDIA driver is; None where nothing is known of it."""
    if (root / "dev/dxg").exists() or (root / "usr/lib/wsl/lib").is_dir():
        return Platform(
            text="this is WSL2: the driver of Windows serves its GPUs through /dev/dxg, which nodes cannot be given",
            fix="use a machine that runs Linux itself",
        )
    board = _read_board(root)
    if board:
        return Platform(
            text=f"this is {board}: its GPU is part of the processor and cannot be leased",
            fix="use a machine with GPUs on PCI Express",
        )
    taken = [f"the GPU at {card} is bound to {name}" for card, name in find_card_drivers(root).items() if name]
    if taken:
        return Platform(
            text=f"no NVIDIA driver is loaded: {', '.join(taken)}",
            fix="blacklist nouveau, or unbind vfio-pci; then install NVIDIA's driver and reboot; lspci -k -d 10de:",
        )
    return None


def _read_board(root: Path) -> str:
    """The name of a Jetson or of another board with a Tegra; empty where the host is none."""
    for file in ("proc/device-tree/model", "sys/firmware/devicetree/base/model"):
        model = _text(root / file)
        if re.search("jetson|tegra", model, re.IGNORECASE):
            return model
    compatible = _text(root / "proc/device-tree/compatible")
    tegra = "nvidia,tegra" in compatible or (root / "etc/nv_tegra_release").is_file()
    return "a Tegra" if tegra else ""


def _text(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:200]
    except OSError:
        return ""


def describe_virtual(root: Path, gpus: Sequence[Gpu]) -> str:
    """That the GPUs are parts of other ones (vGPU), or that the host makes such parts; empty where neither is so."""
    models = sorted({gpu.model for gpu in gpus if _VGPU.search(gpu.model)})
    if models:
        return f"this is a guest with virtual GPUs (vGPU): {', '.join(models)}"
    if any((root / place).is_dir() for place in _VGPU_HOST):
        return "this host makes virtual GPUs (vGPU) for guests; such a driver may lack CUDA's libraries"
    return ""
