"""What a kernel's run hands back: checks, proof, rate and times."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

GoldenSource = Literal["shipped", "computed"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question a proof asks, its answer and the evidence for it."""

    name: str
    passed: bool
    evidence: str


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Why a result is right. Digests are 16 hexadecimal digits; `details` are a kernel's own findings."""

    digest: str
    golden: str
    golden_source: GoldenSource
    checks: tuple[Check, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True when at least one question was asked and every answer was yes."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the proof as the JSON document shows it."""
        return {
            "digest": self.digest,
            "golden": self.golden,
            "golden_source": self.golden_source,
            "checks": [asdict(check) for check in self.checks],
            **self.details,
        }


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A measured rate; never made on the simulator."""

    unit: str
    samples: tuple[float, ...]
    known_good: Mapping[str, Any] | None = None

    @property
    def median(self) -> float:
        """The rate that counts."""
        return statistics.median(self.samples)

    def to_json(self) -> dict[str, Any]:
        """Return the rate as the JSON document shows it."""
        return {
            "value": self.median,
            "unit": self.unit,
            "median": self.median,
            "samples": list(self.samples),
            "known_good": self.known_good,
        }


@dataclass(frozen=True, kw_only=True)
class KernelResult:
    """One kernel's run: its proof, or the error that ended it."""

    kernel: str
    simulated: bool
    parameters: Mapping[str, Any] = field(default_factory=dict)
    proof: Proof | None = None
    rate: Rate | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: Mapping[str, str] | None = None

    @property
    def passed(self) -> bool:
        """True when the kernel ran to its end and its proof holds."""
        return self.error is None and self.proof is not None and self.proof.passed

    def to_json(self) -> dict[str, Any]:
        """Return the result as the JSON document shows it."""
        return {
            "kernel": self.kernel,
            "passed": self.passed,
            "simulated": self.simulated,
            "parameters": dict(self.parameters),
            "proof": None if self.proof is None else self.proof.to_json(),
            "rate": None if self.rate is None else self.rate.to_json(),
            "seconds": dict(self.seconds),
            "error": None if self.error is None else dict(self.error),
        }
