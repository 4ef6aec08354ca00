"""Whether the node's user-space driver is that of the host's kernel module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.verify.finding import failed, not_asked, passed
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.verify.models import Expectation, Finding, Observation

NO_GPU = "the node holds no GPU"
NO_DRIVER = "SIMULATED: this GPU has no driver"


def real_gpu(expected: Expectation) -> Finding | None:
    """A skip where the node has no real GPU."""
    if not expected.gpus:
        return not_asked(NO_GPU)
    return not_asked(NO_DRIVER) if expected.simulated else None


def no_driver(expected: Expectation) -> str:
    """Why the host's driver is not asked about."""
    return "SIMULATED: no NVIDIA driver on this host" if expected.simulated else "no NVIDIA driver on this host"


def facts_of(seen: Observation, part: str) -> Mapping[str, Any]:
    """One part of the facts; the chain has made sure that it is there."""
    found: Mapping[str, Any] = (seen.facts or {})[part]
    return found


def judge_module(expected: Expectation, seen: Observation) -> Finding:
    """The kernel module is loaded, and it is the one that the host says."""
    skip = real_gpu(expected)
    if skip:
        return skip
    version = facts_of(seen, "driver")["version"]
    if version is None:
        return failed("no /proc/driver/nvidia/version in the node", "absent")
    if version != expected.driver_version:
        return failed(f"module {version} in the node, {expected.driver_version} on the host", "other")
    return passed(f"module {version}")


def judge_libraries(expected: Expectation, seen: Observation) -> Finding:
    """Every library ends in the version of the module; another version fails at the first call (NVML code 18)."""
    skip = real_gpu(expected)
    if skip:
        return skip
    libraries = facts_of(seen, "driver")["libraries"]
    for name, versions in libraries.items():
        if versions != [expected.driver_version]:
            seen_versions = ", ".join(versions) or "absent"
            return failed(f"{name}: {seen_versions}; the module is {expected.driver_version}")
    return passed(f"{', '.join(libraries)} are {expected.driver_version}")


RULES = (
    Rule(
        id="driver-module",
        layer="driver",
        needs=("node-answers",),
        judge=judge_module,
        fact="driver",
        host=("host-module",),
    ),
    Rule(
        id="driver-libraries",
        layer="driver",
        needs=("driver-module",),
        judge=judge_libraries,
        fact="driver",
        host=("host-libraries",),
    ),
)
