"""What `verify` looks at on the host itself; verify.checks.host judges it. Changes nothing."""

from __future__ import annotations

import json
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import GpuprovError, HostNotReady, TimedOut
from gpuprov.core.execution import run
from gpuprov.gpu.device_nodes import find_wrong_nodes, plan_device_nodes
from gpuprov.gpu.driver_files import find_card_drivers, find_switches, read_driver_files
from gpuprov.gpu.driver_mounts import plan_library_mounts
from gpuprov.gpu.host_device_nodes import stat_nodes
from gpuprov.gpu.lost import LostGpu, find_lost_gpus
from gpuprov.gpu.models import Gpu
from gpuprov.gpu.pci import normalise_pci
from gpuprov.machine.links import find_links
from gpuprov.machine.nvidia_services import look_at_services
from gpuprov.machine.stuck import find_stuck
from gpuprov.machine.system_logs import read_kernel_log
from gpuprov.machine.zombies import find_zombies
from gpuprov.verify.models import Observation
from gpuprov.verify.request import host_probe_argv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.core.execution import Completed
    from gpuprov.gpu.models import DriverFiles
    from gpuprov.machine.links import Link

    Facts = dict[str, Any]

NVML_TIMEOUT_S = 45.0
_QUERIED = "NVML was queried and"
_UVM = "/dev/nvidia-uvm"
_NOTHING: Mapping[str, Any] = {"wrong": [], "right": "", "fix": ""}


def look_at_host(
    simulation: Mapping[str, Any] | None,
    *,
    root: Path = Path("/"),
    execute: Callable[..., Completed] = run,
    links: Callable[[], tuple[Link, ...] | None] = find_links,
) -> Observation:
    """Look at the host's driver, devices, libraries, NVML, services, kernel log and addresses.

    Args:
        simulation: What the simulated NVML answers; None where nodes hold no simulated GPU. It is not asked where a
            driver is loaded.
        root: Where /proc, /sys, /dev and /usr are looked up.
        execute: Runs systemctl, and the probe that asks NVML, in a process of its own: NVML of a sick GPU may hang.
        links: Tells the networks of the host.
    """
    started = time.monotonic()
    driver: DriverFiles | None = None
    problem = fix = ""
    try:
        driver = read_driver_files(root)
    except HostNotReady as error:
        problem, fix = f"{error.what}: {error.evidence}", error.fix
    asked = driver is not None or simulation is not None
    # Before NVML is asked: who ends in between was right to be in its list.
    ended = find_zombies(root) if driver else frozenset()
    silent = driver.silent if driver else ""
    if silent:
        nvml: Facts | None = {"unanswered": f"/proc/driver/nvidia/gpus: {silent}; NVML was not queried"}
    else:
        nvml = _ask_nvml(None if driver else simulation, execute) if asked else None
    facts: Facts = {
        "kernel": platform.release(),
        "driver": {
            "version": driver.version if driver else None,
            "gpus": [gpu.uuid for gpu in driver.gpus] if driver else [],
            "pci": {gpu.uuid: gpu.pci for gpu in driver.gpus} if driver else {},
            "unready": [gpu.pci for gpu in driver.lost] if driver else [],
            "cards": find_card_drivers(root),
            "excluded": list(driver.excluded) if driver else [],
            "switches": find_switches(root),
            "silent": silent,
            "problem": problem,
            "fix": fix,
        },
        "libraries": _look_at_libraries(driver) if driver else _NOTHING,
        **_look_at_devices(driver, root),
        "nvml": nvml,
        "lost": [{**asdict(gpu), "text": str(gpu)} for gpu in _find_lost(driver, nvml, root)] if driver else [],
        "zombies": {"ended": {str(one.pid): one.name for one in ended & find_zombies(root)}} if driver else None,
        "stuck": asdict(find_stuck(root)) if driver else None,
        "services": look_at_services(root, execute=execute) if driver else None,
        "log": asdict(read_kernel_log(root)),
        "addresses": _addresses(links()),
    }
    return Observation(facts=facts, seconds=time.monotonic() - started)


def _find_lost(driver: DriverFiles, nvml: Facts | None, root: Path) -> tuple[LostGpu, ...]:
    """Nothing where NVML does not answer at all."""
    if nvml is None or "gpus" not in nvml:
        return ()
    seen = {name for gpu in nvml["gpus"] for name in (gpu["uuid"], normalise_pci(gpu.get("pci", "")))}
    unread = [
        LostGpu(index=one["index"], code=one["code"], why=f"{one['call']}: {one['text']} (NVML code {one['code']})")
        for one in nvml.get("lost", ())
    ]
    return find_lost_gpus(
        driver, seen=seen, unread=unread, has_device=lambda minor: (root / f"dev/nvidia{minor}").exists()
    )


def _look_at_libraries(driver: DriverFiles) -> Facts:
    try:
        plan_library_mounts(driver)
    except HostNotReady as error:
        return {"wrong": [f"{error.what}: {error.evidence}"], "right": "", "fix": error.fix}
    return {"wrong": [], "right": f"the driver's libraries have version {driver.version}", "fix": ""}


def _look_at_devices(driver: DriverFiles | None, root: Path) -> Facts:
    if driver is None:
        return {"devices": _NOTHING, "uvm": _NOTHING}
    if driver.silent:
        unseen = {**_NOTHING, "right": "not compared while the driver does not respond"}
        return {"devices": unseen, "uvm": unseen}
    gpus = [Gpu(index=n, uuid=g.uuid, minor=g.minor, pci=g.pci, model=g.model) for n, g in enumerate(driver.gpus)]
    try:
        planned = plan_device_nodes(gpus, driver)
    except HostNotReady as error:
        uvm = {"wrong": [f"{error.what}: {error.evidence}"], "right": "", "fix": error.fix}
        return {"devices": {**_NOTHING, "right": "not compared while nvidia-uvm is missing"}, "uvm": uvm}
    found = stat_nodes(root, planned)
    parts: Facts = {}
    for name, is_uvm in (("devices", False), ("uvm", True)):
        devices = [device for device in planned if device.path.startswith(_UVM) == is_uvm]
        right = ", ".join(f"{device.path} {device.major}:{device.minor}" for device in devices)
        parts[name] = {"wrong": list(find_wrong_nodes(devices, found)), "right": right, "fix": ""}
    return parts


def _ask_nvml(simulation: Mapping[str, Any] | None, execute: Callable[..., Completed]) -> Facts:
    argv = host_probe_argv(sys.executable, simulation)
    try:
        answer = execute(argv, timeout_s=NVML_TIMEOUT_S, check=False)
    except TimedOut:
        return {"unanswered": f"{_QUERIED} did not respond within {NVML_TIMEOUT_S:g} s"}
    except GpuprovError as error:
        return {"unanswered": f"{_QUERIED} {error.what}: {error.evidence}"}
    try:
        nvml: Facts = json.loads(answer.stdout)["nvml"]
    except (ValueError, KeyError, TypeError):
        return {"unanswered": f"{_QUERIED} did not respond: {answer.stderr.strip()[-300:]}"}
    return {"unanswered": f"{_QUERIED} failed: {nvml['error']}"} if "error" in nvml else nvml


def _addresses(links: tuple[Link, ...] | None) -> dict[str, str] | None:
    """Address to interface."""
    if links is None:
        return None
    return {str(link.address.ip): link.interface for link in links if link.address is not None}
