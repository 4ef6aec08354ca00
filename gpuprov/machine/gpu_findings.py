"""Judge what the host shows of its GPUs. Pure functions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.core.catalogue import find_fix
from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.access import CDI_FILE, decide_access
from gpuprov.gpu.device_nodes import find_wrong_nodes, plan_device_nodes
from gpuprov.gpu.driver_mounts import plan_library_mounts
from gpuprov.gpu.lost import describe_lost
from gpuprov.shapes.doctor import HostFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.gpu.device_nodes import NodeStat
    from gpuprov.gpu.models import DriverFiles, EngineAccess, HostGpus
    from gpuprov.machine.facts import HostFacts
    from gpuprov.shapes.node import CharDevice

UVM = "/dev/nvidia-uvm"
CAPABILITIES = "/dev/nvidia-caps/"


def judge_host_gpus(facts: HostFacts) -> Iterator[HostFinding]:
    """Driver, device nodes, uvm and libraries; without a driver only that GPUs will be simulated."""
    if facts.gpu_error is not None:
        evidence = f"{facts.gpu_error.what}: {facts.gpu_error.evidence}"
        fix = find_fix("given", "nvidia-driver", given=facts.gpu_error.fix)
        yield HostFinding(id="nvidia-driver", status="fail", evidence=evidence, fix=fix)
    if facts.gpus is None:
        return
    if facts.gpus.simulated:
        yield _judge_simulated(facts.gpus, facts.gpu_cards)
        return
    models = ", ".join(f"{count} x {model}" for model, count in Counter(gpu.model for gpu in facts.gpus.gpus).items())
    evidence = f"driver {facts.gpus.driver_version}: {models}"
    if facts.gpus.lost:
        evidence += f"; {describe_lost(facts.gpus.lost, usable=len(facts.gpus.gpus))}"
        yield HostFinding(id="nvidia-driver", status="warn", evidence=evidence, fix=find_fix("lost", "nvidia-driver"))
    else:
        yield HostFinding(id="nvidia-driver", status="ok", evidence=evidence)
    if facts.gpus.driver is not None:
        yield from judge_device_nodes(facts.gpus, facts.gpus.driver, facts.gpu_nodes)
        yield judge_host_libraries(facts.gpus.driver)
        if facts.cdi_outdated:
            evidence = f"/{CDI_FILE} does not describe the GPUs and the driver that are there now"
            yield HostFinding(id="cdi", status="warn", evidence=evidence, fix=find_fix("own", "cdi"))
        elif facts.cdi_versions:
            yield judge_cdi(facts.gpus.driver, facts.cdi_versions)
        if facts.cgroup == "v2" and facts.engine.facts and facts.engine.facts.systemd_cgroups:
            yield judge_links(facts.gpu_unlinked)
    yield judge_access(facts.gpus, facts.engine.facts.gpu_access if facts.engine.facts else {})


def judge_device_nodes(gpus: HostGpus, driver: DriverFiles, found: Mapping[str, NodeStat]) -> Iterator[HostFinding]:
    """Every device node that the GPUs call for; uvm's apart: without them CUDA fails while nvidia-smi works."""
    try:
        devices = plan_device_nodes(gpus.units, driver)
    except HostNotReady as error:
        fix = find_fix("given", "uvm", given=error.fix)
        yield HostFinding(id="uvm", status="fail", evidence=f"{error.what}: {error.evidence}", fix=fix)
        return
    minors = " ".join(f"-c {minor}" for minor in sorted({gpu.minor for gpu in gpus.gpus}))
    uvm = [device for device in devices if device.path.startswith(UVM)]
    # MIG's capability nodes are left out: the host's root needs none, and nodes get theirs by number.
    others = [device for device in devices if not device.path.startswith((UVM, CAPABILITIES))]
    yield _judge_part("gpu-devices", others, found, fix=find_fix("", "gpu-devices", minors=minors))
    yield _judge_part("uvm", uvm, found, fix=find_fix("", "uvm"))


def judge_host_libraries(driver: DriverFiles) -> HostFinding:
    """The libraries that are mounted into nodes exist in the kernel module's version."""
    try:
        plan_library_mounts(driver)
    except HostNotReady as error:
        fix = find_fix("given", "libraries", given=error.fix)
        return HostFinding(id="libraries", status="fail", evidence=f"{error.what}: {error.evidence}", fix=fix)
    return HostFinding(id="libraries", status="ok", evidence=f"the driver's libraries have version {driver.version}")


def judge_cdi(driver: DriverFiles, versions: Mapping[str, str]) -> HostFinding:
    """CDI's files mount the libraries of the loaded module; those of an earlier driver fail at the first call."""
    stale = {path: version for path, version in versions.items() if version != driver.version}
    if stale:
        named = ", ".join(f"{path} mounts libcuda.so.{version}" for path, version in stale.items())
        fix = find_fix("", "cdi", path=next(iter(stale)))
        return HostFinding(
            id="cdi", status="warn", evidence=f"{named}, but the module has version {driver.version}", fix=fix
        )
    return HostFinding(id="cdi", status="ok", evidence=f"{', '.join(versions)}: libcuda.so.{driver.version}")


def judge_links(unlinked: Sequence[CharDevice]) -> HostFinding:
    """Without its link in /dev/char systemd forgets a device of a container at the next daemon-reload."""
    if not unlinked:
        return HostFinding(id="char-links", status="ok", evidence="every GPU device has a link in /dev/char")
    named = ", ".join(f"{device.path} has no link /dev/char/{device.major}:{device.minor}" for device in unlinked)
    links = "; ".join(f"sudo ln -s {device.path} /dev/char/{device.major}:{device.minor}" for device in unlinked)
    return HostFinding(id="char-links", status="warn", evidence=named, fix=find_fix("", "char-links", links=links))


def judge_access(gpus: HostGpus, offers: Mapping[EngineAccess, str]) -> HostFinding:
    """By which way GPUs get into nodes of this engine, and why."""
    try:
        access = decide_access(replace(gpus, offers=offers), gpus.units)
    except HostNotReady as error:
        fix = find_fix("given", "gpu-access", given=error.fix)
        return HostFinding(id="gpu-access", status="fail", evidence=f"{error.what}: {error.evidence}", fix=fix)
    others = "".join(f"; not needed: {kind}, {known}" for kind, known in offers.items() if kind != access.kind)
    return HostFinding(id="gpu-access", status="ok", evidence=f"{access.kind}: {access.reason}{others}")


def _judge_simulated(gpus: HostGpus, cards: tuple[str, ...]) -> HostFinding:
    evidence = f"GPUs will be SIMULATED: {gpus.reason}"
    if cards:
        return HostFinding(id="nvidia-driver", status="warn", evidence=evidence, fix=find_fix("card", "nvidia-driver"))
    return HostFinding(id="nvidia-driver", status="info", evidence=evidence)


def _judge_part(check: str, devices: Sequence[CharDevice], found: Mapping[str, NodeStat], *, fix: str) -> HostFinding:
    wrong = find_wrong_nodes(devices, found)
    if wrong:
        return HostFinding(id=check, status="fail", evidence="; ".join(wrong), fix=fix)
    names = ", ".join(f"{device.path} {device.major}:{device.minor}" for device in devices)
    return HostFinding(id=check, status="ok", evidence=names)
