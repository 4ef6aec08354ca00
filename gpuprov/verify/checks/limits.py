"""Whether a GPU may run as fast as it can, and for this node."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.verify.checks.driver import NO_GPU
from gpuprov.verify.checks.readings import combine, gpu_rule, gpus_of, look_at_readings
from gpuprov.verify.finding import failed, not_asked, passed
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.checks.readings import Values
    from gpuprov.verify.models import Expectation, Finding, Observation

# Bits of NVML's clocks event reasons, called throttle reasons before driver 535
HARDWARE = {0x08: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
THERMAL = {0x20: "software thermal slowdown"}
_HARMLESS = {0x01: "idle", 0x02: "application clocks", 0x04: "power cap", 0x10: "sync boost", 0x100: "display clocks"}
_PROHIBITED = 2
_MARGIN_LEAST = 10
_POWER_LEAST = 0.95


def name_bits(reasons: int, table: dict[int, str]) -> str:
    """Names of the bits that are set."""
    return ", ".join(name for bit, name in table.items() if reasons & bit)


def look_at_reasons(bad: dict[int, str], values: Values) -> Finding:
    """Clocks are not held down for any of these reasons."""
    reasons = values["clock_reasons"]
    found = name_bits(reasons, bad)
    if found:
        return failed(f"clocks are limited: {found}")
    return passed(f"clocks: {name_bits(reasons, {**_HARMLESS, **HARDWARE, **THERMAL}) or 'free'}")


def look_at_temperature(values: Values) -> Finding:
    """It is not hotter than its greatest operating temperature."""
    now, most = values["temperature_c"], values["temperature_max_c"]
    text = f"{now} C, maximum {most} C"
    return failed(text) if now > most else passed(text)


def look_at_margin(values: Values) -> Finding:
    """There is room to the temperature at which it slows down; 0 and less are no margin on an H100 but no answer."""
    margin, how = values.get("temperature_margin_c", 0), "NVML"
    if margin <= 0:
        margin, how = values["temperature_max_c"] - values["temperature_c"], "computed from the temperature"
    text = f"margin {margin} C ({how})"
    return failed(text) if margin <= _MARGIN_LEAST else passed(text)


def look_at_power(values: Values) -> Finding:
    """It may draw what it draws by default."""
    now, default = (values[name] / 1000 for name in ("power_limit_mw", "power_default_mw"))
    text = f"{now:.0f} W of {default:.0f} W"
    return failed(text) if now < _POWER_LEAST * default else passed(text)


def look_at_persistence(values: Values) -> Finding:
    """The driver stays initialised between programs."""
    return (
        passed("on") if values["persistence"] else failed("off: the first program has to wait, and settings are lost")
    )


def look_at_compute_mode(values: Values) -> Finding:
    """Programs may use it."""
    mode = values["compute_mode"]
    return failed("prohibited") if mode == _PROHIBITED else passed("exclusive process" if mode else "default")


def look_at_mig_pending(values: Values) -> Finding:
    """MIG is as it will be after the next reset."""
    current, pending = ("on" if mode else "off" for mode in values["mig_mode"])
    if current != pending:
        return failed(f"MIG is {current}, but will be {pending} after the next reset")
    return passed(f"MIG is {current}")


def look_at_processes(values: Values) -> Finding:
    """Every process on the GPU is one of this node; another one's number is 0 or unknown to /proc here."""
    foreign = [str(process["pid"]) for process in values["processes"] if not process["here"]]
    if foreign:
        return failed(f"in use by a process from outside this node: {', '.join(foreign)}")
    return passed(f"{len(values['processes'])} processes, all from this node")


def judge_processes(expected: Expectation, seen: Observation) -> Finding:
    """Nobody else uses a GPU that is held exclusively."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    mark = "SIMULATED: " if expected.simulated else ""
    if expected.sharing != "exclusive":
        return not_asked(f"{mark}the lease is {expected.sharing}")
    if any(uuid.startswith("MIG-") for uuid in expected.gpus):
        return not_asked(f"{mark}the node holds a MIG instance; its GPU may have other users")
    gpus = gpus_of(seen)
    found = [look_at_readings(("processes",), look_at_processes, gpu["readings"]) for gpu in gpus]
    return combine(expected, gpus, found)


RULES = (
    gpu_rule("nvml-clocks-hardware", ("clock_reasons",), partial(look_at_reasons, HARDWARE)),
    gpu_rule("nvml-clocks-thermal", ("clock_reasons",), partial(look_at_reasons, THERMAL), severity="warning"),
    gpu_rule("nvml-temperature", ("temperature_c", "temperature_max_c"), look_at_temperature),
    gpu_rule("nvml-margin", ("temperature_c", "temperature_max_c"), look_at_margin, severity="warning"),
    gpu_rule(
        "nvml-power-limit",
        ("power_limit_mw", "power_default_mw"),
        look_at_power,
        severity="warning",
    ),
    gpu_rule("nvml-persistence", ("persistence",), look_at_persistence, severity="warning"),
    gpu_rule("nvml-compute-mode", ("compute_mode",), look_at_compute_mode),
    gpu_rule(
        "nvml-mig-pending",
        ("mig_mode",),
        look_at_mig_pending,
        severity="warning",
    ),
    Rule(
        id="nvml-processes",
        layer="nvml",
        needs=("nvml-uuids",),
        judge=judge_processes,
        fact="nvml",
        severity="warning",
    ),
)
