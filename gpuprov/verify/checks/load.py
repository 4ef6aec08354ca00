"""What was seen of the GPUs while the kernels ran: only the full level looks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpuprov.gpu.xids import OF_THE_GPU, action_of
from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.checks.limits import HARDWARE, THERMAL, name_bits
from gpuprov.verify.checks.readings import combine, explain_code, gpus_of, values_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.gpu.xids import Action
    from gpuprov.shapes.verify import Severity
    from gpuprov.verify.checks.readings import Values
    from gpuprov.verify.models import Expectation, Finding, Observation

    JudgeLoad = Callable[[Mapping[str, Any], Values], Finding]

_LOST = ("GpuIsLost", "ResetRequired", "NVMLError_Unknown")
_UNTOLD = "not reported by this GPU"


def judge_sampled(expected: Expectation, seen: Observation) -> Finding:
    """Every GPU could be looked at to the end of the run."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    samples = facts_of(seen, "samples")
    mark = "SIMULATED: " if expected.simulated else ""
    if samples["problem"]:
        evidence = f"{mark}while the kernels ran: {samples['problem']}"
        lost = any(mark in samples["problem"] for mark in _LOST)
        return failed(evidence, "lost") if lost else unknown(evidence)
    counts = {gpu["uuid"]: samples["seen"].get(gpu["uuid"], {}).get("samples", 0) for gpu in gpus_of(seen)}
    if not all(counts.values()):
        return unknown(f"{mark}no samples of {', '.join(uuid for uuid in counts if not counts[uuid])}")
    return passed(f"{mark}{min(counts.values())} samples of each GPU")


def judge_xids_under_load(actions: Sequence[Action], expected: Expectation, seen: Observation) -> Finding:
    """The driver reported no error that asks for one of these while the kernels ran."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    reading = facts_of(seen, "samples")["xids"]
    mark = "SIMULATED: " if expected.simulated else ""
    if "value" not in reading:
        finding = explain_code("events", reading)
        if finding.status == "skip":
            return not_asked(f"{mark}{finding.evidence}")
        return unknown(f"{mark}{finding.evidence}", "unheard")
    found = [event for event in reading["value"] if action_of(event["xid"]) in actions]
    if found:
        text = ", ".join(f"Xid {event['xid']} of {event['uuid']}" for event in found)
        return failed(f"{mark}{text}", xid=found[0]["xid"])
    return passed(f"{mark}no such Xid while the kernels ran")


def look_at_reasons_under_load(bad: dict[int, str], total: Mapping[str, Any], _readings: Values) -> Finding:
    """Clocks were not held down for any of these reasons."""
    if total["throttle"] is None:
        return not_asked(_UNTOLD)
    found = name_bits(total["throttle"], bad)
    text = f"in {total['samples']} samples"
    return failed(f"clocks were limited: {found}, {text}") if found else passed(f"never, {text}")


def look_at_temperature_under_load(total: Mapping[str, Any], readings: Values) -> Finding:
    """It never was hotter than its greatest operating temperature."""
    now, most = total["temperature_c"], readings.get("temperature_max_c")
    if now is None or most is None:
        return not_asked(_UNTOLD)
    text = f"highest {now} C, maximum {most} C"
    return failed(text) if now > most else passed(text)


def look_at_generation(total: Mapping[str, Any], readings: Values) -> Finding:
    """PCIe rose to the generation that GPU and slot have; without load it is lower, to save power."""
    now, most = total["pcie_generation"], readings.get("pcie_generation_max")
    if now is None or most is None:
        return not_asked(_UNTOLD)
    text = f"PCIe generation {now} of {most} under load"
    return failed(text) if now < most else passed(text)


def look_at_replay(total: Mapping[str, Any], _readings: Values) -> Finding:
    """No PCIe packet had to be sent again."""
    first, last = total["pcie_replay_first"], total["pcie_replay_last"]
    if first is None or last is None:
        return not_asked(_UNTOLD)
    rise = last - first
    return failed(f"{rise} PCIe replays during the run") if rise else passed(f"no PCIe replays, {last} before the run")


def judge_gpus_under_load(look: JudgeLoad, expected: Expectation, seen: Observation) -> Finding:
    """Look at what was seen of every GPU."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    gpus = gpus_of(seen)
    totals = cast("Mapping[str, Mapping[str, Any]]", facts_of(seen, "samples")["seen"])
    found = [look(totals[gpu["uuid"]], values_of(gpu["readings"])) for gpu in gpus]
    return combine(expected, gpus, found)


def _load_rule(check_id: str, look: JudgeLoad, severity: Severity = "critical") -> Rule:
    return Rule(
        id=check_id,
        layer="kernels",
        needs=("kernels-run", "load-sampled"),
        judge=partial(judge_gpus_under_load, look),
        fact="samples",
        severity=severity,
        level="full",
    )


WATCH_RULES = (
    Rule(id="load-sampled", layer="nvml", needs=("nvml-uuids",), judge=judge_sampled, fact="samples", level="full"),
    Rule(
        id="load-xid",
        layer="nvml",
        needs=("nvml-uuids",),
        judge=partial(judge_xids_under_load, OF_THE_GPU),
        fact="samples",
        level="full",
    ),
    Rule(
        id="load-xid-program",
        layer="nvml",
        needs=("nvml-uuids",),
        judge=partial(judge_xids_under_load, ("restart-program",)),
        fact="samples",
        severity="warning",
        level="full",
    ),
)
RULES = (
    _load_rule("load-clocks-hardware", partial(look_at_reasons_under_load, HARDWARE)),
    _load_rule("load-clocks-thermal", partial(look_at_reasons_under_load, THERMAL), "warning"),
    _load_rule("load-temperature", look_at_temperature_under_load),
    _load_rule("load-pcie-generation", look_at_generation, "warning"),
    _load_rule("load-pcie-replay", look_at_replay, "warning"),
)
