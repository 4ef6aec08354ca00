"""The JSON document, and the text a person reads instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoke_kernels import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def smoke_document(
    *,
    devices: Sequence[Mapping[str, Any]] = (),
    results: Sequence[Mapping[str, Any]] = (),
    seconds: Mapping[str, float] | None = None,
    error: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the one document: every run has this shape, whichever kernels ran and however it ended."""
    return {
        "schema": SCHEMA,
        "passed": error is None and bool(results) and all(result["passed"] for result in results),
        "simulated": any(result["simulated"] for result in results),
        "device": dict(devices[0]) if devices else None,
        "devices": [dict(device) for device in devices],
        "seconds": dict(seconds or {}),
        "results": [dict(result) for result in results],
        "error": None if error is None else dict(error),
    }


def render_text(report: Mapping[str, Any]) -> str:
    """Return the document as lines for a person."""
    lines = []
    if report["simulated"]:
        lines.append("SIMULATED: numba's CUDA simulator ran these kernels; this says nothing about any GPU")
    each = len(report["results"]) // len(report["devices"])
    for number, device in enumerate(report["devices"]):
        capability = f"  cc {device['compute_capability']}" if device["compute_capability"] else ""
        uuid = f"  {device['uuid']}" if device["uuid"] else ""
        lines.append(f"device   {device['name']}{uuid}{capability}")
        for result in report["results"][number * each : (number + 1) * each]:
            lines += _result_lines(result)
    verdict = "passed" if report["passed"] else "FAILED"
    lines.append(f"{verdict}{' (SIMULATED)' if report['simulated'] else ''} in {report['seconds']['total']:.2f} s")
    return "\n".join(lines) + "\n"


def _result_lines(result: Mapping[str, Any]) -> list[str]:
    label = " SIMULATED" if result["simulated"] else ""
    parameters = "  ".join(f"{name} {value}" for name, value in result["parameters"].items())
    lines = [f"{result['kernel']:<8} {'passed' if result['passed'] else 'FAILED'}{label}  {parameters}"]
    if result["error"] is not None:
        return [*lines, f"  {result['error']['what']}: {result['error']['evidence']}"]
    proof = result["proof"]
    lines += [
        f"  {'ok  ' if check['passed'] else 'FAIL'} {check['name']:<10} {check['evidence']}"
        for check in proof["checks"]
    ]
    lines.append(f"  digest {proof['digest']}, golden {proof['golden']} ({proof['golden_source']})")
    if result["rate"] is not None:
        rate = result["rate"]
        lines.append(f"  rate   {rate['median']:.1f} {rate['unit']}, median of {len(rate['samples'])}")
        known = rate["known_good"]
        lines.append(
            "         no expectation: no known-good rate of such a run on this GPU"
            if known is None
            else f"         {known['fraction']:.2f} of {known['good']}: {known['verdict']} ({known['source']})"
        )
    return lines
