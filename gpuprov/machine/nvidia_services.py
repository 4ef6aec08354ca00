"""The services of NVIDIA's driver on this host: whether they run, and in which version."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpuprov.core.execution import Completed

FABRIC_MANAGER: Final = "nvidia-fabricmanager"
PERSISTENCED: Final = "nvidia-persistenced"
UNITS: Final = (FABRIC_MANAGER, PERSISTENCED, "nvidia-imex", "nvidia-dcgm")
_PROPERTIES: Final = ("Id", "LoadState", "UnitFileState", "ActiveState", "NRestarts", "ActiveEnterTimestampMonotonic")
_SHOW: Final = (
    "systemctl",
    "show",
    f"--property={','.join(_PROPERTIES)}",
    "--",
    *(f"{unit}.service" for unit in UNITS),
)
# Who says its version, which must be the driver's; the kernel cuts names of processes off
_PROGRAMS: Final[Mapping[str, str]] = {FABRIC_MANAGER: "nv-fabricmanager", PERSISTENCED: "nvidia-persistenced"}
# Runs beside the fabric manager, in the same unit, where the switches are of NVLink 5
SUBNET_MANAGER: Final = "nvlsm"
_NAME_MOST: Final = 15
_VERSION = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")
_TIMEOUT_S: Final = 10.0


def look_at_services(root: Path, *, execute: Callable[..., Completed] = run) -> dict[str, Any]:
    """State and version of each service.

    Args:
        root: Where /proc and /run are looked up; systemd is asked on the machine itself only.
        execute: Runs systemctl, and programs that say their version.

    Returns:
        `units` by name, and when they were looked at (`asked_s`, on the clock of systemd's monotonic times);
        `processes` that were seen of them; `versions` of those that run; `problem`, why systemd could not be asked.
    """
    units: dict[str, dict[str, str]] = {}
    problem = ""
    if (root / "run/systemd/system").is_dir():
        try:
            units = parse_units(execute(list(_SHOW), timeout_s=_TIMEOUT_S).stdout)
        except GpuprovError as error:
            problem = f"{error.what}: {error.evidence}"
    else:
        problem = "systemd is not running"
    processes = _find_processes(root)
    active = {name for name, unit in units.items() if unit.get("ActiveState") == "active"} | set(processes)
    versions = {name: _ask_version(program, execute) for name, program in _PROGRAMS.items() if name in active}
    return {
        "units": units,
        "asked_s": time.monotonic(),
        "processes": processes,
        "versions": versions,
        "problem": problem,
    }


def parse_units(shown: str) -> dict[str, dict[str, str]]:
    """What `systemctl show` says, by the unit's name; units that are not installed are left out."""
    units = {}
    for block in shown.strip().split("\n\n"):
        unit = {key: value for key, _, value in (line.partition("=") for line in block.splitlines())}
        if unit.get("LoadState") not in (None, "", "not-found"):
            units[unit.pop("Id", "").removesuffix(".service")] = unit
    return units


def parse_service_version(said: str) -> str | None:
    """A driver's version in what a program says of itself."""
    found = _VERSION.search(said)
    return found[1] if found else None


def _ask_version(program: str, execute: Callable[..., Completed]) -> str | None:
    try:
        answer = execute([program, "--version"], timeout_s=_TIMEOUT_S, check=False)
    except GpuprovError:
        return None
    return parse_service_version(answer.stdout or answer.stderr)


def _find_processes(root: Path) -> list[str]:
    wanted = {program[:_NAME_MOST]: name for name, program in _PROGRAMS.items()} | {SUBNET_MANAGER: SUBNET_MANAGER}
    found = set()
    for path in root.glob("proc/[0-9]*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            found.add(wanted.get(path.read_text(errors="replace").strip(), ""))
    return sorted(found - {""})
