"""`smoke`: what one kernel gave in each place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape, derive
from gpuprov.shapes.verify import Verdict

KernelName = Literal["matmul", "anneal", "membw"]


class SmokeResult(Shape, frozen=True, kw_only=True):
    """One place's verdict.

    Attributes:
        place: Name of the node, or `local`.
        fix: Empty where it passed.
        document: What the kernels printed there, which is what smoke.schema.json describes where they work; null where
            that is nothing.
    """

    place: str
    verdict: Verdict
    simulated: bool
    evidence: str
    fix: str = ""
    document: Mapping[str, Any] | None = None

    @property
    def passed(self) -> bool:
        """Whether it did, without any doubt."""
        return self.verdict == "pass"


class SmokeRun(Document, frozen=True, kw_only=True, tag="gpuprov.smoke-run/v1"):
    """The document of `gpuprov smoke --json`: what one kernel gave in each place.

    Attributes:
        host: Name of the host.
        simulated: Whether any of the GPUs is.
    """

    host: str
    kernel: KernelName
    passed: bool = False
    simulated: bool = False
    results: Annotated[tuple[SmokeResult, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Derive what follows from the results."""
        passed = all(result.passed for result in self.results)
        derive(self, passed=passed, simulated=any(result.simulated for result in self.results))
