"""Which cores of a host are nearest to a GPU: those of the NUMA node that its slot belongs to.

Cores have the numbers that slurmd gives them: socket by socket, whatever numbers the kernel gives their CPUs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from gpuprov.gpu.models import Gpu

_LIST: Final = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*", re.ASCII)
_CPU: Final = re.compile(r"cpu([0-9]{1,5})", re.ASCII)
_LONGEST: Final = 300
_MOST: Final = 65_536


def is_number_list(text: str) -> bool:
    """Whether it is a list as the kernel and Slurm write it: `0-15,32-47`."""
    return len(text) <= _LONGEST and _LIST.fullmatch(text) is not None


def last_number(numbers: str) -> int:
    """The highest number in a list."""
    return max(int(number) for number in re.findall(r"[0-9]+", numbers))


def with_nearest_cores(gpus: Sequence[Gpu], root: Path) -> tuple[Gpu, ...]:
    """The same GPUs, with what the kernel says of each one's slot."""
    cores, devices = read_cores(root), root / "sys/bus/pci/devices"
    near = [_read_list(devices / gpu.pci / "local_cpulist") for gpu in gpus]
    return tuple(
        replace(gpu, cores=_write_list({cores[cpu] for cpu in cpus if cpu in cores}))
        for gpu, cpus in zip(gpus, near, strict=True)
    )


def spread_over_cores(gpus: Sequence[Gpu], root: Path, *, sockets: int) -> tuple[Gpu, ...]:
    """Simulated GPUs, spread evenly over the cores of this host as if it had so many sockets."""
    number = len(set(read_cores(root).values())) if sockets > 1 else 0
    if number < sockets:
        return tuple(gpus)
    starts = [socket * number // sockets for socket in range(sockets + 1)]
    lists = [_write_list(range(start, end)) for start, end in pairwise(starts)]
    return tuple(replace(gpu, cores=lists[place * sockets // len(gpus)]) for place, gpu in enumerate(gpus))


def read_cores(root: Path) -> Mapping[int, int]:
    """The number of the core that each CPU is part of; empty where the kernel does not say it of all."""
    found: dict[int, tuple[int, int]] = {}
    try:
        for folder in (root / "sys/devices/system/cpu").iterdir():
            name = _CPU.fullmatch(folder.name)
            if name and (folder / "topology").is_dir():  # one that is offline has none
                siblings = _read_list(folder / "topology/thread_siblings_list")
                socket = (folder / "topology/physical_package_id").read_text(encoding="ascii")
                found[int(name[1])] = int(socket), min(siblings)
    except (OSError, ValueError):
        return {}
    order = {core: number for number, core in enumerate(sorted(set(found.values())))}
    return {cpu: order[core] for cpu, core in found.items()}


def _read_list(path: Path) -> set[int]:
    """Empty where it is no list, or is not there."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return set()
    if not is_number_list(text) or last_number(text) > _MOST:
        return set()
    ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return {number for one in ends for number in range(one[0], one[-1] + 1)}


def _write_list(numbers: Iterable[int]) -> str:
    """As Slurm reads it."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
