"""`doctor`: what was found on the host, and what each role needs of it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.verify import CheckId

FindingStatus = Literal["ok", "info", "warn", "fail"]
Part = Literal["kernel", "engine", "driver", "compute_capability"]
Met = Literal["yes", "no", "unknown", "SIMULATED"]


class HostFinding(Shape, frozen=True, kw_only=True):
    """One thing seen.

    Attributes:
        id: `gpuprov explain ID` says more.
        status: Nodes cannot be made until a `fail` is fixed.
        fix: Empty where there is nothing to do.
    """

    id: CheckId
    status: FindingStatus
    evidence: str
    fix: str = ""


class Need(Shape, frozen=True, kw_only=True):
    """What a role needs.

    Attributes:
        part: What is needed.
        least: The least version of it.
        has: What the host has; null if unknown, or where its GPUs are simulated.
        met: Whether that is enough; simulated GPUs have no driver, so nothing is said about one.
    """

    role: str
    part: Part
    least: str
    has: str | None
    met: Met


class Doctor(Document, frozen=True, kw_only=True, tag="gpuprov.doctor/v1"):
    """The document of `gpuprov doctor --json`.

    Attributes:
        host: Name of the host.
        roles: What each role needs at least.
    """

    host: str
    findings: Annotated[tuple[HostFinding, ...], Meta(min_length=1)]
    roles: tuple[Need, ...]

    @property
    def passed(self) -> bool:
        """Whether nodes can be made."""
        return all(finding.status != "fail" for finding in self.findings)
