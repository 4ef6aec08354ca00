"""The GPUs of this machine for a container: which there are, and what of them goes into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.whole_file import replace_file
from gpuprov.gpu.device_numbers import number_devices, number_simulated
from gpuprov.gpu.driver_places import NVIDIA_SMI, place_driver_files
from gpuprov.gpu.models import TRIPLETS, HostGpus
from gpuprov.gpu.order import VISIBLE
from gpuprov.gpu.simulated_gpus import LIBRARY, gpus_of
from gpuprov.gpu.simulator import simulator_environment
from gpuprov.runtime.edit import Additions
from gpuprov.runtime.targets import is_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.gpu.models import Gpu
    from gpuprov.runtime.settings import Settings

SMI_NAME: Final = "nvidia-smi"
NVML_NAME: Final = "libnvidia-ml.so.1"
ANSWERS: Final = "nvml"  # folder with a file for each GPU: the lines of gpu/nvml_answers.py
NVML_ANSWERS: Final = "/etc/simulated-nvml"  # which the simulated NVML reads
_SMI_ANSWERS: Final = "/etc/simulated-gpus"  # which the simulated nvidia-smi reads
_OTHER_FOLDER: Final = "/usr/lib64"  # of distributions that know no folder for each architecture


def read_gpus(settings: Settings, *, root: Path = Path("/")) -> HostGpus:
    """As `create-node` sees them; simulated ones only where there is no driver, and as `gate up` found them.

    Raises:
        HostNotReady: The driver does not work.
    """
    document = settings.simulation
    if document is None or (root / "proc/driver/nvidia/version").is_file():
        from gpuprov.gpu.observe import observe  # takes as long to load as all else

        return observe(root=root, mode="real")
    return HostGpus(
        simulated=True,
        reason="no NVIDIA driver on this host",
        driver_version=document["driver_version"],
        cuda_driver_version=document["cuda_driver_version"],
        gpus=gpus_of(document),
        document=document,
    )


def render_additions(host: HostGpus, units: Sequence[Gpu], *, folder: Path, bundle: Path, rootfs: Path) -> Additions:
    """What a container gets that holds these units.

    Args:
        folder: Of the runtime's own files.
        bundle: Of the container.
        rootfs: Its root file system, which decides where libraries lie.

    Raises:
        HostNotReady: The driver lacks something that containers need.
    """
    uuids = [unit.uuid for unit in units]
    environment = {VISIBLE: ",".join(uuids), **simulator_environment(simulated=host.simulated)}
    if host.simulated:
        devices = number_simulated(units, driver_loaded=host.driver is not None)
        files = {NVIDIA_SMI: str(folder / SMI_NAME), _SMI_ANSWERS: str(_in_bundle(bundle, _SMI_ANSWERS))}
        if (folder / NVML_NAME).is_file():
            triplet = next(name for name in TRIPLETS if name.startswith(os.uname().machine))
            library = {f"/usr/lib/{triplet}/{NVML_NAME}": str(folder / NVML_NAME)}
            files |= {**_for_image(library, rootfs), NVML_ANSWERS: str(_in_bundle(bundle, NVML_ANSWERS))}
    elif host.driver is None:
        raise HostNotReady("no NVIDIA driver is loaded", evidence=host.reason, fix="modprobe nvidia && nvidia-smi")
    else:
        devices = number_devices(units, host.driver)
        files = _for_image(place_driver_files(host.driver), rootfs)
    return Additions(devices=devices, files=files, environment=environment)


def write_simulated(bundle: Path, units: Sequence[Gpu], *, folder: Path) -> None:
    """Write what the simulated nvidia-smi and NVML of a container read.

    Args:
        folder: Of the runtime's own files.
    """
    devices = "".join(f"/dev/nvidia{unit.minor} {unit.uuid}\n" for unit in units)
    replace_file(_in_bundle(bundle, _SMI_ANSWERS), devices, mode=0o644)
    if (folder / NVML_NAME).is_file():
        told = [(LIBRARY, LIBRARY), *((str(index), unit.uuid) for index, unit in enumerate(units))]
        lines = [
            f"{whose} {line}\n"
            for whose, name in told
            for line in (folder / ANSWERS / name).read_text(encoding="utf-8").splitlines()
        ]
        lines += [f"{index} Index {index}\n" for index in range(len(units))]
        replace_file(_in_bundle(bundle, NVML_ANSWERS), "".join(lines), mode=0o644)


def _in_bundle(bundle: Path, target: str) -> Path:
    """Where a container's own version of a file lies."""
    return bundle / target.rpartition("/")[2]


def _for_image(files: Mapping[str, str], rootfs: Path) -> dict[str, str]:
    """The same, in the folder in which the image's loader looks."""
    placed = {}
    for target, source in files.items():
        folder, _, name = target.rpartition("/")
        elsewhere = folder != "/usr/bin" and not is_folder(rootfs, folder) and is_folder(rootfs, _OTHER_FOLDER)
        placed[f"{_OTHER_FOLDER if elsewhere else folder}/{name}"] = source
    return placed
