"""Rates against those of healthy GPUs of the same model; only the full level works long enough to measure them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.checks.readings import combine
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule
from gpuprov.verify.smoke_document import read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.verify.models import Expectation, Finding, Observation

# By the words of the smoke kernels' document, whose table and lines these are
_JUDGE: dict[str, Callable[[str], Finding]] = {"ok": passed, "low": warned, "bad": failed}


def judge_rates(kernel: str, expected: Expectation, seen: Observation) -> Finding:
    """On every GPU this kernel is as fast as on a healthy one, where the table knows the model."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    if expected.simulated:
        return not_asked("SIMULATED: the simulator's speed says nothing about a GPU")
    if any(uuid.startswith("MIG-") for uuid in expected.gpus):
        return not_asked("the table is for whole GPUs, but the node holds MIG instances")
    if expected.sharing != "exclusive":
        return not_asked("the node shares its GPUs, so other work can slow them down")
    document = cast("dict[str, Any]", read_document(facts_of(seen, "kernels")))
    models = {device["uuid"]: device["name"] for device in document["devices"]}
    results = [result for result in document["results"] if result["kernel"] == kernel]
    gpus = [{"index": number, "uuid": result["gpu"]} for number, result in enumerate(results)]
    return combine(expected, gpus, [_judge_rate(result["rate"], models[result["gpu"]]) for result in results])


def _judge_rate(rate: Mapping[str, Any] | None, model: str) -> Finding:
    if rate is None:
        return unknown("no rate was measured")
    known = rate["known_good"]
    value = f"{rate['median']:.0f} {rate['unit']}"
    if known is None:
        return not_asked(f"{value}; no expectation: there is no known-good rate of such a run for {model}")
    return _JUDGE[known["verdict"]](
        f"{value}, {known['fraction']:.2f} of the known-good rate {known['good']:g} of {model}"
    )


RULES = tuple(
    Rule(
        id=f"load-rate-{kernel}",
        layer="kernels",
        needs=(f"kernel-{kernel}",),
        judge=partial(judge_rates, kernel),
        fact="kernels",
        level="full",
    )
    for kernel in ("matmul", "anneal", "membw")
)
