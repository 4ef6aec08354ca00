"""Reads what was measured in a node out of what its probe brought back.

A node may say anything, so every value is looked at; one that is no number is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuprov.shapes.verify import GpuRate, GpuSamples, KernelRun, KnownGood, Measured, Sample
from gpuprov.verify.smoke_document import KERNELS, read_document

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Observation

MOST_SAMPLES = 1000
_LONGEST_TEXT = 200


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
    return Measured(runs=runs, rates=rates, gpus=_gpus(sampled.get("gpus")), problem=problem or None)


def _rates(document: Mapping[str, Any]) -> tuple[GpuRate, ...]:
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


def _runs(document: Mapping[str, Any]) -> tuple[KernelRun, ...]:
    return tuple(
        KernelRun(
            kernel=result["kernel"],
            gpu=_text(result.get("gpu")),
            passed=result.get("passed") is True,
            digest=_text(result["proof"].get("digest")) if isinstance(result.get("proof"), Mapping) else "",
        )
        for result in _results(document)
    )


def _rate(models: Mapping[str, str], result: Mapping[str, Any]) -> GpuRate | None:
    rate = result.get("rate")
    if not isinstance(rate, Mapping):
        return None
    median = _number(rate.get("median"))
    if median is None or result.get("simulated"):
        return None
    return GpuRate(
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
