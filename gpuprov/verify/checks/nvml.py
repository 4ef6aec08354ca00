"""Whether NVML, or its simulation, reports exactly the leased GPUs, and CUDA starts."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.requirements import load_cuda, older
from gpuprov.verify.checks.driver import NO_GPU, facts_of, real_gpu
from gpuprov.verify.checks.readings import LOOK, LOST, combine, explain_code, gpus_of, values_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gpuprov.verify.models import Expectation, Finding, Observation


def judge_init(expected: Expectation, seen: Observation) -> Finding:
    """NVML answers; a missing library where a GPU is expected is a failure, never healthy."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    facts = facts_of(seen, "nvml")
    if "missing" in facts:
        return unknown(f"the image lacks {facts['missing']}", "missing")
    if "failed" in facts:
        failure = facts["failed"]
        return failed(f"{failure['call']}: {failure['text']} (code {failure['code']})", f"code-{failure['code']}")
    lost = facts.get("lost", ())
    if lost:
        failure = lost[0]
        more = f"; {len(lost)} GPUs of the node are lost" if len(lost) > 1 else ""
        said = f"{failure['call']}: {failure['text']} (code {failure['code']}){more}"
        return failed(said, f"code-{failure['code']}")
    mark = " SIMULATED" if expected.simulated else ""
    return passed(f"responds: {len(facts['gpus'])}{mark} GPU{'s' if len(facts['gpus']) != 1 else ''}")


def look_at_answers(readings: Mapping[str, Any]) -> Finding:
    """The GPU answers at all; one that is lost says so to some question, whichever it is."""
    for name, reading in readings.items():
        if "value" not in reading and reading["code"] in LOST:
            return explain_code(name, reading)
    count = len(values_of(readings))
    if not count:
        return unknown(f"none of {len(readings)} queries succeeded", LOOK)
    return passed(f"{count} of {len(readings)} queries succeeded")


def look_at_mig(whole: set[str], gpu: Mapping[str, Any]) -> Finding:
    """MIG is off where the whole GPU is leased: with MIG on, CUDA sees its instances only."""
    reading = gpu["readings"]["mig_mode"]
    if "value" not in reading:
        return explain_code("mig_mode", reading)
    current, _ = reading["value"]
    if current and gpu["uuid"] in whole:
        return failed("MIG is on, but the whole GPU is leased")
    return passed("MIG is on, as leased" if current else "MIG is off")


def judge_responds(expected: Expectation, seen: Observation) -> Finding:
    """No GPU is lost, or needs a reset."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    gpus = gpus_of(seen)
    return combine(expected, gpus, [look_at_answers(gpu["readings"]) for gpu in gpus])


def judge_mig(expected: Expectation, seen: Observation) -> Finding:
    """No GPU that is leased as a whole is cut into instances."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    gpus = gpus_of(seen)
    look = partial(look_at_mig, set(expected.gpus))
    return combine(expected, gpus, [look(gpu) for gpu in gpus])


def judge_uuids(expected: Expectation, seen: Observation) -> Finding:
    """The set of UUIDs in the node is the set that it holds."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    units = {unit for gpu in facts_of(seen, "nvml")["gpus"] for unit in (gpu["mig"] or [gpu["uuid"]])}
    leased = set(expected.gpus)
    if units == leased:
        return passed(f"{'SIMULATED ' if expected.simulated else ''}{', '.join(sorted(units))}")
    parts = [
        f"{what}: {', '.join(sorted(uuids))}"
        for what, uuids in (("missing", leased - units), ("not held", units - leased))
        if uuids
    ]
    return failed("; ".join(parts))


def judge_cuda(expected: Expectation, seen: Observation) -> Finding:
    """CuInit succeeds; without nvidia-uvm it says 999 while nvidia-smi works."""
    skip = real_gpu(expected)
    if skip:
        return skip
    facts = facts_of(seen, "cuda")
    if "missing" in facts:
        return failed(f"libcuda.so.1: {facts['missing']}", "missing")
    if facts["code"]:
        return failed(f"cuInit returned {facts['code']}")
    return passed("cuInit returned 0")


def judge_wheels(expected: Expectation, seen: Observation) -> Finding:
    """The driver runs programs of the CUDA major that the image's Python packages are of."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    wheels = (seen.facts or {})["wheels"]
    majors = {name: major for name in wheels if (major := wheel_major(name)) is not None}
    versions = facts_of(seen, "nvml")["versions"]
    mark = "SIMULATED: " if expected.simulated else ""
    if not majors:
        return not_asked(f"{mark}no CUDA packages are installed for the node's Python")
    if "value" not in versions["cuda"]:
        return explain_code("the CUDA version of the driver", versions["cuda"])
    version, driver = versions["cuda"]["value"], versions["driver"].get("value", "of unknown version")
    name, wheel = max(majors.items(), key=lambda item: item[1])
    has = f"{mark}driver {driver} supports CUDA {version // 1000}.{version % 1000 // 10}"
    needed = load_cuda().get(wheel)
    if version // 1000 < wheel:
        return failed(f"{has}, but {name} needs CUDA {wheel}{f', driver {needed.driver} or newer' if needed else ''}")
    capability = ".".join(map(str, expected.capability or ()))
    if needed and capability and older(capability, needed.compute_capability):
        text = f"a GPU of the node has compute capability {capability}, but {name} compiles for"
        return failed(f"{text} {needed.compute_capability} and newer", "gpu")
    return passed(f"{has}, the image's packages are for CUDA {wheel}")


def wheel_major(name: str) -> int | None:
    """CUDA major of a package such as `nvidia_cuda_nvcc_cu12-12.9.86` or `nvidia_cuda_nvcc-13.0.88`."""
    found = re.match(r"nvidia_cuda_(?:runtime|nvrtc|nvcc)(?:_cu(\d+))?-(\d+)\.", name)
    return int(found[1] or found[2]) if found else None


RULES = (
    Rule(
        id="nvml-answers",
        layer="nvml",
        needs=("device-open", "driver-libraries"),
        judge=judge_init,
        fact="nvml",
        host=("host-nvml",),
    ),
    Rule(id="nvml-responds", layer="nvml", needs=("nvml-answers",), judge=judge_responds, fact="nvml"),
    Rule(id="nvml-mig", layer="nvml", needs=("nvml-responds",), judge=judge_mig, fact="nvml"),
    Rule(id="nvml-uuids", layer="nvml", needs=("nvml-mig",), judge=judge_uuids, fact="nvml"),
)

HEALTH_RULES = tuple(rule for rule in RULES if rule.id == "nvml-responds")

CUDA_RULES = (
    Rule(id="cuda-wheels", layer="cuda", needs=("nvml-answers",), judge=judge_wheels, fact="wheels"),
    Rule(
        id="cuda-init",
        layer="cuda",
        needs=("device-open", "driver-libraries", "nvml-fabric"),
        judge=judge_cuda,
        fact="cuda",
        host=("host-uvm",),
    ),
)
