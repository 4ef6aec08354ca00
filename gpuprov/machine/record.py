"""`record`: the facts of a host from which its GPUs are told, as one document that a test or a bug report can replay.

Nothing in it says whose machine it is: no host name, no serial number, no network address. The UUIDs and PCI addresses
of GPUs are in it, for leases and devices are told by them. A hole in the numbers of MIG instances is closed up.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov import __version__
from gpuprov.gpu.document import gpu_document
from gpuprov.gpu.driver_files import find_nvidia_cards
from gpuprov.gpu.information import read_information
from gpuprov.gpu.libraries import find_libraries, find_nvidia_smi
from gpuprov.gpu.nvml import LIBRARY_NOT_FOUND, NvmlFailed, read_nvml_in_time
from gpuprov.machine.facts import parse_cgroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.gpu.lost import LostGpu
    from gpuprov.gpu.models import Gpu, MigInstance
    from gpuprov.gpu.nvml import NvmlReading

SCHEMA = "gpuprov.record/v1"
MODESET = "sys/module/nvidia_modeset"
_FILES = (
    "proc/devices",
    "proc/driver/nvidia/version",
    "proc/driver/nvidia-caps/mig-minors",
)
_DEVICES = ("dev/nvidia*", "dev/nvidia-caps/*")
_BUILDER = re.compile(r"\([^()\s]*@[^()\s]*\)")  # who built the module, and on which machine
_KINDS = {stat.S_IFCHR: "char", stat.S_IFBLK: "block", stat.S_IFREG: "file", stat.S_IFDIR: "folder"}


def take_record(root: Path, *, read: Callable[[], NvmlReading] = read_nvml_in_time) -> dict[str, Any]:
    """Look at a host; changes nothing, and what cannot be read is left out.

    Args:
        root: Where /proc, /sys, /dev and /usr are looked up.
    """
    return {
        "schema": SCHEMA,
        "gpuprov": __version__,
        "kernel": (_text(root / "proc/sys/kernel/osrelease") or "").strip() or None,
        "cgroup": parse_cgroup(_text(root / "proc/self/mountinfo") or ""),
        "files": dict(_read_files(root)),
        "modeset": (root / MODESET).is_dir(),
        "libraries": list(find_libraries(root)),
        "nvidia_smi": find_nvidia_smi(root),
        "devices": dict(_stat_devices(root)),
        "nvml": _ask(read),
    }


def _read_files(root: Path) -> Iterator[tuple[str, str]]:
    """Path below the root and text of each file that tells of GPUs."""
    for name, told in read_information(root).texts.items():
        yield str(Path(name).relative_to(root)), told
    cards = [f"sys/bus/pci/devices/{card}/{name}" for card in find_nvidia_cards(root) for name in ("vendor", "class")]
    for pattern in (*_FILES, *cards):
        for path in sorted(root.glob(pattern)):
            text = _text(path)
            if text is not None:
                yield str(path.relative_to(root)), _BUILDER.sub("(builder)", text)


def _stat_devices(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for pattern in _DEVICES:
        for path in sorted(root.glob(pattern)):
            try:
                status = path.stat()
            except OSError:
                continue
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
            if kind == "folder":
                continue
            numbers = {"major": os.major(status.st_rdev), "minor": os.minor(status.st_rdev)}
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            yield f"/{path.relative_to(root)}", {"kind": kind, **numbers, "mode": mode}


def _ask(read: Callable[[], NvmlReading]) -> dict[str, Any] | None:
    """What NVML answers, as a document of SimulatedNvml; its error; None where there is no such library."""
    try:
        reading = read()
    except NvmlFailed as failure:
        if failure.code == LIBRARY_NOT_FOUND:
            return None
        return {"error": {"code": failure.code, "call": failure.call, "text": failure.text}}
    return {
        "driver_version": reading.driver_version,
        "cuda_driver_version": reading.cuda_driver_version,
        "gpus": [_gpu(gpu) for gpu in reading.gpus],
        **({"lost": [_lost(gpu) for gpu in reading.lost]} if reading.lost else {}),
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    told = gpu_document(gpu.uuid, gpu)
    known = {key: told[key] for key in ("uuid", "index", "minor", "pci", "model")}
    if gpu.memory_bytes is not None:
        known["memory_bytes"] = gpu.memory_bytes
    if gpu.compute_capability is not None:
        known["compute_capability"] = list(gpu.compute_capability)
    return {**known, **_mig(gpu)}


def _lost(gpu: LostGpu) -> dict[str, Any]:
    return {"index": gpu.index, "pci": gpu.pci, "code": gpu.code, "why": gpu.why}


def _mig(gpu: Gpu) -> dict[str, Any]:
    return {"mig": [_instance(part) for part in gpu.mig]} if gpu.mig_enabled else {}


def _instance(part: MigInstance) -> dict[str, Any]:
    ids = {"gpu_instance": part.gpu_instance, "compute_instance": part.compute_instance}
    return {"uuid": part.uuid, **ids, "memory_bytes": part.memory_bytes or 0}


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
