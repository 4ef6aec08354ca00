"""The GPUs of this machine as one JSON document: what Ansible's roles ask a host that has Python alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpuprov.core.error_document import error_document, error_parts
from gpuprov.core.errors import GpuprovError
from gpuprov.gpu.document import gpu_document
from gpuprov.gpu.inventory import SIMULATED_MAX, observe

if TYPE_CHECKING:
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.spec.models import GpuMode

SCHEMA = "gpuprov.gpu-facts/v1"
PASCAL_AND_VOLTA_END = (7, 5)  # CUDA 13 compiles for this compute capability and later
CU13_DRIVER = 580


def gpus_document(host: HostGpus, root: Path) -> dict[str, Any]:
    """What a host has; of simulated GPUs only those whose device is there, for a node has what it leased."""
    gpus = [gpu for gpu in host.gpus if not host.simulated or (root / f"dev/nvidia{gpu.minor}").exists()]
    return {
        "schema": SCHEMA,
        "simulated": host.simulated,
        "reason": host.reason,
        "driver_version": host.driver_version,
        "wheels": choose_wheels(host),
        "gpus": [
            {
                **gpu_document(gpu.uuid, gpu),
                # as numbers, which roles compare
                "compute_capability": list(gpu.compute_capability) if gpu.compute_capability else None,
            }
            for gpu in gpus
        ],
    }


def choose_wheels(host: HostGpus) -> str:
    """CUDA's Python packages for a host: `none`, `cu12` or `cu13`; CUDA 13 knows neither an older driver nor Pascal."""
    if host.simulated:
        return "none"
    new = int(host.driver_version.partition(".")[0]) >= CU13_DRIVER
    return "cu13" if new and all(_compiles(gpu) for gpu in host.gpus) else "cu12"


def _compiles(gpu: Gpu) -> bool:
    return gpu.compute_capability is None or gpu.compute_capability >= PASCAL_AND_VOLTA_END


def main(arguments: list[str], root: Path = Path("/")) -> int:
    """Print the document, or the error; the one argument is the mode.

    Returns:
        0, or 3 where the host's GPUs cannot be told.
    """
    try:
        host = observe(root=root, mode=cast("GpuMode", arguments[0]), simulated_count=SIMULATED_MAX)
    except GpuprovError as error:
        sys.stdout.write(json.dumps(error_document(error_parts(error))))
        return 3
    sys.stdout.write(json.dumps(gpus_document(host, root)))
    return 0
