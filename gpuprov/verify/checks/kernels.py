"""Whether the smoke kernels gave the right answers."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.verify.models import Expectation, Finding, Observation

KERNELS = ("matmul", "anneal", "membw")
SCHEMA = "gpuprov.smoke/v1"
_CANNOT_RUN = ("numba-cuda cannot be imported", "No module named")


def read_document(facts: Any) -> dict[str, Any] | None:  # noqa: ANN401 - what the probe gathered
    """The smoke kernels' own document, or None where they printed none."""
    try:
        document = json.loads(facts["stdout"])
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    return document


def judge_run(expected: Expectation, seen: Observation) -> Finding:
    """They ran to their end, on what the node holds."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    facts = facts_of(seen, "kernels")
    if facts["timed_out"]:
        return unknown(f"they did not end within {facts['seconds']:.0f} s")
    document = read_document(facts)
    if document is None or document["error"]:
        return _no_result(document, facts)
    wrong = _wrong_device(expected, document)
    if wrong:
        return failed(wrong)
    where = "SIMULATED, on numba's simulator" if expected.simulated else f"on {document['device']['name']}"
    return passed(f"ran {where} in {facts['seconds']:.1f} s")


def _no_result(document: dict[str, Any] | None, facts: Mapping[str, Any]) -> Finding:
    """Why they did not come to a result; an image that cannot run them says nothing about the GPU."""
    error = (document or {}).get("error") or {}
    last = facts["stderr"].strip().rpartition("\n")[2] or f"exit status {facts['exit_code']}"
    evidence = f"{error['what']}: {error['evidence']}" if error else f"they printed no result: {last}"
    if any(mark in evidence for mark in _CANNOT_RUN):
        return unknown(f"the image cannot run them: {evidence[-400:]}", "image")
    return failed(evidence[-400:])


def _wrong_device(expected: Expectation, document: Mapping[str, Any]) -> str:
    """How what they ran on differs from the lease; CUDA names the GPU of a MIG instance, so that says nothing."""
    if document["simulated"] != expected.simulated:
        on = "the simulator" if document["simulated"] else "a real GPU"
        return f"they ran on {on}, the lease is {expected.access}"
    visible = set(document["device"]["visible"])
    whole = not any(uuid.startswith("MIG-") for uuid in expected.gpus)
    if not expected.simulated and whole and visible != set(expected.gpus):
        return f"CUDA sees {', '.join(sorted(visible)) or 'nothing'}, the node holds {', '.join(expected.gpus)}"
    return ""


def judge_kernel(kernel: str, expected: Expectation, seen: Observation) -> Finding:
    """One kernel's proof holds."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    document = cast("dict[str, Any]", read_document(facts_of(seen, "kernels")))
    result = next((item for item in document["results"] if item["kernel"] == kernel), None)
    if result is None:
        return unknown("it did not run")
    if result["error"]:
        return failed(f"{result['error']['what']}: {result['error']['evidence']}")
    proof = result["proof"] or {"checks": []}
    wrong = [f"{check['name']}: {check['evidence']}" for check in proof["checks"] if not check["passed"]]
    if wrong or not proof["checks"] or not result["passed"]:
        return failed("; ".join(wrong) or "it proved nothing")
    mark = "SIMULATED " if result["simulated"] else ""
    rate = f", {result['rate']['median']:.0f} {result['rate']['unit']}" if result["rate"] else ""
    return passed(f"{mark}digest {proof['digest']}, {len(proof['checks'])} proofs hold{rate}")


RULES = (
    Rule(
        id="kernels-run",
        layer="kernels",
        needs=("nvml-uuids", "nvml-compute-mode", "cuda-init"),
        judge=judge_run,
        fact="kernels",
    ),
    *(
        Rule(
            id=f"kernel-{kernel}",
            layer="kernels",
            needs=("kernels-run",),
            judge=partial(judge_kernel, kernel),
            fact="kernels",
        )
        for kernel in KERNELS
    ),
)
