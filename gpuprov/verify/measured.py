"""What was measured while the kernels ran: rates beside the known-good table, and clocks and temperature over time."""

from __future__ import annotations

from dataclasses import dataclass, field

Series = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class KnownGood:
    """The rate that a healthy GPU of this model reaches, and where that is from."""

    good: float
    fraction: float
    verdict: str
    source: str


@dataclass(frozen=True, kw_only=True)
class GpuRate:
    """A kernel's median rate on one GPU; `known_good` is None where the table has none for the model."""

    kernel: str
    gpu: str
    model: str
    unit: str
    median: float
    known_good: KnownGood | None = None


@dataclass(frozen=True, kw_only=True)
class KernelRun:
    """What one kernel gave on one GPU."""

    kernel: str
    gpu: str
    passed: bool
    digest: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One moment of a GPU, `at_s` seconds into the run; None where NVML did not tell."""

    at_s: float
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    throttle: int | None = None


@dataclass(frozen=True, kw_only=True)
class GpuSamples:
    """One GPU over the run."""

    uuid: str
    samples: tuple[Sample, ...]

    def series(self, quantity: str) -> Series:
        """Pairs of time and value of one of a Sample's fields, without the moments that have none."""
        pairs = ((sample.at_s, getattr(sample, quantity)) for sample in self.samples)
        return tuple((at_s, value) for at_s, value in pairs if value is not None)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All of one node; `problem` says why there are no samples, or no more."""

    runs: tuple[KernelRun, ...] = ()
    rates: tuple[GpuRate, ...] = ()
    gpus: tuple[GpuSamples, ...] = ()
    problem: str = field(default="")
