"""What `verify` says of hosts and nodes, and what was measured there while the kernels ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from gpuprov.shapes.base import Document, Shape, derive
from gpuprov.shapes.choices import AccessName
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.words import Seconds, Word, Words

CheckStatus = Literal["pass", "warn", "fail", "skip", "unknown"]
Verdict = Literal["pass", "warn", "fail", "unknown"]
Severity = Literal["critical", "warning"]
Level = Literal["quick", "full"]
CheckId = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,64}\Z")]
Series = tuple[tuple[float, float], ...]
LAYERS = ("node", "driver", "devices", "nvml", "cuda", "kernels", "network")  # those of roles follow
STATUSES: tuple[CheckStatus, ...] = ("pass", "warn", "fail", "skip", "unknown")


class KnownGood(Shape, frozen=True, kw_only=True):
    """The rate that a healthy GPU of this model reaches, and where that is from."""

    good: float
    fraction: float
    verdict: Word
    source: Word


class GpuRate(Shape, frozen=True, kw_only=True):
    """A kernel's median rate on one GPU.

    Attributes:
        known_good: Null where the table has none for the model.
    """

    kernel: Word
    gpu: Word
    model: Word
    unit: Word
    median: float
    known_good: KnownGood | None = None


class KernelRun(Shape, frozen=True, kw_only=True):
    """What one kernel gave on one GPU."""

    kernel: Word
    gpu: Word
    passed: bool
    digest: Word


class Sample(Shape, frozen=True, kw_only=True):
    """One moment of a GPU; null where NVML did not tell.

    Attributes:
        at_s: Seconds into the run.
    """

    at_s: float
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    throttle: int | None = None


class GpuSamples(Shape, frozen=True, kw_only=True):
    """One GPU over the run."""

    uuid: Word
    samples: tuple[Sample, ...]

    def series(self, quantity: str) -> Series:
        """Pairs of time and value of one of a Sample's fields, without the moments that have none."""
        pairs = ((sample.at_s, getattr(sample, quantity)) for sample in self.samples)
        return tuple((at_s, value) for at_s, value in pairs if value is not None)


class Measured(Shape, frozen=True, kw_only=True):
    """What was measured while the kernels ran; clocks and temperature at the level `full` alone.

    Attributes:
        problem: Why there are no samples, or no more.
    """

    runs: tuple[KernelRun, ...] = ()
    rates: tuple[GpuRate, ...] = ()
    gpus: tuple[GpuSamples, ...] = ()
    problem: Words | None = None


class Check(Shape, frozen=True, kw_only=True):
    """A check that was asked.

    Attributes:
        cause: The earlier check because of which it was skipped.
    """

    id: CheckId
    layer: Annotated[str, Meta(pattern=r"^[a-z]{1,32}\Z")]
    status: CheckStatus
    severity: Severity
    evidence: Words
    fix: Words | None = None
    cause: CheckId | None = None


class NodeReport(Shape, frozen=True, kw_only=True):
    """All checks of one node, or of the host. What follows from them is derived here, whatever was said.

    Attributes:
        host: Name of the host that it is on, or is.
        verdict: The worst of its checks; where nothing passed, or the host stands in the way, `unknown`.
        simulated: Whether nothing here says anything about real hardware.
        first_problem: Id of the earliest check that failed; else of the earliest unknown, else of the earliest warning.
        measured: There where a node's kernels ran.
    """

    node: Word
    host: Word = ""
    verdict: Verdict = "unknown"
    simulated: bool = False
    access: AccessName
    gpus: tuple[Word, ...]
    duration_s: Seconds
    counts: Mapping[CheckStatus, int] = field(default_factory=dict)
    first_problem: CheckId | None = None
    checks: Annotated[tuple[Check, ...], Meta(min_length=1, max_length=500)]
    measured: Measured | None = None

    def __post_init__(self) -> None:
        """Derive what follows from the checks."""
        counts = Counter(check.status for check in self.checks)
        derive(
            self,
            verdict=_verdict(self.checks),
            simulated=self.access == "simulated",
            duration_s=round(self.duration_s, 3),
            counts={status: counts[status] for status in STATUSES},
            first_problem=self.problem.id if self.problem else None,
        )

    @property
    def problem(self) -> Check | None:
        """The check that `first_problem` names."""
        for status in ("fail", "unknown", "warn"):
            for check in self.checks:
                if check.status == status:
                    return check
        return None


class Between(Shape, frozen=True, kw_only=True):
    """What a host tells of the way to the other hosts of its cluster.

    Attributes:
        driver: Version of NVIDIA's kernel module; null where none is loaded.
        overlay: As the checks of hosts read it, which expect any form.
        began_s: When the host began, by its own clock.
        ended_s: When it had ended.
    """

    driver: Word | None
    overlay: Mapping[str, Any]
    began_s: float
    ended_s: float


class Report(Document, frozen=True, kw_only=True, tag="gpuprov.verify/v1"):
    """What `gpuprov verify` found; docs/verify.md explains it.

    Attributes:
        verdict: The worst of host and nodes; of a report about no node at all `unknown`.
        passed: Whether every node passed, with or without warnings.
        simulated: Whether the GPUs of any node are.
        host: The host itself, in the form of a node; null in a report that does not include it.
        hosts: There where the cluster spans hosts, in place of `host`.
        between: There in what a host tells another one.
        error: There where some hosts did not answer.
    """

    cluster: Word
    level: Level = "quick"
    verdict: Verdict = "unknown"
    passed: bool = False
    simulated: bool = False
    duration_s: Seconds
    host: NodeReport | None = None
    nodes: tuple[NodeReport, ...]
    hosts: tuple[NodeReport, ...] | UnsetType = UNSET
    between: Between | UnsetType = UNSET
    error: ErrorParts | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Derive what follows from the places."""
        verdicts = {place.verdict for place in self.places} if self.nodes else set()
        order: tuple[Verdict, ...] = ("fail", "unknown", "warn", "pass")
        verdict = next((verdict for verdict in order if verdict in verdicts), "unknown")
        derive(
            self,
            verdict=verdict,
            passed=verdict in ("pass", "warn"),
            simulated=any(place.simulated for place in self.places),
            duration_s=round(self.duration_s, 3),
        )

    @property
    def layers(self) -> tuple[str, ...]:
        """The columns of its table: those of every node, then those of roles that were asked something."""
        asked = (check.layer for node in self.nodes for check in node.checks if check.status != "skip")
        return tuple(dict.fromkeys((*LAYERS, *asked)))

    @property
    def places(self) -> tuple[NodeReport, ...]:
        """The host where it was looked at, or the hosts, then the nodes."""
        return (*((self.host,) if self.host else ()), *(self.hosts or ()), *self.nodes)


def _verdict(checks: tuple[Check, ...]) -> Verdict:
    statuses = {check.status for check in checks}
    if "fail" in statuses:
        return "fail"
    if "unknown" in statuses or not statuses & {"pass", "warn"} or any(check.cause for check in checks):
        return "unknown"
    return "warn" if "warn" in statuses else "pass"
