"""Whether there is a running, finished node that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.verify.finding import failed, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Finding, Observation


def judge_running(expected: Expectation, _seen: Observation) -> Finding:
    """The engine runs it."""
    if expected.status == "running":
        return passed("running")
    return failed(f"the node is {expected.status}")


def judge_complete(expected: Expectation, _seen: Observation) -> Finding:
    """Its creation ran to the end: the last label is there."""
    if expected.complete:
        return passed("created completely")
    return failed("its creation was interrupted: the label gpuprov.fingerprint is missing")


def judge_lease(expected: Expectation, _seen: Observation) -> Finding:
    """The GPUs it holds are GPUs of this host."""
    if expected.host_problem is not None:
        return failed(expected.host_problem.evidence, "given", given=expected.host_problem.fix)
    if not expected.gpus:
        return passed("the node holds no GPU")
    if expected.simulated:
        return passed(f"the node holds SIMULATED {', '.join(expected.gpus)}")
    reason = f" ({expected.access_reason})" if expected.access_reason else ""
    return passed(f"the node holds {', '.join(expected.gpus)}, access by {expected.access}{reason}")


def judge_answer(_expected: Expectation, seen: Observation) -> Finding:
    """Commands run in it."""
    if seen.timed_out:
        return unknown(f"no response in time: {seen.problem}", "hangs")
    if seen.unasked:
        return unknown(f"the engine could not query the node: {seen.problem}", "unasked")
    if seen.facts is None:
        return failed(f"the node cannot be examined: {seen.problem}", "broken")
    return passed(f"responded in {seen.seconds:.1f} s")


RULES = (
    Rule(id="node-running", layer="node", needs=(), judge=judge_running),
    Rule(id="node-complete", layer="node", needs=(), judge=judge_complete),
    Rule(id="node-lease", layer="node", needs=(), judge=judge_lease, host=("host-module", "host-nvml", "host-uvm")),
    Rule(id="node-answers", layer="node", needs=("node-running",), judge=judge_answer),
)
