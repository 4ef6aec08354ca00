"""A GPU as every document tells it. It is here because a host that has Python alone tells its GPUs too (facts.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuprov.gpu.models import Gpu


def gpu_document(uuid: str, gpu: Gpu | None) -> dict[str, Any]:
    """A GPU, or one MIG instance; all but its UUID is null where the host does not show it or cannot be asked."""
    part = gpu.mig[0] if gpu and gpu.is_mig_instance else None
    capability = gpu.compute_capability if gpu else None
    return {
        "uuid": uuid,
        "label": gpu.label if gpu else None,
        "index": gpu.index if gpu else None,
        "minor": gpu.minor if gpu else None,
        "device": f"/dev/nvidia{gpu.minor}" if gpu else None,
        "pci": gpu.pci if gpu else None,
        "mig": {
            "enabled": gpu.mig_enabled if gpu else None,
            "index": part.index if part else None,
            "gpu_instance": part.gpu_instance if part else None,
            "compute_instance": part.compute_instance if part else None,
            **({"profile": part.profile} if part and part.profile else {}),
        },
        "model": gpu.model if gpu else None,
        "memory_bytes": gpu.memory_bytes if gpu else None,
        "compute_capability": ".".join(map(str, capability)) if capability else None,
    }
