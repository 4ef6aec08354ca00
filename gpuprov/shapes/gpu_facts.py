"""The GPUs of a host that has Python alone, which gpu/facts.py tells without this package."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gpuprov.shapes.base import PartDocument
from gpuprov.shapes.gpus import ToldGpu


class BareGpu(ToldGpu, frozen=True, kw_only=True):
    """A GPU or a MIG instance.

    Attributes:
        type: Of the model, as Slurm knows it: h100.
        compute_capability: As numbers: [9, 0].
    """

    type: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\Z")]
    compute_capability: tuple[int, int] | None  # type: ignore[assignment]


class GpuFacts(PartDocument, frozen=True, kw_only=True, tag="gpuprov.gpu-facts/v1"):
    """The fact `gpu_facts` that the role cuda sets: the GPUs of a host that has Python alone.

    Attributes:
        reason: Where these facts are from, or why the GPUs are simulated.
        wheels: Which of CUDA's Python packages support it; null if none do.
        unserved: Why no packages support it; null if some do.
    """

    simulated: bool
    reason: str
    driver_version: str
    wheels: Literal["none", "cu12", "cu13"] | None
    unserved: str | None
    gpus: tuple[BareGpu, ...]
