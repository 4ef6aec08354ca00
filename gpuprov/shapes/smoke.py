"""What the smoke kernels print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Record, Shape, Version
from gpuprov.shapes.smoke_run import KernelName
from gpuprov.shapes.words import Seconds, Size

Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
Text = Annotated[str, Meta(min_length=1)]
Rate = Annotated[float, Meta(ge=0)]
_PASSED: Final = {"properties": {"passed": {"const": True}}}
_PROVEN: Final = {"type": "object", "properties": {"checks": {"items": _PASSED}}}


class SmokeError(Shape, frozen=True, kw_only=True):
    """Why kernels could not be run, or did not prove anything."""

    what: Text
    evidence: str
    remedy: str


class SmokeDevice(Shape, frozen=True, kw_only=True):
    """A GPU as the kernels see it.

    Attributes:
        visible: UUIDs of all that they could use.
    """

    index: Annotated[int, Meta(ge=0)]
    name: str
    uuid: str | None
    compute_capability: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+\Z")] | None
    memory_bytes: Size | None
    driver_version: str | None
    visible: tuple[str, ...]


class ProofCheck(Shape, frozen=True, kw_only=True):
    """One thing that a proof consists of."""

    name: Text
    passed: bool
    evidence: Text


class Proof(Shape, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What shows that the result is right; each kernel adds details of its own.

    Attributes:
        digest: Of the result.
        golden: That which is right.
    """

    held_to: ClassVar[Mapping[str, Any]] = {"additionalProperties": True}
    digest: Digest
    golden: Digest
    golden_source: Literal["shipped", "computed"]
    checks: Annotated[tuple[ProofCheck, ...], Meta(min_length=1)]


class KnownGood(Shape, frozen=True, kw_only=True):
    """What is known of the rate on GPUs of that model.

    Attributes:
        fraction: Of it that was reached.
    """

    good: Annotated[float, Meta(gt=0)]
    fraction: Rate
    verdict: Literal["ok", "low", "bad"]
    source: Text


class KernelRate(Shape, frozen=True, kw_only=True):
    """How fast a kernel was."""

    value: Rate
    unit: Literal["GFLOP/s", "flips/ns", "GB/s"]
    median: Rate
    samples: Annotated[tuple[Rate, ...], Meta(min_length=1)]
    known_good: KnownGood | None


class KernelResult(Shape, frozen=True, kw_only=True):
    """What one kernel gave.

    Attributes:
        rate: Null for the simulator, which has none.
        gpu: UUID.
    """

    held_to: ClassVar[Mapping[str, Any]] = {
        "allOf": [
            {"if": _PASSED, "then": {"properties": {"error": {"type": "null"}, "proof": _PROVEN}}},
            {
                "if": {"properties": {"simulated": {"const": True}}},
                "then": {"properties": {"rate": {"type": "null"}}},
            },
        ]
    }
    kernel: KernelName
    passed: bool
    simulated: bool
    parameters: Mapping[str, Any]
    proof: Proof | None
    rate: KernelRate | None
    seconds: Mapping[str, Seconds]
    error: SmokeError | None
    gpu: str | None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        proven = self.proof is not None and all(check.passed for check in self.proof.checks)
        if self.passed and (self.error is not None or not proven):
            raise ValueError("a kernel cannot pass without proof, or with an error")
        if self.simulated and self.rate is not None:
            raise ValueError("the simulator has no rate")


class Smoke(Record, frozen=True, kw_only=True, tag="gpuprov.smoke/v1"):
    """The document of `python3 -m smoke_kernels --json`. docs/smoke-kernels.md explains it.

    Attributes:
        devices: All that were used.
        seconds: By phase.
    """

    held_to: ClassVar[Mapping[str, Any]] = {
        "if": _PASSED,
        "then": {
            "properties": {
                "error": {"type": "null"},
                "device": {"type": "object"},
                "results": {"minItems": 1, "items": _PASSED},
            }
        },
    }
    version: Version | UnsetType = UNSET  # type: ignore[assignment]
    passed: bool
    simulated: bool
    device: SmokeDevice | None
    devices: tuple[SmokeDevice, ...]
    seconds: Mapping[str, Seconds]
    results: tuple[KernelResult, ...]
    error: SmokeError | None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        proven = bool(self.results) and all(result.passed for result in self.results)
        if self.passed and (self.error is not None or self.device is None or not proven):
            raise ValueError("a run cannot pass without results that do")
