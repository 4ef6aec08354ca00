"""The processors and GPUs of this machine, as one JSON document. Run as `python3 -m gpuwork.hardware`.

CUDA's driver is asked in a process of its own: where it hangs, the call cannot be ended.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

from gpuprov.shapes.base import encode, read
from gpuprov.shapes.hardware import Cpu, CudaDevice, CudaDevices, GpuNumbers, MachineHardware
from gpuwork.program import program_argv
from gpuwork.where import find_where

CPUINFO: Final = Path("/proc/cpuinfo")
ASK_S: Final = 30.0
_MOST_SAID: Final = 300
_NO_CPU: Final = "unknown"


class NoCuda(Exception):
    """CUDA's driver does not answer, and why."""


def main() -> int:
    """Print the document."""
    sys.stdout.write(f"{encode(look_at_hardware()).decode()}\n")
    return 0


def look_at_hardware() -> MachineHardware:
    """What there is; GPUs that CUDA's driver does not tell have a name and no numbers."""
    where = find_where()
    try:
        gpus, reason = tuple(map(_described, ask_cuda_driver())), None
    except NoCuda as error:
        gpus, reason = tuple(GpuNumbers(uuid=uuid) for uuid in where.gpus), str(error)
    return MachineHardware(
        machine=platform.node(),
        cpu=read_cpu(CPUINFO.read_text(errors="replace")),
        gpus=gpus,
        simulated=where.simulated,
        reason=reason,
    )


def read_cpu(cpuinfo: str) -> Cpu:
    """The name and the threads of the processors, as /proc/cpuinfo has them."""
    fields = [line.partition(":") for line in cpuinfo.splitlines()]
    named = {name.strip(): value.strip() for name, _, value in reversed(fields)}
    threads = sum(name.strip() == "processor" for name, _, _ in fields)
    name = named.get("model name") or named.get("Hardware") or named.get("CPU part") or _NO_CPU
    return Cpu(name=name[:200], threads=threads or os.cpu_count() or 1)


def ask_cuda_driver(limit_s: float = ASK_S) -> tuple[CudaDevice, ...]:
    """The GPUs that a program sees, in CUDA's order.

    Raises:
        NoCuda: CUDA's driver is not there, or does not answer.
    """
    argv = program_argv("gpuwork.hardware_reader")
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise NoCuda(f"CUDA's driver did not answer within {limit_s:g} s") from None
    try:
        told = read(CudaDevices, done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip()[-_MOST_SAID:]
        raise NoCuda(f"the query ended with status {done.returncode}: {said or 'no output'}") from None
    if told.reason is not None:
        raise NoCuda(told.reason[:_MOST_SAID])
    return told.gpus


def _described(told: CudaDevice) -> GpuNumbers:
    return GpuNumbers(
        uuid=told.uuid,
        name=told.name,
        memory_bytes=told.memory_bytes,
        compute_capability=f"{told.major}.{told.minor}",
        multiprocessors=told.multiprocessors,
        clock_khz=told.clock_khz,
        threads_of_multiprocessor=told.threads_of_multiprocessor,
        blocks_of_multiprocessor=told.blocks_of_multiprocessor,
        largest_block=told.largest_block,
        block_size_hint=told.block_size_hint,
    )


if __name__ == "__main__":
    sys.exit(main())
