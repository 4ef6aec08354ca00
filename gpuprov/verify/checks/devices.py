"""Whether the node can open the GPUs that it holds, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Finding, Observation

DENIED = ("EPERM", "EACCES")
NO_DRIVER_BEHIND = ("ENXIO", "ENODEV")


def judge_nodes(expected: Expectation, seen: Observation) -> Finding:
    """Every device of the lease stands at its path, with its type and numbers."""
    if not expected.devices:
        return not_asked(NO_GPU)
    found, wrong = facts_of(seen, "devices"), []
    for device in expected.devices:
        facts = found[device.path]
        if facts["kind"] != "char":
            wrong.append(f"{device.path} is {facts['kind']}, not a character device")
        elif (facts["major"], facts["minor"]) != (device.major, device.minor):
            wrong.append(f"{device.path} is {facts['major']}:{facts['minor']}, not {device.major}:{device.minor}")
    if wrong:
        return failed("; ".join(wrong))
    return passed(", ".join(f"{device.path} {device.major}:{device.minor}" for device in expected.devices))


def judge_open(expected: Expectation, seen: Observation) -> Finding:
    """Every device of the lease opens; ENXIO from a simulated one says that access is granted."""
    if not expected.devices:
        return not_asked(NO_GPU)
    found = facts_of(seen, "devices")
    answers = {device.path: found[device.path]["open"] for device in expected.devices if writable(device.mode)}
    allowed = ("ok", *NO_DRIVER_BEHIND) if expected.simulated else ("ok",)
    wrong = {path: answer for path, answer in answers.items() if answer not in allowed}
    if not wrong:
        said = ", ".join(f"{path} {answer}" for path, answer in answers.items())
        return passed(f"{said} (SIMULATED: allowed, no driver behind it)" if expected.simulated else said)
    evidence = ", ".join(f"{path}: {answer}" for path, answer in wrong.items())
    if any(answer in DENIED for answer in wrong.values()):
        return failed(f"access is denied: {evidence}", "denied")
    return failed(f"allowed, but the driver does not respond: {evidence}", "no-driver")


def writable(mode: int) -> bool:
    """Whether a device is meant to be opened for writing; MIG capabilities are not."""
    return bool(mode & 0o222)


def judge_strangers(_expected: Expectation, seen: Observation) -> Finding:
    """No other NVIDIA device in the node opens."""
    strangers = list_of(seen, "strangers")
    opened = [item for item in strangers if item["open"] not in DENIED]
    if opened:
        names = ", ".join(f"{item['path']} {item['major']}:{item['minor']} ({item['open']})" for item in opened)
        return failed(f"the node can open devices that it does not hold: {names}")
    return passed(
        f"{len(strangers)} other NVIDIA devices in /dev, all denied" if strangers else "no other NVIDIA device in /dev"
    )


def list_of(seen: Observation, part: str) -> list[dict[str, Any]]:
    """One part of the facts that is a list; raises TypeError where it is something else."""
    found = (seen.facts or {})[part]
    if not isinstance(found, list):
        raise TypeError(f"{part} is not a list")
    return found


def judge_mknod(expected: Expectation, seen: Observation) -> Finding:
    """A device made for another GPU is refused, when it is made or when it is opened."""
    attempts = list_of(seen, "mknod")
    tried = {attempt["minor"] for attempt in attempts}
    if not expected.denied or not tried.issuperset(expected.denied):
        return unknown("the probe did not try the other GPUs", "untried")
    opened = [a for a in attempts if a["mknod"] == "ok" and a["open"] not in DENIED]
    if opened:
        names = ", ".join(f"195:{a['minor']} in {a['folder']} ({a['open']})" for a in opened)
        return failed(f"mknod can create a GPU that the node does not hold, and the device can be opened: {names}")
    odd = [a for a in attempts if a["mknod"] not in ("ok", *DENIED)]
    if odd and len(odd) == len(attempts):
        return unknown(f"mknod failed with {odd[0]['mknod']}, which is inconclusive", "odd")
    how = "created, but cannot be opened" if any(a["mknod"] == "ok" for a in attempts) else "cannot be created"
    return passed(f"195:{', 195:'.join(str(minor) for minor in sorted(tried))} {how}")


RULES = (
    Rule(id="device-nodes", layer="devices", needs=("node-answers", "node-lease"), judge=judge_nodes, fact="devices"),
    Rule(id="device-open", layer="devices", needs=("device-nodes",), judge=judge_open, fact="devices"),
    Rule(id="device-strangers", layer="devices", needs=("node-answers",), judge=judge_strangers, fact="strangers"),
    Rule(id="device-mknod", layer="devices", needs=("node-answers",), judge=judge_mknod, fact="mknod"),
)
