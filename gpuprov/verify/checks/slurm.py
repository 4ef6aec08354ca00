"""Whether Slurm has the node, counts its GPUs and runs a job on one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Finding, Observation

USABLE = ("IDLE", "MIXED", "ALLOCATED")
HARMLESS = ("COMPLETING", "PLANNED", "DYNAMIC_NORM", "CLOUD")
_NO_SLURM = "the role is not slurm"
_BUSY = ("busy", "Unable to allocate resources", "Immediate execution impossible")


def parse_node(line: str) -> dict[str, str]:
    """The values of `scontrol --oneliner show node`; text after `Reason=` runs to the end."""
    head, _, reason = line.strip().partition(" Reason=")
    values = dict(re.findall(r"(\w+)=(\S*)", head))
    return {**values, "Reason": reason} if reason else values


def parse_gpus(gres: str) -> int:
    """GPUs in a Gres value: `gpu:1`, `gpu:h100:2(S:0-1)`, `(null)`."""
    return sum(int(number) for number in re.findall(r"(?:^|,)gpu:(?:[^:,()]+:)?(\d+)", gres))


def judge_state(expected: Expectation, seen: Observation) -> Finding:
    """The controller has the node, and jobs may run on it."""
    if expected.role != "slurm":
        return not_asked(_NO_SLURM)
    show = facts_of(seen, "slurm")["show"]
    if show["timed_out"]:
        return unknown(f"no answer from the controller in {show['seconds']:.0f} s")
    if show["exit_code"]:
        return failed(f"scontrol: {(show['stderr'] or show['stdout']).strip()[-300:]}")
    values = parse_node(show["stdout"])
    state = values.get("State", "")
    base, *flags = state.split("+")
    if base not in USABLE or any(flag not in HARMLESS for flag in flags):
        reason = f", because: {values['Reason']}" if "Reason" in values else ""
        return failed(f"Slurm says {state or 'nothing'}{reason}")
    return passed(state.lower())


def judge_gres(expected: Expectation, seen: Observation) -> Finding:
    """The controller counts as many GPUs as the node holds."""
    if expected.role != "slurm":
        return not_asked(_NO_SLURM)
    counted = parse_gpus(parse_node(facts_of(seen, "slurm")["show"]["stdout"]).get("Gres", ""))
    if counted != len(expected.gpu_paths):
        return failed(f"Slurm counts {counted} GPUs, the node has {len(expected.gpu_paths)}")
    return passed(f"gpu:{counted}")


def judge_job(expected: Expectation, seen: Observation) -> Finding:
    """A job that asks for a GPU runs on the node and is given one."""
    if expected.role != "slurm" or not expected.gpu_paths:
        return not_asked(NO_GPU if expected.role == "slurm" else _NO_SLURM)
    job = facts_of(seen, "slurm")["job"]
    if job["timed_out"]:
        return unknown(f"the job did not end within {job['seconds']:.0f} s")
    if job["exit_code"]:
        said = job["stderr"].strip()[-300:] or f"exit status {job['exit_code']}"
        state = parse_node(facts_of(seen, "slurm")["show"]["stdout"]).get("State", "")
        busy = state.startswith(("MIXED", "ALLOCATED")) and any(word in said for word in _BUSY)
        return not_asked(f"busy with other jobs: {said}") if busy else failed(f"srun: {said}")
    name, _, visible = job["stdout"].strip().partition(" ")
    if name != expected.node or not visible[:1].isdigit():
        evidence = f"the job ran on {name or 'nothing'} with CUDA_VISIBLE_DEVICES={visible or '(not set)'}"
        return failed(evidence, "wrong")
    given = name_given(visible, seen)
    if "" in given:
        evidence = f"the job has CUDA_VISIBLE_DEVICES={visible}, NVML counts {len(facts_of(seen, 'nvml')['gpus'])} GPUs"
        return failed(evidence, "wrong")
    mark = "SIMULATED " if expected.simulated else ""
    which = f": {mark}{', '.join(given)}" if given else ""
    return passed(f"a job has CUDA_VISIBLE_DEVICES={visible}{which}")


def name_given(visible: str, seen: Observation) -> list[str]:
    """UUIDs of a job's GPUs by NVML's order, empty for one that is not there; none where NVML or MIG does not tell."""
    gpus = facts_of(seen, "nvml").get("gpus", [])
    if not gpus or any(gpu["mig"] for gpu in gpus):
        return []
    uuids = dict(enumerate(gpu["uuid"] for gpu in gpus))
    return [uuids.get(int(index), "") for index in visible.split(",")]


RULES = (
    Rule(id="slurm-state", layer="slurm", needs=("network-gateway",), judge=judge_state, fact="slurm"),
    Rule(id="slurm-gres", layer="slurm", needs=("slurm-state",), judge=judge_gres, fact="slurm"),
    Rule(id="slurm-job", layer="slurm", needs=("slurm-gres",), judge=judge_job, fact="slurm"),
)
