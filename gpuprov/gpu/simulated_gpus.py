"""The GPUs that a simulated NVML's document is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.gpu.models import Gpu, MigInstance

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY: Final = "-"  # in place of a GPU, in the answers of a simulated NVML: what the library itself answers


def gpus_of(document: Mapping[str, Any]) -> tuple[Gpu, ...]:
    """In NVML's order."""
    return tuple(map(_from_document, document["gpus"]))


def _from_document(gpu: Mapping[str, Any]) -> Gpu:
    capability = gpu.get("compute_capability")
    return Gpu(
        index=gpu["index"],
        uuid=gpu["uuid"],
        minor=gpu["minor"],
        pci=gpu["pci"],
        model=gpu["model"],
        memory_bytes=gpu.get("memory_bytes"),
        compute_capability=(capability[0], capability[1]) if capability else None,
        mig_enabled="mig" in gpu,
        mig=tuple(_instance(position, part) for position, part in enumerate(gpu.get("mig", []))),
    )


def _instance(index: int, part: Mapping[str, Any]) -> MigInstance:
    return MigInstance(
        index=index,
        uuid=part["uuid"],
        gpu_instance=part["gpu_instance"],
        compute_instance=part["compute_instance"],
        memory_bytes=part["memory_bytes"],
        profile=part.get("profile", ""),
    )
