"""Judge what the host shows of its GPUs. Pure functions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.libraries import plan_library_mounts
from gpuprov.gpu.nodes import CTL_MINOR, NVIDIA_MAJOR
from gpuprov.workflows.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.gpu.models import DriverFiles, HostGpus
    from gpuprov.workflows.host_facts import HostFacts

MAKE_UVM = "sudo nvidia-modprobe -u -c0"


def judge_gpus(facts: HostFacts) -> Iterator[Finding]:
    """Driver, device nodes, uvm and libraries; without a driver only that GPUs will be simulated."""
    if facts.gpu_error is not None:
        evidence = f"{facts.gpu_error.what}: {facts.gpu_error.evidence}"
        yield Finding(id="nvidia-driver", status="fail", evidence=evidence, fix=facts.gpu_error.fix)
    if facts.gpus is None:
        return
    if facts.gpus.simulated:
        yield _judge_simulated(facts.gpus, facts.gpu_cards)
        return
    models = ", ".join(f"{count} x {model}" for model, count in Counter(gpu.model for gpu in facts.gpus.gpus).items())
    yield Finding(id="nvidia-driver", status="ok", evidence=f"driver {facts.gpus.driver_version}: {models}")
    yield judge_devices(facts.gpus, facts.gpu_devices)
    if facts.gpus.driver is not None:
        yield judge_uvm(facts.gpus.driver.uvm_major, facts.gpu_devices)
        yield judge_libraries(facts.gpus.driver)


def judge_devices(gpus: HostGpus, devices: Mapping[str, tuple[int, int]]) -> Finding:
    """Each GPU's device node, and the control node."""
    wanted = {f"/dev/nvidia{gpu.minor}": (NVIDIA_MAJOR, gpu.minor) for gpu in gpus.gpus}
    wanted["/dev/nvidiactl"] = (NVIDIA_MAJOR, CTL_MINOR)
    wrong = [
        f"{path} is {'missing' if path not in devices else '{}:{}'.format(*devices[path])}, not {major}:{minor}"
        for path, (major, minor) in wanted.items()
        if devices.get(path) != (major, minor)
    ]
    if wrong:
        options = " ".join(f"-c {gpu.minor}" for gpu in gpus.gpus)
        return Finding(
            id="gpu-devices", status="fail", evidence="; ".join(wrong), fix=f"sudo nvidia-modprobe {options}"
        )
    return Finding(id="gpu-devices", status="ok", evidence=", ".join(wanted))


def judge_uvm(major: int | None, devices: Mapping[str, tuple[int, int]]) -> Finding:
    """Without uvm CUDA fails with error 999 while nvidia-smi works; its major changes from boot to boot."""
    found = devices.get("/dev/nvidia-uvm")
    if major is None:
        return Finding(id="uvm", status="fail", evidence="the module nvidia-uvm is not loaded", fix=MAKE_UVM)
    if found is None:
        return Finding(id="uvm", status="fail", evidence="/dev/nvidia-uvm is missing", fix=MAKE_UVM)
    if found != (major, 0):
        evidence = f"/dev/nvidia-uvm is {found[0]}:{found[1]}, of an earlier boot; now it must be {major}:0"
        return Finding(id="uvm", status="fail", evidence=evidence, fix=f"sudo rm /dev/nvidia-uvm* && {MAKE_UVM}")
    return Finding(id="uvm", status="ok", evidence=f"/dev/nvidia-uvm {major}:0")


def judge_libraries(driver: DriverFiles) -> Finding:
    """The libraries that are mounted into nodes exist in the kernel module's version."""
    try:
        plan_library_mounts(driver)
    except HostNotReady as error:
        return Finding(id="libraries", status="fail", evidence=f"{error.what}: {error.evidence}", fix=error.fix)
    return Finding(id="libraries", status="ok", evidence=f"the driver's libraries are of version {driver.version}")


def _judge_simulated(gpus: HostGpus, cards: tuple[str, ...]) -> Finding:
    evidence = f"GPUs will be SIMULATED: {gpus.reason}"
    if cards:
        fix = "install the NVIDIA driver, then check with nvidia-smi"
        return Finding(id="nvidia-driver", status="warn", evidence=evidence, fix=fix)
    return Finding(id="nvidia-driver", status="info", evidence=evidence)
