"""What the kernel's log says of GPUs, by what each error asks for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.gpu.xids import OF_THE_GPU, Xid, load_actions, standing_xids
from gpuprov.verify.checks.driver import facts_of, no_driver
from gpuprov.verify.checks.recovered import (
    drop_returned,
    find_beyond_reset,
    is_fabric_sound,
    lacks_recovery_actions,
    list_recovered,
)
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpuprov.gpu.xids import Action, Standing
    from gpuprov.shapes.verify import Severity
    from gpuprov.verify.models import Expectation, Finding, Observation

    Log = Mapping[str, Any]

_MOST_NAMED: Final = 4
_WORST: Final[Sequence[Action]] = ("restart-program", "test-gpu", "reset-gpu", "restart-host", "inspect")
_ASKS: Final[Mapping[Action, str]] = {
    "restart-program": "restart the program",
    "test-gpu": "test the GPU, on which different jobs had this error",
    "reset-gpu": "reset the GPU",
    "restart-host": "reboot the host",
    "inspect": "inspect the GPU",
}


def judge_log(look: Callable[[Log], Finding], expected: Expectation, seen: Observation) -> Finding:
    """Look at the log, where there is a driver that writes into it and it can be read."""
    if facts_of(seen, "driver")["version"] is None:
        return not_asked(no_driver(expected))
    log = facts_of(seen, "log")
    if log["problem"]:
        return unknown(f"the kernel log cannot be read: {log['problem']}", "unread")
    standing = {
        "lost": drop_returned(log["lost"], seen),
        "switches": () if is_fabric_sound(seen) else log["switches"],
    }
    now = {"recovered": list_recovered(seen), "beyond_reset": find_beyond_reset(seen)}
    return look({**log, **now, "standing": standing, "silent": _is_silent(log, seen)})


def _is_silent(log: Log, seen: Observation) -> bool:
    """Whether neither NVML nor the log (Xid 154) would tell that a reset has cured a GPU."""
    tells = load_actions()["says-itself"]["number"]
    return lacks_recovery_actions(seen) and all(row["number"] != tells for row in log["xids"])


def look_at_xids(actions: Sequence[Action], log: Log) -> Finding:
    """No Xid asks for one of these, since the driver was loaded and the GPU recovered."""
    xids = tuple(Xid(**row) for row in log["xids"])
    returned = {(number, pci) for number, pci in log["returned"]}
    standing = standing_xids(
        xids,
        loaded_s=log["loaded_s"],
        recovered=log["recovered"],
        returned=returned,
        beyond_reset=log["beyond_reset"],
    )
    found = [one for one in standing if one.action in actions]
    if log["standing"]["switches"]:  # host-switch tells them: links fail with the switch at their other end
        found = [one for one in found if one.xid.number not in load_actions()["of-links"]]
    if not found:
        return passed(f"none in {log['source']} since the driver was loaded")
    worst = max(found, key=lambda one: _WORST.index(one.action))
    lines = "; ".join(_describe(one) for one in found[-_MOST_NAMED:])
    more = f"{len(found)} in {log['source']}, most recent: {lines}" if len(found) > _MOST_NAMED else lines
    if log["silent"] and worst.action == "reset-gpu":
        more += "; this driver does not report whether a reset has cured it"
    return failed(more, worst.action, xid=worst.xid.number, pci=worst.xid.pci)


def _describe(one: Standing) -> str:
    times = f" ({one.count} times)" if one.count > 1 else ""
    before = "; also in each of the two boots before" if one.returned else ""
    return f"{_ASKS[one.action]}: {one.xid.text}{times}{before}"


def look_at_lines(part: str, what: str, log: Log) -> Finding:
    """No line of this kind since the driver was loaded, or what it reports is over by what NVML says."""
    lines = log["standing"][part]
    if lines:
        named = "; ".join(lines[-_MOST_NAMED:])
        return failed(f"{len(lines)} in {log['source']}, most recent: {named}" if lines[_MOST_NAMED:] else named)
    if log[part]:
        return passed(f"{len(log[part])} in {log['source']}, but NVML no longer reports a fault")
    return passed(f"no {what} in {log['source']} since the driver was loaded")


def _rule(check_id: str, look: Callable[[Log], Finding], severity: Severity = "critical") -> Rule:
    judge = partial(judge_log, look)
    return Rule(id=check_id, layer="nvml", needs=("host-module",), judge=judge, fact="log", severity=severity)


RULES = (
    _rule("host-bus", partial(look_at_lines, "lost", "GPU that left the bus")),
    _rule("host-switch", partial(look_at_lines, "switches", "error of an NVSwitch")),
    _rule("host-xid", partial(look_at_xids, OF_THE_GPU)),
    _rule("host-xid-jobs", partial(look_at_xids, ("test-gpu",)), "warning"),
    _rule("host-xid-program", partial(look_at_xids, ("restart-program",)), "warning"),
)
