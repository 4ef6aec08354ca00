"""Which of the driver's user-space files go where in a container: pure functions, for whoever has Python alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.models import SONAMES, TRIPLETS

if TYPE_CHECKING:
    from gpuprov.gpu.models import DriverFiles

NVIDIA_SMI: Final = "/usr/bin/nvidia-smi"
_REQUIRED: Final = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")


def place_driver_files(driver: DriverFiles) -> dict[str, str]:
    """Paths in the container to files of the host that make CUDA and NVML work; nothing is run, and there are no links.

    Each file appears in the loader's default folder twice: under the name programs load it by (libcuda.so.1), and
    under its own, which shows the version and which parts of the driver ask for.

    Raises:
        HostNotReady: A library that CUDA needs is absent in the version of the kernel module.
    """
    sources: dict[str, str] = {}
    for path in driver.libraries:
        stem, _, version = path.rpartition("/")[2].partition(".so.")
        if version == driver.version:
            sources.setdefault(stem, path)
    missing = [stem for stem in _REQUIRED if stem not in sources]
    if missing:
        raise HostNotReady(
            f"the driver's library {missing[0]}.so.{driver.version} is not on this host",
            evidence=f"kernel module {driver.version}; libraries found: {', '.join(driver.libraries) or 'none'}",
            fix="reboot after a driver upgrade, or install the compute libraries in the version of the kernel module",
        )
    placed: dict[str, str] = {}
    for stem, source in sorted(sources.items()):
        folder = _node_folder(source)
        names = {SONAMES[stem].format(version=driver.version), f"{stem}.so.{driver.version}"}
        placed |= {f"{folder}/{name}": source for name in sorted(names)}
    if driver.nvidia_smi:
        placed[NVIDIA_SMI] = driver.nvidia_smi
    return placed


def _node_folder(source: str) -> str:
    triplet = next((triplet for triplet in TRIPLETS if triplet in source), TRIPLETS[0])
    return f"/usr/lib/{triplet}"
