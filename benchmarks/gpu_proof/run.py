"""Runs the parts of a proof one after the other, within a budget."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.gpu_proof.parts import ROOT
from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.execution import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.gpu_proof.parts import Part
    from gpuprov.core.execution import Completed

Status = Literal["passed", "failed", "unknown", "not run"]
_TAIL = 600


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a part ended: `document` is what it printed, `why` says what went wrong or was lacking.

    `unknown` is a part that was run and found nothing wrong, and could not judge everything.
    """

    part: Part
    status: Status
    why: str = ""
    seconds: float = 0.0
    document: dict[str, Any] | None = None


def run_parts(
    parts: Sequence[Part],
    *,
    budget_s: float,
    tell: Callable[[str], object],
    execute: Callable[..., Completed] = run,
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[Result]:
    """Run what can be run while there is time left.

    Args:
        parts: In this order.
        budget_s: What all of them may take; a part gets what is left, up to its own limit. One that is ended because
            nothing is left has not failed.
        tell: Is handed a line before and after each part.
        execute: Runs a program.
        now_s: The clock.
    """
    end_s = now_s() + budget_s
    for part in parts:
        left_s = end_s - now_s()
        spent = f"the {budget_s:g} s of this proof are spent; to run it alone: --only {part.name}"
        if part.lacks or left_s < part.least_s:
            result = Result(part=part, status="not run", why=part.lacks or spent)
        else:
            tell(f"{part.name}: {part.title} ...")
            limit_s = min(part.limit_s, left_s)
            result = _run(part, limit_s, execute, now_s, spent=spent if limit_s < part.limit_s else "")
        tell(f"{part.name}: {result.status}{f': {result.why}' if result.why else ''}")
        yield result


def _run(
    part: Part, limit_s: float, execute: Callable[..., Completed], now_s: Callable[[], float], *, spent: str
) -> Result:
    """Run one; `spent` says why it gets less than its own limit: ended then, it has not failed."""
    started_s = now_s()
    try:
        done = execute(part.argv, timeout_s=limit_s, cwd=ROOT, check=False)
    except GpuprovError as error:
        seconds = now_s() - started_s
        if spent and isinstance(error, TimedOut):
            return Result(part=part, status="not run", why=f"ended after {limit_s:.0f} s: {spent}", seconds=seconds)
        why = f"{error.what}: {error.evidence}"[-_TAIL:]
        return Result(part=part, status="failed", why=why, seconds=seconds)
    seconds = now_s() - started_s
    document = read_document(done.stdout)
    if document is None:
        said = " ".join((done.stderr or done.stdout).split())[-_TAIL:]
        why = f"no result, exit status {done.exit_code}: {said or 'no output'}"
        return Result(part=part, status="failed", why=why, seconds=seconds)
    if document["passed"] is None:
        status: Status = "unknown" if document.get("verdict") == "unknown" else "not run"
        return Result(part=part, status=status, why=str(document.get("why")), seconds=seconds, document=document)
    passed = document["passed"] is True and done.exit_code == 0
    why = "" if passed else str(document.get("why") or f"exit status {done.exit_code}")[:_TAIL]
    return Result(part=part, status="passed" if passed else "failed", why=why, seconds=seconds, document=document)


def read_document(text: str) -> dict[str, Any] | None:
    """The JSON document in the last line of an output; None where there is none that says whether all is well."""
    try:
        document = json.loads(text.strip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "passed" in document else None
