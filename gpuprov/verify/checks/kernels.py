"""Whether the smoke kernels gave the right answers."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule
from gpuprov.verify.smoke_document import KERNELS, read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.verify.models import Expectation, Finding, Observation

# The last one is of an image with older smoke kernels.
_CANNOT_RUN = ("numba-cuda cannot be imported", "No module named", "unrecognized arguments")
_VALUES = re.compile(r"=\S*")  # values of options: the same problem reads the same on every node


def judge_run(expected: Expectation, seen: Observation) -> Finding:
    """They ran to their end, on what the node holds."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    facts = facts_of(seen, "kernels")
    if facts["timed_out"]:
        return unknown(f"the kernels did not finish within {facts['seconds']:.0f} s")
    document = read_document(facts)
    if document is None or document["error"]:
        return _no_result(document, facts)
    wrong = _wrong_device(expected, document)
    if wrong:
        return failed(wrong)
    left_out = sorted(_whole(expected) - {device["uuid"] for device in document["devices"]})
    if left_out:
        return unknown(f"the kernels did not run on {', '.join(left_out)}")
    names = Counter(device["name"] for device in document["devices"])
    on = ", ".join(f"{count} x {name}" if count > 1 else str(name) for name, count in names.items())
    where = (
        f"SIMULATED, on numba's simulator for {sum(names.values())} GPU{'s' if sum(names.values()) > 1 else ''}"
        if expected.simulated
        else f"on {on}"
    )
    return passed(f"ran {where} in {facts['seconds']:.1f} s")


def _no_result(document: dict[str, Any] | None, facts: Mapping[str, Any]) -> Finding:
    """Why they did not come to a result; an image that cannot run them says nothing about the GPU."""
    error = (document or {}).get("error") or {}
    last = facts["stderr"].strip().rpartition("\n")[2] or f"exit status {facts['exit_code']}"
    evidence = f"{error['what']}: {error['evidence']}" if error else f"the kernels printed no result: {last}"
    if any(mark in evidence for mark in _CANNOT_RUN):
        return unknown(f"the image cannot run them: {_VALUES.sub('', evidence)[-400:]}", "image")
    return failed(evidence[-400:])


def _wrong_device(expected: Expectation, document: Mapping[str, Any]) -> str:
    """How what they ran on differs from the lease; CUDA names the GPU of a MIG instance, so that says nothing."""
    if document["simulated"] != expected.simulated:
        on = "the simulator" if document["simulated"] else "a real GPU"
        return f"the kernels ran on {on}, but the lease is {expected.access}"
    visible = set(document["device"]["visible"])
    if not expected.simulated and _whole(expected) and visible != set(expected.gpus):
        return f"CUDA sees {', '.join(sorted(visible)) or 'nothing'}, but the node holds {', '.join(expected.gpus)}"
    return ""


def _whole(expected: Expectation) -> set[str]:
    """UUIDs that the kernels name; of MIG instances CUDA shows one to a process, under the name of its GPU."""
    return set() if any(uuid.startswith("MIG-") for uuid in expected.gpus) else set(expected.gpus)


def judge_smoke_kernel(kernel: str, expected: Expectation, seen: Observation) -> Finding:
    """One kernel's proof holds, on every GPU."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    document = cast("dict[str, Any]", read_document(facts_of(seen, "kernels")))
    results = [item for item in document["results"] if item["kernel"] == kernel]
    left_out = sorted(_whole(expected) - {item["gpu"] for item in results})
    if left_out or not results:
        return unknown(f"the kernel did not run on {', '.join(left_out) or 'any GPU'}")
    wrong = [f"{item['gpu']}: {text}" for item in results if (text := _wrong_result(item))]
    if wrong:
        return failed("; ".join(wrong))
    return passed("; ".join(_describe(results)))


def _wrong_result(result: Mapping[str, Any]) -> str:
    """Why a result is none, or empty."""
    if result["error"]:
        return f"{result['error']['what']}: {result['error']['evidence']}"
    proof = result["proof"] or {"checks": []}
    wrong = [f"{check['name']}: {check['evidence']}" for check in proof["checks"] if not check["passed"]]
    if wrong or not proof["checks"] or not result["passed"]:
        return "; ".join(wrong) or "the result has no proof"
    return ""


def _describe(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each digest once, with its GPUs' number and rates: healthy GPUs agree."""
    for digest in dict.fromkeys(result["proof"]["digest"] for result in results):
        same = [result for result in results if result["proof"]["digest"] == digest]
        mark = "SIMULATED " if same[0]["simulated"] else ""
        on = f" on {len(same)} GPUs" if len(same) > 1 else ""
        rates = [item["rate"] for item in same if item["rate"]]
        rate = f", {', '.join(format(each['median'], '.0f') for each in rates)} {rates[0]['unit']}" if rates else ""
        yield f"{mark}digest {digest}, {len(same[0]['proof']['checks'])} checks passed{on}{rate}"


RULES = (
    Rule(
        id="kernels-run",
        layer="kernels",
        needs=("nvml-uuids", "nvml-compute-mode", "cuda-wheels", "cuda-init"),
        judge=judge_run,
        fact="kernels",
    ),
    *(
        Rule(
            id=f"kernel-{kernel}",
            layer="kernels",
            needs=("kernels-run",),
            judge=partial(judge_smoke_kernel, kernel),
            fact="kernels",
        )
        for kernel in KERNELS
    ),
)
