"""The processors and GPUs of this machine, as one JSON document. Run as `python3 -m gpuwork.hardware`.

CUDA's driver is asked in a process of its own: where it hangs, the call cannot be ended.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from gpuwork.hardware_reader import ATTRIBUTES
from gpuwork.program import program_argv
from gpuwork.strict import is_text, parse_strict_json, read_fields, whole
from gpuwork.where import find_where

SCHEMA: Final = "gpuprov.machine-hardware/v1"
CPUINFO: Final = Path("/proc/cpuinfo")
ASK_S: Final = 30.0
_MOST_GPUS: Final = 64
_MOST_SAID: Final = 300
_NO_CPU: Final = "unknown"
_WARP: Final = 32
_GPU: Final = {"uuid": is_text, "name": is_text, "memory_bytes": whole(0, 2**62)} | {
    name: whole(0, 2**31) for name in ATTRIBUTES
}

GpuNumbers = dict[str, Any]


class NoCuda(Exception):
    """CUDA's driver does not answer, and why."""


def main() -> int:
    """Print the document."""
    sys.stdout.write(json.dumps(find_hardware()) + "\n")
    return 0


def find_hardware() -> dict[str, Any]:
    """The document; GPUs that CUDA's driver does not tell have a name and no numbers."""
    where = find_where()
    try:
        gpus, reason = ask_cuda_driver(), None
    except NoCuda as error:
        gpus, reason = [_unknown(uuid) for uuid in where.gpus], str(error)
    return {
        "schema": SCHEMA,
        "version": 1,
        "machine": platform.node(),
        "cpu": read_cpu(CPUINFO.read_text(errors="replace")),
        "gpus": gpus,
        "simulated": where.simulated,
        "reason": reason,
    }


def read_cpu(cpuinfo: str) -> dict[str, Any]:
    """The name and the threads of the processors, as /proc/cpuinfo has them."""
    fields = [line.partition(":") for line in cpuinfo.splitlines()]
    named = {name.strip(): value.strip() for name, _, value in reversed(fields)}
    threads = sum(name.strip() == "processor" for name, _, _ in fields)
    name = named.get("model name") or named.get("Hardware") or named.get("CPU part") or _NO_CPU
    return {"name": name[:200], "threads": threads or os.cpu_count() or 1}


def block_size_hint(largest_block: int, threads: int, blocks: int) -> int:
    """A number of threads for a block that suits most kernels.

    Args:
        largest_block: Threads of the largest block.
        threads: That a multiprocessor can have.
        blocks: That a multiprocessor can have.
    """
    return max(_WARP, int((largest_block + threads / max(1, blocks)) / 2) // _WARP * _WARP)


def ask_cuda_driver(limit_s: float = ASK_S) -> list[GpuNumbers]:
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
        told = parse_strict_json(done.stdout)
        if isinstance(told, dict) and set(told) == {"reason"} and is_text(told["reason"]):
            raise NoCuda(told["reason"][:_MOST_SAID])
        if not isinstance(told, list):
            raise ValueError("no list")  # noqa: TRY301, TRY004
        return [_described(read_fields(one, _GPU)) for one in told[:_MOST_GPUS]]
    except ValueError:
        said = done.stderr.decode(errors="replace").strip()[-_MOST_SAID:]
        raise NoCuda(f"the query ended with status {done.returncode}: {said or 'no output'}") from None


def _described(told: dict[str, Any]) -> GpuNumbers:
    return {
        "uuid": told["uuid"],
        "name": told["name"],
        "memory_bytes": told["memory_bytes"],
        "compute_capability": f"{told['major']}.{told['minor']}",
        "multiprocessors": told["multiprocessors"],
        "clock_khz": told["clock_khz"],
        "threads_of_multiprocessor": told["threads_of_multiprocessor"],
        "blocks_of_multiprocessor": told["blocks_of_multiprocessor"],
        "largest_block": told["largest_block"],
        "block_size_hint": block_size_hint(
            told["largest_block"], told["threads_of_multiprocessor"], told["blocks_of_multiprocessor"]
        ),
    }


def _unknown(uuid: str) -> GpuNumbers:
    numbers = (
        *("name", "memory_bytes", "compute_capability", "multiprocessors", "clock_khz"),
        *("threads_of_multiprocessor", "blocks_of_multiprocessor", "largest_block", "block_size_hint"),
    )
    return {"uuid": uuid, **dict.fromkeys(numbers)}


if __name__ == "__main__":
    sys.exit(main())
