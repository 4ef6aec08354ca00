"""The driver's user-space files: found on the host, mounted read-only into nodes, never copied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.spec.devices import Mount

if TYPE_CHECKING:
    from gpuprov.gpu.models import DriverFiles

# File stem to the name that programs load it by. The least that CUDA, NVML and nvidia-smi need.
SONAMES: Final = {
    "libcuda": "libcuda.so.1",
    "libnvidia-cfg": "libnvidia-cfg.so.1",
    "libnvidia-gpucomp": "libnvidia-gpucomp.so.{version}",
    "libnvidia-ml": "libnvidia-ml.so.1",
    "libnvidia-nvvm": "libnvidia-nvvm.so.4",
    "libnvidia-nvvm70": "libnvidia-nvvm70.so.4",
    "libnvidia-ptxjitcompiler": "libnvidia-ptxjitcompiler.so.1",
}
_REQUIRED: Final = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
_LINKS_MAX: Final = 8
# Where distributions, NVIDIA's installer and container hosts put them; the first that has a file wins.
_FOLDERS: Final = (
    "usr/lib/{triplet}",
    "usr/lib/{triplet}/nvidia/current",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
)
_TRIPLETS: Final = ("x86_64-linux-gnu", "aarch64-linux-gnu")


def find_libraries(root: Path) -> tuple[str, ...]:
    """Host paths of the driver's libraries, of whatever version, without symbolic links."""
    found: dict[str, None] = {}
    for folder in _folders(root):
        for stem in SONAMES:
            for path in sorted((root / folder).glob(f"{stem}.so.*.*")):
                if not path.is_symlink():
                    found[f"/{folder}/{path.name}"] = None
    return tuple(found)


def find_nvidia_smi(root: Path) -> str | None:
    """Host path of nvidia-smi behind all symbolic links (an LXD from snap cannot follow absolute ones), or None."""
    path = Path("usr/bin/nvidia-smi")
    for _ in range(_LINKS_MAX):
        if not (root / path).is_symlink():
            break
        target = (root / path).readlink()
        path = target.relative_to("/") if target.is_absolute() else path.parent / target
    return f"/{path}" if (root / path).is_file() else None


def plan_library_mounts(driver: DriverFiles) -> tuple[Mount, ...]:
    """Mounts that make CUDA and NVML work in a node in which nothing is run: no ldconfig, no links.

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
    mounts: list[Mount] = []
    for stem, source in sorted(sources.items()):
        folder = _node_folder(source)
        names = {SONAMES[stem].format(version=driver.version), f"{stem}.so.{driver.version}"}
        mounts += [Mount(source=source, target=f"{folder}/{name}") for name in sorted(names)]
    if driver.nvidia_smi:
        mounts.append(Mount(source=driver.nvidia_smi, target="/usr/bin/nvidia-smi"))
    return tuple(mounts)


def _folders(root: Path) -> tuple[str, ...]:
    triplets = [triplet for triplet in _TRIPLETS if (root / "usr/lib" / triplet).is_dir()] or [_TRIPLETS[0]]
    return tuple(dict.fromkeys(folder.format(triplet=triplet) for folder in _FOLDERS for triplet in triplets))


def _node_folder(source: str) -> str:
    triplet = next((triplet for triplet in _TRIPLETS if triplet in source), _TRIPLETS[0])
    return f"/usr/lib/{triplet}"
