"""Whether NVML, or its simulation, reports exactly the leased GPUs, and CUDA starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.verify.checks.driver import NO_GPU, facts_of, real_gpu
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Finding, Observation

_FIXES = {
    4: "gpuprov cluster up    # NVML may not open /dev/nvidiactl",
    9: "modprobe nvidia && nvidia-smi",
    12: "gpuprov cluster up    # mounts the driver's libraries into the node",
    15: "nvidia-smi --gpu-reset -i INDEX, or reboot",
    18: "gpuprov cluster up; if it stays: reboot    # library and kernel module differ",
    999: "gpuprov stop NODE && gpuprov start NODE    # a daemon-reload may have taken the device away",
}


def judge_init(expected: Expectation, seen: Observation) -> Finding:
    """NVML answers; a missing library where a GPU is expected is a failure, never healthy."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    facts = facts_of(seen, "nvml")
    if "missing" in facts:
        return unknown(f"the image lacks {facts['missing']}", "gpuprov image build; gpuprov cluster up")
    if "failed" in facts:
        failure = facts["failed"]
        fix = _FIXES.get(failure["code"], "nvidia-smi; dmesg | grep NVRM").replace("NODE", expected.node)
        return failed(f"{failure['call']}: {failure['text']} (code {failure['code']})", fix)
    mark = " SIMULATED" if expected.simulated else ""
    return passed(f"answers: {len(facts['gpus'])}{mark} GPU{'s' if len(facts['gpus']) != 1 else ''}")


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
    return failed("; ".join(parts), "gpuprov cluster up    # gives each node the GPUs of its lease")


def judge_cuda(expected: Expectation, seen: Observation) -> Finding:
    """CuInit succeeds; without nvidia-uvm it says 999 while nvidia-smi works."""
    skip = real_gpu(expected)
    if skip:
        return skip
    facts = facts_of(seen, "cuda")
    if "missing" in facts:
        return failed(f"libcuda.so.1: {facts['missing']}", "gpuprov cluster up    # mounts the driver's libraries")
    if facts["code"]:
        fix = "nvidia-modprobe -u -c0; gpuprov cluster up    # passes the present major of nvidia-uvm"
        return failed(f"cuInit says {facts['code']}", fix)
    return passed("cuInit says 0")


RULES = (
    Rule(id="nvml-answers", layer="nvml", needs=("device-open", "driver-libraries"), judge=judge_init, fact="nvml"),
    Rule(id="nvml-uuids", layer="nvml", needs=("nvml-answers",), judge=judge_uuids, fact="nvml"),
    Rule(id="cuda-init", layer="cuda", needs=("device-open", "driver-libraries"), judge=judge_cuda, fact="cuda"),
)
