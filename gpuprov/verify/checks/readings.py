"""What a reading of NVML means that has no value, and one finding for all GPUs of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.finding import failed, not_asked, unknown
from gpuprov.verify.models import Finding, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.verify import CheckStatus, Severity
    from gpuprov.verify.models import Expectation, Observation

Values = Mapping[str, Any]
JudgeReadings = Callable[[Values], Finding]

NO_ANSWER = (3, 13, 25, 26)  # not supported, function not found, struct version not known, deprecated
LOST = (15, 16, 999)  # GPU is lost, reset required, unknown error
CORRUPTED_INFOROM = 14
RESET = "nvml-responds/"
LOOK = "nvml-responds/look"
_WORST: tuple[CheckStatus, ...] = ("fail", "unknown", "warn", "pass", "skip")


def explain_code(name: str, reading: Mapping[str, Any]) -> Finding:
    """Why there is no value: a question that this GPU does not know is skipped, one that it may not answer is not."""
    code = reading["code"]
    said = f"{name}: {reading['text']} (code {code})"
    if code in NO_ANSWER:
        return not_asked(said)
    if code in LOST or code == CORRUPTED_INFOROM:
        return failed(said, RESET)
    return unknown(said, LOOK)


def values_of(readings: Mapping[str, Any]) -> Values:
    """Those readings that have a value."""
    return {name: reading["value"] for name, reading in readings.items() if "value" in reading}


def look_at_readings(names: Sequence[str], look: JudgeReadings, readings: Mapping[str, Any]) -> Finding:
    """What `look` says of one GPU, or why it cannot be asked: every one of `names` must have a value."""
    for name in names:
        if "value" not in readings[name]:
            return explain_code(name, readings[name])
    return look(values_of(readings))


def combine(expected: Expectation, gpus: Sequence[Mapping[str, Any]], found: Sequence[Finding]) -> Finding:
    """The worst of all GPUs, with the numbers of those that say so."""
    mark = "SIMULATED " if expected.simulated else ""
    if not found:
        return not_asked(f"{mark}NVML lists no GPU")
    worst = next(status for status in _WORST if status in {finding.status for finding in found})
    said: dict[str, list[str]] = {}
    for number, finding in enumerate(found):
        if finding.status == worst:
            said.setdefault(finding.evidence, []).append(str(gpus[number].get("index", number)))
    evidence = mark + "; ".join(f"GPU {', '.join(numbers)}: {text}" for text, numbers in said.items())
    if worst in ("pass", "skip"):
        return Finding(status=worst, evidence=evidence)
    position = next(number for number, finding in enumerate(found) if finding.status == worst)
    known = {**found[position].known, "uuid": gpus[position]["uuid"]}
    return Finding(status=worst, evidence=evidence, fix=found[position].fix, known=known)


def gpus_of(seen: Observation) -> list[Mapping[str, Any]]:
    """What NVML said of each GPU."""
    return cast("list[Mapping[str, Any]]", facts_of(seen, "nvml")["gpus"])


def judge_each_gpu(names: Sequence[str], look: JudgeReadings, expected: Expectation, seen: Observation) -> Finding:
    """Look at every GPU of the node."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    gpus = gpus_of(seen)
    found = [look_at_readings(names, look, {**gpu["readings"], "name": {"value": gpu["name"]}}) for gpu in gpus]
    return combine(expected, gpus, found)


def gpu_rule(check_id: str, names: Sequence[str], look: JudgeReadings, *, severity: Severity = "critical") -> Rule:
    """A check of each GPU by itself, from readings of NVML."""
    return Rule(
        id=check_id,
        layer="nvml",
        needs=("nvml-uuids",),
        judge=partial(judge_each_gpu, tuple(names), look),
        fact="nvml",
        severity=severity,
    )
