"""The GPUs of this machine for a container: which there are, and what of them goes into it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.device_numbers import number_devices, number_simulated
from gpuprov.gpu.driver_places import NVIDIA_SMI, place_driver_files
from gpuprov.gpu.models import HostGpus
from gpuprov.gpu.order import VISIBLE
from gpuprov.gpu.simulated_gpus import gpus_of
from gpuprov.gpu.simulator import simulator_environment
from gpuprov.runtime.edit import Additions
from gpuprov.runtime.targets import is_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.gpu.models import Gpu
    from gpuprov.runtime.policy import Policy

SIMULATED_LIST: Final = "/etc/simulated-gpus"  # which the simulated nvidia-smi reads
LIST_NAME: Final = "simulated-gpus"
SMI_NAME: Final = "nvidia-smi"
_OTHER_FOLDER: Final = "/usr/lib64"  # of distributions that know no folder for each architecture


def read_gpus(policy: Policy, *, root: Path = Path("/")) -> HostGpus:
    """As `create-node` sees them; simulated ones only where there is no driver, and as `gate up` found them.

    Raises:
        HostNotReady: The driver does not work.
    """
    document = policy.simulation
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
        files = {NVIDIA_SMI: str(folder / SMI_NAME), SIMULATED_LIST: str(bundle / LIST_NAME)}
    elif host.driver is None:
        raise HostNotReady("no NVIDIA driver is loaded", evidence=host.reason, fix="modprobe nvidia && nvidia-smi")
    else:
        devices = number_devices(units, host.driver)
        files = _for_image(place_driver_files(host.driver), rootfs)
    return Additions(devices=devices, files=files, environment=environment)


def list_simulated(units: Sequence[Gpu]) -> str:
    """For each GPU a line with its device and its UUID."""
    return "".join(f"/dev/nvidia{unit.minor} {unit.uuid}\n" for unit in units)


def _for_image(files: Mapping[str, str], rootfs: Path) -> dict[str, str]:
    """The same, in the folder in which the image's loader looks."""
    placed = {}
    for target, source in files.items():
        folder, _, name = target.rpartition("/")
        elsewhere = folder != "/usr/bin" and not is_folder(rootfs, folder) and is_folder(rootfs, _OTHER_FOLDER)
        placed[f"{_OTHER_FOLDER if elsewhere else folder}/{name}"] = source
    return placed
