"""Rates that a healthy GPU of a model reaches, and what a measured rate is worth beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.result import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from smoke_kernels.result import KernelResult

LOW_FRACTION: Final = 0.9
BAD_FRACTION: Final = 0.75


@cache
def _rates() -> list[dict[str, Any]]:
    text = (resources.files("smoke_kernels") / "data" / "known_good.json").read_text(encoding="utf-8")
    rates: list[dict[str, Any]] = json.loads(text)["rates"]
    return rates


def judge_rate(*, kernel: str, model: str, parameters: Mapping[str, Any], value: float) -> dict[str, Any] | None:
    """Compare a rate with the known-good one: `ok`, `low` or `bad`; None where the table has none for such a run."""
    for rate in _rates():
        if (rate["kernel"], rate["model"]) == (kernel, model) and _is_of(rate, parameters):
            fraction = value / float(rate["good"])
            verdict = "bad" if fraction < BAD_FRACTION else "low" if fraction < LOW_FRACTION else "ok"
            return {"good": rate["good"], "fraction": fraction, "verdict": verdict, "source": rate["source"]}
    return None


def _is_of(rate: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    """Whether a run was large enough for this rate, and of its variant."""
    size = int(parameters.get("rate_size", parameters["size"]))
    return size >= rate["least_size"] and all(parameters[name] == value for name, value in rate["variant"].items())


def with_judgement(result: KernelResult, device: Mapping[str, Any], tolerance: float | None) -> KernelResult:
    """Return the result with its rate judged; with a tolerance, a rate that misses it or is not in the table fails."""
    if result.rate is None:
        return result
    model, parameters = str(device["name"]), result.parameters
    known = judge_rate(kernel=result.kernel, model=model, parameters=parameters, value=result.rate.median)
    result = replace(result, rate=replace(result.rate, known_good=known))
    if tolerance is None or result.proof is None:
        return result
    check = Check(name="rate", passed=False, evidence=f"no known-good rate of such a run for {model}: omit --tolerance")
    if known is not None:
        evidence = f"{known['fraction']:.3f} of the known-good rate, {1 - tolerance:.3f} required"
        check = Check(name="rate", passed=known["fraction"] >= 1 - tolerance, evidence=evidence)
    return replace(result, proof=replace(result.proof, checks=(*result.proof.checks, check)))
