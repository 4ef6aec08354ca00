"""Whether Slurm has the node, counts its GPUs, runs a job on one, and what else that can open."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gpuprov.roles.leftovers import judge_left
from gpuprov.roles.slurm.accounting import QUEUE, WHY
from gpuprov.roles.slurm.facts import NAME, ready_states
from gpuprov.verify.checks.devices import DENIED
from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.verify.models import Expectation, Finding, Observation

_HARMLESS = ("COMPLETING", "PLANNED", "DYNAMIC_NORM", "CLOUD")  # flags behind a state, as in IDLE+PLANNED
_NO_SLURM = f"the node's role is not {NAME}"
_BUSY = ("busy", "Unable to allocate resources", "Immediate execution impossible")


def parse_node(line: str) -> dict[str, str]:
    """The values of `scontrol --oneliner show node`; text after `Reason=` runs to the end."""
    head, _, reason = line.strip().partition(" Reason=")
    words = (word.partition("=") for word in head.split())
    values = {name: value for name, equals, value in words if equals}
    return {**values, "Reason": reason} if reason else values


def parse_gres(gres: str, name: str) -> int:
    """How many of that name are in a Gres value: `gpu:1`, `gpu:h100:2(S:0-1),shard:h100:8(S:0-1)`, `(null)`."""
    return sum(int(number) for number in re.findall(rf"(?:^|,){name}:(?:[^:,()]+:)?(\d+)", gres))


def usable_states() -> frozenset[str]:
    """The words of `ready_states` as scontrol writes them, without those that are flags there."""
    return frozenset(state.upper() for state in ready_states()) - frozenset(_HARMLESS)


def judge_state(expected: Expectation, seen: Observation) -> Finding:
    """The controller has the node, and jobs may run on it."""
    if expected.role != NAME:
        return not_asked(_NO_SLURM)
    show = facts_of(seen, "slurm")["show"]
    if show["timed_out"]:
        return unknown(f"no response from the controller within {show['seconds']:.0f} s")
    if show["exit_code"]:
        return failed(f"scontrol: {(show['stderr'] or show['stdout']).strip()[-300:]}")
    values = parse_node(show["stdout"])
    state = values.get("State", "")
    base, *flags = state.split("+")
    if base not in usable_states() or any(flag not in _HARMLESS for flag in flags):
        reason = f", reason: {values['Reason']}" if "Reason" in values else ""
        return failed(f"Slurm reports {state or 'no state'}{reason}")
    return passed(state.lower())


def judge_gres(expected: Expectation, seen: Observation) -> Finding:
    """The controller counts as many GPUs as the node holds, and their shards."""
    if expected.role != NAME:
        return not_asked(_NO_SLURM)
    gres, gpus = parse_node(facts_of(seen, "slurm")["show"]["stdout"]).get("Gres", ""), expected.gpu_count
    counted, shards = parse_gres(gres, "gpu"), parse_gres(gres, "shard")
    if counted != gpus:
        return failed(f"Slurm counts {counted} GPUs, but the node has {gpus}")
    if shards != gpus * expected.shards_per_gpu:
        return failed(f"Slurm counts {shards} shards, but the node has {gpus * expected.shards_per_gpu}")
    return passed(f"gpu:{counted}" + (f", shard:{shards}" if shards else ""))


def judge_job(expected: Expectation, seen: Observation) -> Finding:
    """A job that asks for the node's GPUs runs on it and sees those of the lease, by UUID."""
    if expected.role != NAME or not expected.gpu_paths:
        return not_asked(NO_GPU if expected.role == NAME else _NO_SLURM)
    job = facts_of(seen, "slurm")["job"]
    if job["timed_out"]:
        return unknown(f"the job did not finish within {job['seconds']:.0f} s")
    if job["exit_code"]:
        said = job["stderr"].strip()[-300:] or f"exit status {job['exit_code']}"
        state = parse_node(facts_of(seen, "slurm")["show"]["stdout"]).get("State", "")
        busy = state.startswith(("MIXED", "ALLOCATED")) and any(word in said for word in _BUSY)
        return not_asked(f"busy with other jobs: {said}") if busy else failed(f"srun: {said}")
    return _judge_said(expected, json.loads(job["stdout"]))


def judge_devices(expected: Expectation, seen: Observation) -> Finding:
    """A step that asks for no GPU opens none; where the engine lets no node fence devices, that it opens them."""
    if expected.role != NAME or not expected.gpu_paths:
        return not_asked(NO_GPU if expected.role == NAME else _NO_SLURM)
    job = facts_of(seen, "slurm")["job"]
    if job["timed_out"] or job["exit_code"]:
        return not_asked("no job ran on the node")
    said = json.loads(job["stdout"])
    if said["untried"]:
        return warned(f"no step of a job could try it: {said['untried']}")
    opened = [path for path, answer in said["unasked"].items() if answer not in DENIED]
    if not opened:
        return passed("a job opens no GPU that it did not ask for")
    evidence = f"not fenced, only hidden by variables: a job without a GPU can open {', '.join(opened)}"
    if expected.people and expected.gpu_count > 1:
        return warned(f"{evidence}; people's jobs on this node can open each other's GPUs")
    return passed(evidence)


def judge_left_by_jobs(expected: Expectation, seen: Observation) -> Finding:
    """No process of a job outlived it."""
    if expected.role != NAME:
        return not_asked(_NO_SLURM)
    return judge_left(facts_of(seen, "slurm")["left"])


def judge_accounting(expected: Expectation, seen: Observation) -> Finding:
    """In the node that has control, slurmdbd and its database answer, and have room. Jobs go on without."""
    if expected.role != NAME:
        return not_asked(_NO_SLURM)
    asked = facts_of(seen, "slurm")["accounting"]
    if asked["timed_out"]:
        return warned(f"no response from slurmdbd within {asked['seconds']:.0f} s; jobs go on")
    said = asked["stdout"]
    first = said.partition("\n")[0]
    if first == "elsewhere":
        return not_asked("no accounting, or on another node")
    kind, why = found.groups() if (found := WHY.search(said)) else ("", "")
    if first == "answers" and not why:
        return passed("slurmdbd answers")
    queued = int(found[1]) if (found := QUEUE.search(said)) else 0
    silent = "" if first == "answers" else "slurmdbd does not answer; "
    # slurmctld does not count jobs whose beginning is not on record
    later = f", and {queued} messages wait for it" if queued else ", and are on record once it is back" * bool(silent)
    return warned(f"{silent}{f'{why}; ' if why else ''}jobs go on{later}", "full" if kind == "full" else "")


def _judge_said(expected: Expectation, said: Mapping[str, Any]) -> Finding:
    """What the job printed, against the lease."""
    name, visible = said["node"], said["visible"]
    numbered = visible[:1].isdigit() and not expected.has_parts
    given = numbered or sorted(visible.split(",")) == sorted(expected.gpus)  # by UUIDs also where models differ
    if name != expected.node or not given:
        evidence = f"the job ran on {name or 'nothing'} with CUDA_VISIBLE_DEVICES={visible or '(not set)'}"
        return failed(evidence, "wrong")
    mark = "SIMULATED " if expected.simulated else ""
    if expected.has_parts and not expected.simulated:
        return passed(f"the job has CUDA_VISIBLE_DEVICES={visible}; CUDA shows a process only one MIG instance")
    if said["problem"]:
        return failed(f"the job has CUDA_VISIBLE_DEVICES={visible} and sees no GPU: {mark}{said['problem']}", "wrong")
    if sorted(said["uuids"]) != sorted(expected.gpus):
        seen_there = ", ".join(said["uuids"]) or "none"
        return failed(f"the job sees {mark}{seen_there}, but the node holds {', '.join(expected.gpus)}", "wrong")
    return passed(f"the job has CUDA_VISIBLE_DEVICES={visible}: {mark}{', '.join(said['uuids'])}")


RULES = (
    Rule(id="slurm-state", layer="slurm", needs=("network-gateway",), judge=judge_state, fact="slurm"),
    Rule(id="slurm-gres", layer="slurm", needs=("slurm-state",), judge=judge_gres, fact="slurm"),
    Rule(
        id="slurm-job",
        layer="slurm",
        needs=("slurm-gres", "nvml-uuids", "cuda-init"),
        judge=judge_job,
        fact="slurm",
    ),
    Rule(
        id="slurm-devices", layer="slurm", needs=("slurm-job",), judge=judge_devices, fact="slurm", severity="warning"
    ),
    Rule(
        id="slurm-accounting",
        layer="slurm",
        needs=("slurm-state",),
        judge=judge_accounting,
        fact="slurm",
        severity="warning",
    ),
    Rule(id="slurm-leftovers", layer="slurm", needs=("slurm-state",), judge=judge_left_by_jobs, fact="slurm"),
)
