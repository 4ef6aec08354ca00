"""Whether what the driver needs beside it runs on the host, and no process hangs in the driver or is left of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.excerpt import few
from gpuprov.verify.checks.driver import facts_of, no_driver
from gpuprov.verify.checks.readings import gpus_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpuprov.verify.models import Expectation, Finding, Observation

_FABRIC_MANAGER: Final = "nvidia-fabricmanager"
_PERSISTENCED: Final = "nvidia-persistenced"
_SUBNET_MANAGER: Final = "nvlsm"
_NVLINK_5 = re.compile(r"\bB[123]00\b")  # on a board of NVSwitches of its own; those of a GB200 are in other machines
_ENABLED: Final = "enabled"
_UP: Final = ("active", "activating")
_STOPPED: Final = ("inactive", "deactivating")
_FLAPPING: Final = 3  # restarts by systemd, which counts them since somebody started the unit
_STEADY_S: Final = 3600.0  # active for so long, it no longer matters how often it was restarted before
_MOST_NAMED: Final = 4


def judge_stuck(expected: Expectation, seen: Observation) -> Finding:
    """No process waits in the driver for good."""
    if facts_of(seen, "driver")["version"] is None:
        return not_asked(no_driver(expected))
    stuck = facts_of(seen, "stuck")
    waiting, watched = list(stuck["waiting"]), f"{stuck['watched_s']:.0f} s"
    if waiting:
        return failed(f"{few(waiting, _MOST_NAMED)}: no progress for {watched}")
    if stuck["hidden"]:
        return unknown(
            f"{stuck['hidden']} processes have waited in the kernel for {watched}; only root sees where", "unread"
        )
    return passed("no process waits in the driver")


def judge_zombies(expected: Expectation, seen: Observation) -> Finding:
    """No GPU is held by a process that has ended: its memory comes back when nobody has its files open any more."""
    if facts_of(seen, "driver")["version"] is None:
        return not_asked(no_driver(expected))
    zombies: Mapping[str, str] = facts_of(seen, "zombies")["ended"]
    held = [
        f"{zombies[pid]} ({pid}) holds {gpu['uuid']}"
        for gpu in gpus_of(seen)
        for pid in (str(process["pid"]) for process in gpu["readings"]["processes"].get("value", ()))
        if pid in zombies
    ]
    if held:
        return failed(f"ended, but still listed: {few(held, _MOST_NAMED)}")
    return passed("no process that has ended holds a GPU")


def judge_fabric_manager(expected: Expectation, seen: Observation) -> Finding:
    """Where there are NVSwitches, their manager runs, in the driver's version."""
    driver, services = facts_of(seen, "driver"), facts_of(seen, "services")
    if driver["version"] is None:
        return not_asked(no_driver(expected))
    unit: Mapping[str, str] = services["units"].get(_FABRIC_MANAGER, {})
    seen_running = _FABRIC_MANAGER in services["processes"] and not _crashes(unit)
    state = "active" if seen_running else _state(unit)
    if _lacks_subnet_manager(services["processes"], seen):
        return failed(f"{_FABRIC_MANAGER} needs {_SUBNET_MANAGER} for NVLink 5, which is not running", "subnet")
    if state == "active":
        return _judge_active(unit, services, driver["version"])
    if driver["switches"]:
        return _judge_missing(len(driver["switches"]), state, services["problem"])
    if unit.get("UnitFileState") == _ENABLED and _on_fabric(seen):
        return warned(f"{_FABRIC_MANAGER} is {state}, but the GPUs are part of an NVSwitch fabric")
    return not_asked("no NVSwitch")


def _judge_missing(switches: int, state: str, problem: str) -> Finding:
    need = f"{switches} NVSwitches need it"
    if state:
        return failed(f"{_FABRIC_MANAGER} is {state}; {need}")
    if problem:
        return unknown(f"{_FABRIC_MANAGER} is not seen: {problem}; {need}", "unseen")
    return failed(f"{_FABRIC_MANAGER} is not installed; {need}", "absent")


def _judge_active(unit: Mapping[str, str], services: Mapping[str, Any], driver: str) -> Finding:
    version = services["versions"].get(_FABRIC_MANAGER)
    if version is not None and version != driver:
        return failed(f"{_FABRIC_MANAGER} has version {version}, the driver {driver}", "version")
    if _flaps(unit, services["asked_s"]):
        return warned(
            f"{_FABRIC_MANAGER} is active, but systemd had to restart it {unit['NRestarts']} times", "restarts"
        )
    return passed(f"{_FABRIC_MANAGER} is active, version {version or 'unknown'}")


def _restarts(unit: Mapping[str, str]) -> int:
    return int(unit.get("NRestarts") or 0)


def _crashes(unit: Mapping[str, str]) -> bool:
    """Whether it is being started again and again; what starts for the first time has not been restarted."""
    return unit.get("ActiveState") == "activating" and _restarts(unit) >= _FLAPPING


def _flaps(unit: Mapping[str, str], asked_s: float) -> bool:
    """Whether it runs, but was restarted often and has not run for long since."""
    active_s = asked_s - int(unit.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
    return unit.get("ActiveState") == "active" and _restarts(unit) >= _FLAPPING and active_s < _STEADY_S


def _state(unit: Mapping[str, str]) -> str:
    """Systemd's word, and the restarts of a unit that does not stay up."""
    state = unit.get("ActiveState", "")
    return f"{state}, restarted {_restarts(unit)} times" if _crashes(unit) else state


def _on_fabric(seen: Observation) -> bool:
    """Whether NVML says of any GPU that it joins, or has joined, a fabric."""
    nvml: Mapping[str, Any] = (seen.facts or {})["nvml"] or {}
    fabrics = (gpu["readings"]["fabric"].get("value") for gpu in nvml.get("gpus", ()))
    return any(fabric and fabric["state"] for fabric in fabrics)


def _lacks_subnet_manager(processes: Collection[str], seen: Observation) -> bool:
    """Whether the fabric manager runs without what it reaches switches of NVLink 5 by; where it is seen, both are."""
    nvml: Mapping[str, Any] = (seen.facts or {})["nvml"] or {}
    needed = _FABRIC_MANAGER in processes and any(_NVLINK_5.search(gpu["name"]) for gpu in nvml.get("gpus", ()))
    return needed and _SUBNET_MANAGER not in processes


def judge_services(expected: Expectation, seen: Observation) -> Finding:
    """The driver's other services that are switched on do run, in its version."""
    driver, services = facts_of(seen, "driver"), facts_of(seen, "services")
    if driver["version"] is None:
        return not_asked(no_driver(expected))
    units = {name: unit for name, unit in services["units"].items() if name != _FABRIC_MANAGER}
    bad = {name: why for name, unit in units.items() if (why := _why_down(unit, services["asked_s"]))}
    if bad:
        return failed(", ".join(f"{name} is {why}" for name, why in bad.items()), unit=next(iter(bad)))
    version = services["versions"].get(_PERSISTENCED)
    if version is not None and version != driver["version"]:
        return failed(f"{_PERSISTENCED} has version {version}, the driver {driver['version']}", unit=_PERSISTENCED)
    wanted = [name for name, unit in units.items() if unit["UnitFileState"] == _ENABLED or unit["ActiveState"] in _UP]
    if not wanted:
        return not_asked(services["problem"] or "none of the driver's services is enabled")
    return passed(", ".join(f"{name} is {units[name]['ActiveState']}" for name in wanted))


def _why_down(unit: Mapping[str, str], asked_s: float) -> str:
    """In which state it should not be, empty where it may.

    A unit that is not enabled may be stopped: a device or another unit starts it, or nobody does.
    """
    state = unit["ActiveState"]
    if state == "failed" or _crashes(unit):
        return _state(unit)
    if state in _STOPPED and unit["UnitFileState"] == _ENABLED:
        return f"{state}, but enabled"
    return f"active, but systemd had to restart it {_restarts(unit)} times" if _flaps(unit, asked_s) else ""


RULES = (
    Rule(id="host-stuck", layer="nvml", needs=("host-module",), judge=judge_stuck, fact="stuck"),
    Rule(
        id="host-zombies",
        layer="nvml",
        needs=("host-nvml",),
        judge=judge_zombies,
        fact="zombies",
        severity="warning",
    ),
    Rule(
        id="host-fabric-manager",
        layer="nvml",
        needs=("host-module",),
        judge=judge_fabric_manager,
        fact="services",
    ),
    Rule(
        id="host-services",
        layer="nvml",
        needs=("host-module",),
        judge=judge_services,
        fact="services",
        severity="warning",
    ),
)
