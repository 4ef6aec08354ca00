"""What was measured while the kernels ran: rates beside the known-good table, and clocks and temperature over time.

A node may say anything, so every value is looked at; one that is no number is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from gpuprov.verify.checks.kernels import KERNELS, read_document

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Observation

MOST_SAMPLES = 1000
_LONGEST_TEXT = 200

Series = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class KnownGood:
    """The rate that a healthy GPU of this model reaches, and where that is from."""

    good: float
    fraction: float
    verdict: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A kernel's median rate on one GPU; `known_good` is None where the table has none for the model."""

    kernel: str
    gpu: str
    model: str
    unit: str
    median: float
    known_good: KnownGood | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
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

    runs: tuple[Run, ...] = ()
    rates: tuple[Rate, ...] = ()
    gpus: tuple[GpuSamples, ...] = ()
    problem: str = field(default="")

    def to_document(self) -> dict[str, Any]:
        """As the JSON document shows it."""
        return {
            "runs": [asdict(run) for run in self.runs],
            "rates": [asdict(rate) for rate in self.rates],
            "gpus": [asdict(gpu) | {"samples": [asdict(sample) for sample in gpu.samples]} for gpu in self.gpus],
            "problem": self.problem or None,
        }


def measure_node(expected: Expectation, seen: Observation) -> Measured:
    """What the probe brought back, as far as it makes sense; a simulated GPU has no rates."""
    facts = seen.facts or {}
    document = read_document(facts["kernels"]) if isinstance(facts.get("kernels"), Mapping) else None
    runs = _runs(document) if document is not None else ()
    rates = () if document is None or expected.simulated else _rates(document)
    sampled = facts.get("samples")
    if not isinstance(sampled, Mapping):
        return Measured(runs=runs, rates=rates)
    problem = _text(sampled.get("problem") or sampled.get("error"))
    return Measured(runs=runs, rates=rates, gpus=_gpus(sampled.get("gpus")), problem=problem)


def _rates(document: Mapping[str, Any]) -> tuple[Rate, ...]:
    models = _models(document)
    found = (_rate(models, result) for result in _results(document))
    return tuple(rate for rate in found if rate is not None)


def _models(document: Mapping[str, Any]) -> dict[str, str]:
    """Name of each GPU's model by its UUID."""
    devices = document.get("devices")
    known = [device for device in devices if isinstance(device, Mapping)] if isinstance(devices, list) else []
    return {_text(device.get("uuid")): _text(device.get("name")) for device in known}


def _results(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    results = document.get("results")
    named = [result for result in results if isinstance(result, Mapping)] if isinstance(results, list) else []
    return [result for result in named if result.get("kernel") in KERNELS]


def _runs(document: Mapping[str, Any]) -> tuple[Run, ...]:
    return tuple(
        Run(
            kernel=result["kernel"],
            gpu=_text(result.get("gpu")),
            passed=result.get("passed") is True,
            digest=_text(result["proof"].get("digest")) if isinstance(result.get("proof"), Mapping) else "",
        )
        for result in _results(document)
    )


def _rate(models: Mapping[str, str], result: Mapping[str, Any]) -> Rate | None:
    rate = result.get("rate")
    if not isinstance(rate, Mapping):
        return None
    median = _number(rate.get("median"))
    if median is None or result.get("simulated"):
        return None
    return Rate(
        kernel=result["kernel"],
        gpu=_text(result.get("gpu")),
        model=models.get(_text(result.get("gpu")), ""),
        unit=_text(rate.get("unit")),
        median=median,
        known_good=_known_good(rate.get("known_good")),
    )


def _known_good(said: object) -> KnownGood | None:
    if not isinstance(said, Mapping):
        return None
    good, fraction = _number(said.get("good")), _number(said.get("fraction"))
    if good is None or fraction is None or good <= 0:
        return None
    return KnownGood(good=good, fraction=fraction, verdict=_text(said.get("verdict")), source=_text(said.get("source")))


def _gpus(said: object) -> tuple[GpuSamples, ...]:
    if not isinstance(said, Mapping):
        return ()
    return tuple(
        GpuSamples(uuid=_text(uuid), samples=tuple(_samples(rows[:MOST_SAMPLES])))
        for uuid, rows in said.items()
        if isinstance(rows, list)
    )


def _samples(rows: list[Any]) -> list[Sample]:
    found = []
    for row in rows:
        at_s = _number(row.get("at_s")) if isinstance(row, Mapping) else None
        if at_s is not None:
            throttle = row.get("throttle")
            found.append(
                Sample(
                    at_s=at_s,
                    temperature_c=_number(row.get("temperature_c")),
                    sm_clock_mhz=_number(row.get("sm_clock_mhz")),
                    memory_clock_mhz=_number(row.get("memory_clock_mhz")),
                    power_w=_number(row.get("power_w")),
                    throttle=throttle if type(throttle) is int and throttle >= 0 else None,
                )
            )
    return sorted(found, key=lambda sample: sample.at_s)


def _number(said: object) -> float | None:
    """A number that a chart can show: finite and not below 0."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    try:
        value = float(said)
    except OverflowError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _text(said: object) -> str:
    return " ".join(str(said or "").split())[:_LONGEST_TEXT]
