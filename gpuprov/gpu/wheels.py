"""Which of CUDA's Python packages serve a host: the one rule for node images and for hosts reached by ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.core.requirements import load_cuda, older

if TYPE_CHECKING:
    from gpuprov.gpu.models import Gpu, HostGpus

CudaWheels = Literal["none", "cu12", "cu13"]

_OLDEST = 12
_MAJORS: dict[int, CudaWheels] = {13: "cu13", _OLDEST: "cu12"}  # the newest first


def find_wheels(host: HostGpus) -> CudaWheels | None:
    """The newest packages that the driver runs and that compile for every GPU of the host.

    Only the driver's version counts, not the CUDA version that NVML reports: it is known without NVML too.

    Returns:
        `none` where the GPUs are simulated; None where no packages serve them all.
    """
    if host.simulated:
        return "none"
    return next((wheels for major, wheels in _MAJORS.items() if _find_obstacle(host, major) is None), None)


def image_wheels(host: HostGpus) -> CudaWheels:
    """What a node image gets: where nothing serves the host, the oldest, for a plain node needs no CUDA.

    `doctor` and `verify` then say which driver or GPU is needed.
    """
    return find_wheels(host) or _MAJORS[_OLDEST]


def explain_unserved(host: HostGpus) -> str | None:
    """What keeps even the oldest packages from serving a host; None where some packages serve it."""
    return None if find_wheels(host) else _find_obstacle(host, _OLDEST)


def _find_obstacle(host: HostGpus, major: int) -> str | None:
    cuda = load_cuda()[major]
    if older(host.driver_version, cuda.driver):
        return f"driver {host.driver_version}; CUDA {major} needs driver {cuda.driver} or newer"
    for gpu in host.gpus:
        if older(_capability(gpu), cuda.compute_capability):
            return (
                f"GPU {gpu.index} ({gpu.model}) has compute capability {_capability(gpu)}; "
                f"CUDA {major} compiles for {cuda.compute_capability} and newer"
            )
    return None


def _capability(gpu: Gpu) -> str:
    """An unknown one is taken for the oldest: the oldest packages serve newer GPUs too, the newest not the older."""
    if gpu.compute_capability is None:
        return load_cuda()[_OLDEST].compute_capability
    return ".".join(map(str, gpu.compute_capability))
