"""What a Slurm job sees of its GPUs; this text is run inside the job, so it imports the standard library only.

A real GPU is told by CUDA itself, which heeds CUDA_VISIBLE_DEVICES; a simulated one by the simulated NVML's order.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import Any

Facts = dict[str, Any]
UUID_BYTES = 16
UUID_PARTS = (8, 4, 4, 4, 12)
STEP_S = 5.0
# What the node's GPUs answer to somebody who asked Slurm for none
OPEN = """
import errno, glob, json, os
def ask(path):
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return "ok"
print(json.dumps({path: ask(path) for path in sorted(glob.glob("/dev/nvidia[0-9]*"))}))
"""
STEP = ("srun", "--overlap", "--gres=none", "--quiet", "-n1", "-N1", sys.executable, "-I", "-c", OPEN)


def see(simulation: Facts | None) -> Facts:
    """The node that the job runs on, what Slurm set, and the UUIDs behind it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    seen: Facts = {"node": os.environ.get("SLURMD_NODENAME", ""), "visible": visible, "uuids": [], "problem": ""}
    try:
        seen["uuids"] = ask_cuda() if simulation is None else ask_simulation(simulation, visible)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here is a fact about the job
        seen["problem"] = f"{type(error).__name__}: {error}"
    seen["unasked"], seen["untried"] = open_unasked()
    return seen


def open_unasked() -> tuple[dict[str, str], str]:
    """What each GPU of the node answers to a step of the job that asks for none; and why none could be asked."""
    try:
        done = subprocess.run(STEP, capture_output=True, text=True, check=False, timeout=STEP_S)  # noqa: S603 - ours
        answers: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {}, f"{type(error).__name__}: {error}"[:200]
    return answers, ""


def ask_simulation(simulation: Facts, visible: str) -> list[str]:
    """UUIDs of the simulated GPUs with these indices or UUIDs; raises NVMLError for one that is not there."""
    import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]

    space: Facts = {"__name__": "gpuprov_simulated_nvml"}
    exec(compile(simulation["source"], "simulate.py", "exec", dont_inherit=True), space)  # noqa: S102 - our own text
    pynvml.nvmlLib = space["SimulatedNvml"](simulation["document"])
    pynvml.nvmlInit()
    by_index, by_uuid = pynvml.nvmlDeviceGetHandleByIndex, pynvml.nvmlDeviceGetHandleByUUID
    handles = [by_index(int(gpu)) if gpu.isdigit() else by_uuid(gpu) for gpu in visible.split(",") if gpu]
    return [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]


def ask_cuda() -> list[str]:
    """UUIDs of the GPUs that CUDA shows to this process.

    Raises:
        OSError: There is no libcuda, or a call of it fails.
    """
    library = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    _call(library, "cuInit", 0)
    _call(library, "cuDeviceGetCount", ctypes.byref(count))
    found = []
    for index in range(count.value):
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * UUID_BYTES)()
        _call(library, "cuDeviceGet", ctypes.byref(device), index)
        _call(library, "cuDeviceGetUuid", raw, device)
        found.append(render_uuid(bytes(raw)))
    return found


def render_uuid(raw: bytes) -> str:
    """As NVML writes it."""
    digits, parts = raw.hex(), []
    for length in UUID_PARTS:
        parts.append(digits[:length])
        digits = digits[length:]
    return "GPU-" + "-".join(parts)


def _call(library: Any, name: str, *arguments: Any) -> None:  # noqa: ANN401 - C functions have no types
    code = getattr(library, name)(*arguments)
    if code:
        raise OSError(f"{name} says {code}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(see(json.loads(sys.argv[1]))) + "\n")
