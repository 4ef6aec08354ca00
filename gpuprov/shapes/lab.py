"""The report of a lab on one of its hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import Record, Shape, Version
from gpuprov.shapes.gpu_facts import BareGpu


class LabError(Shape, frozen=True, kw_only=True):
    """The task of a playbook that failed."""

    task: str
    message: str


class Lab(Record, frozen=True, kw_only=True, tag="gpuprov.lab/v1"):
    """The report of lab.yml on one host, in reports/; templates/report/lab.json.j2 writes it.

    Attributes:
        host: Name of the host in the inventory.
        simulated: Null where its GPUs are not known.
        slurm: Slurm's word for the host; null where it has none.
        smoke: What the smoke kernels printed, which is what smoke.schema.json describes where they work.
        error: Null where nothing failed.
    """

    held_to: ClassVar[Mapping[str, Any]] = {
        "if": {"properties": {"verdict": {"const": "passed"}}},
        "then": {"properties": {"error": {"type": "null"}, "smoke": {"$ref": "smoke.schema.json"}}},
    }
    version: Version | UnsetType = UNSET  # type: ignore[assignment]
    host: str
    verdict: Literal["passed", "failed", "not run", "unreachable"]
    simulated: bool | None
    driver_version: str | None
    gpus: tuple[BareGpu, ...]
    slurm: str | None
    smoke: Mapping[str, Any] | None
    error: LabError | None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.verdict == "passed" and (self.error is not None or self.smoke is None):
            raise ValueError("a host cannot pass without a proof, or with an error")
