"""What a smoke kernel is asked, what it answers, and what that is worth. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuprov.core.catalogue import find_fix
from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.shapes.smoke_run import KernelName, SmokeResult
from gpuprov.verify.checks.kernels import judge_run, judge_smoke_kernel
from gpuprov.verify.models import Observation
from gpuprov.verify.smoke_document import read_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.verify import Verdict
    from gpuprov.verify.models import Expectation, Finding

LOCAL = "local"
LONGEST_S = 7 * 86400.0
TIMEOUT_S = 300.0  # besides the seconds asked for: compiling, preparing and proving
REFUSED = 2  # of the smoke kernels' exit codes
_SMALL = {"matmul": "64", "anneal": "64", "membw": "16K"}


@dataclass(frozen=True, kw_only=True)
class SmokeOrder:
    """What to run; `size` is as the kernel reads it, None for its own default."""

    kernel: KernelName
    size: str | None = None
    seconds: float | None = None

    def argv(self, python: str, *more: str) -> list[str]:
        """The command that runs it, on every GPU that CUDA shows there."""
        size = [f"--size={self.size}"] if self.size is not None else []
        seconds = [f"--seconds={self.seconds}"] if self.seconds is not None else []
        return [python, "-m", "smoke_kernels", self.kernel, *size, *seconds, "--all-devices", *more, "--json"]

    def check(self) -> None:
        """Refuse what must not get into a time limit; sizes are the kernels' own to judge.

        Raises:
            UsageError: The seconds are no number of them.
        """
        if self.seconds is not None and not 0 <= self.seconds <= LONGEST_S:
            raise UsageError(
                f"a kernel cannot run for {self.seconds:g} s",
                evidence=f"allowed: 0 to {LONGEST_S:g}",
                fix=f"gpuprov smoke {self.kernel} --seconds 30",
            )

    def timeout_s(self, gpus: int) -> float:
        """When it is given up: the GPUs of a place work one after the other."""
        return (TIMEOUT_S + (self.seconds or 0.0)) * max(1, gpus)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the kernels' process printed, in a node or here."""

    exit_code: int
    stdout: str
    stderr: str


def judge(place: Expectation, order: SmokeOrder, answer: Answer) -> SmokeResult:
    """What an answer says; whatever lacks the shape of one is no pass.

    Raises:
        UsageError: The kernel refused its arguments.
    """
    facts = {"exit_code": answer.exit_code, "stdout": answer.stdout, "stderr": answer.stderr}
    seen = Observation(facts={"kernels": {**facts, "timed_out": False, "seconds": 0.0}})
    document = read_document(facts)
    command = f"gpuprov smoke {order.kernel}"
    again = f"{command} --local" if place.node == LOCAL else f"{name_cluster(command, place.cluster)} {place.node}"
    try:
        if document is not None and document["error"] and answer.exit_code == REFUSED:
            error = document["error"]
            fix = f"{again} --size {_SMALL[order.kernel]}"
            raise UsageError(str(error["what"]), evidence=str(error["evidence"]), fix=fix)
        check, finding = "kernels-run", judge_run(place, seen)
        if finding.status == "pass":
            check, finding = f"kernel-{order.kernel}", judge_smoke_kernel(order.kernel, place, seen)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        evidence = f"the answer is malformed ({type(error).__name__}: {error}): {answer.stdout[:200]}"
        return no_result(place, evidence, again)
    if answer.exit_code and finding.status == "pass":
        return no_result(place, f"it reports a pass, but exited with {answer.exit_code}", again)
    # The check's own fix leads into a node.
    found = find_fix(finding.fix, check, node=place.node, **finding.known)
    return _result(place, finding, document, again if place.node == LOCAL else name_cluster(found, place.cluster))


def no_result(place: Expectation, evidence: str, fix: str) -> SmokeResult:
    """Nothing is known of that place."""
    return SmokeResult(place=place.node, verdict="unknown", simulated=place.simulated, evidence=evidence, fix=fix)


def _result(place: Expectation, finding: Finding, document: Mapping[str, Any] | None, fix: str) -> SmokeResult:
    verdict: Verdict = "unknown" if finding.status == "skip" else finding.status
    return SmokeResult(
        place=place.node,
        verdict=verdict,
        simulated=place.simulated,
        evidence=finding.evidence,
        fix="" if verdict == "pass" else fix,
        document=document,
    )
