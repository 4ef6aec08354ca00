"""The GPUs of this machine as one JSON document: what Ansible's roles ask a host that has Python alone."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpuprov.core.error_document import error_document, error_parts
from gpuprov.core.errors import GpuprovError
from gpuprov.gpu.document import gpu_document
from gpuprov.gpu.observe import observe, read_seed
from gpuprov.gpu.simulated_hosts import SIMULATED_MAX
from gpuprov.gpu.type_name import gpu_type
from gpuprov.gpu.wheels import explain_unserved, find_wheels

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import GpuMode

SCHEMA = "gpuprov.gpu-facts/v1"


def gpus_document(host: HostGpus, root: Path) -> dict[str, Any]:
    """What a host has; of simulated GPUs only those whose device is there, for a node has what it leased."""
    gpus = [gpu for gpu in host.gpus if not host.simulated or (root / f"dev/nvidia{gpu.minor}").exists()]
    return {
        "schema": SCHEMA,
        "simulated": host.simulated,
        "reason": host.reason,
        "driver_version": host.driver_version,
        "wheels": find_wheels(host),
        "unserved": explain_unserved(host),
        "gpus": [
            {
                **gpu_document(gpu.uuid, gpu),
                "type": gpu_type(gpu.model, mig=gpu.is_mig_instance),
                # as numbers, which roles compare
                "compute_capability": list(gpu.compute_capability) if gpu.compute_capability else None,
            }
            for gpu in gpus
        ],
    }


def main(arguments: list[str], root: Path = Path("/")) -> int:
    """Print the document, or the error; the one argument is the mode.

    Returns:
        0, or 3 if the host's GPUs cannot be determined.
    """
    try:
        host = observe(
            root=root,
            mode=cast("GpuMode", arguments[0]),
            simulated_count=SIMULATED_MAX,
            seed=read_seed(root, name=platform.node()),
        )
    except GpuprovError as error:
        sys.stdout.write(json.dumps(error_document(error_parts(error))))
        return 3
    sys.stdout.write(json.dumps(gpus_document(host, root)))
    return 0
