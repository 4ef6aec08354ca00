"""Turn a record of a host back into what gpuprov looks at: a tree of files, stat() of devices, and NVML's answers.

With it, `gpuprov.gpu.observe.observe(root=tree, read=replay_nvml(record))` sees what it saw on the recorded host.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import UsageError
from gpuprov.gpu.device_nodes import NodeStat
from gpuprov.gpu.lost import LostGpu
from gpuprov.gpu.nvml import LIBRARY_NOT_FOUND, NvmlFailed, read_nvml
from gpuprov.gpu.simulate import SimulatedNvml
from gpuprov.machine.record import MODESET, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.gpu.nvml import NvmlReading

_MOUNT = "1 0 0:1 / /sys/fs/cgroup{} rw - {} none rw\n"
_CGROUPS = {
    "v1": _MOUNT.format("/devices", "cgroup"),
    "v2": _MOUNT.format("", "cgroup2"),
    "hybrid": _MOUNT.format("/devices", "cgroup") + _MOUNT.format("/unified", "cgroup2"),
    "none": "",
}
_SMI = "/usr/bin/nvidia-smi"
_VERSION = "proc/driver/nvidia/version"


def write_tree(record: Mapping[str, Any], root: Path) -> None:
    """Write the recorded files below `root`; libraries are empty files, device nodes are left to replay_devices.

    Raises:
        UsageError: It is no record, or names a file outside of `root`.
    """
    texts = _files(record)
    for path in texts:
        _refuse_outside(path)
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    if record["modeset"]:
        (root / MODESET).mkdir(parents=True, exist_ok=True)
    smi = record["nvidia_smi"]
    # Only a loaded driver's program is looked up behind its links; before that it need only be there.
    if smi not in (None, _SMI) and _VERSION in texts:
        (root / _SMI.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (root / _SMI.lstrip("/")).symlink_to(smi)


def replay_devices(record: Mapping[str, Any]) -> dict[str, NodeStat]:
    """What stat() said of the device nodes, as `gpuprov.gpu.host_device_nodes.stat_nodes` tells it."""
    return {
        path: NodeStat(kind="char" if seen["kind"] == "char" else "other", major=seen["major"], minor=seen["minor"])
        for path, seen in record["devices"].items()
    }


def replay_nvml(record: Mapping[str, Any]) -> Callable[[], NvmlReading]:
    """A function that answers as NVML did, or fails as it did."""
    nvml = record["nvml"]

    def read() -> NvmlReading:
        if nvml is None:
            raise NvmlFailed(code=LIBRARY_NOT_FOUND, call="nvmlInit", text="the recorded host had no NVML")
        if "error" in nvml:
            raise NvmlFailed(**nvml["error"])
        reading = read_nvml(SimulatedNvml({key: value for key, value in nvml.items() if key != "lost"}))
        gpus = tuple(replace(gpu, index=told["index"]) for gpu, told in zip(reading.gpus, nvml["gpus"], strict=True))
        return replace(reading, gpus=gpus, lost=tuple(LostGpu(**gpu) for gpu in nvml.get("lost", ())))

    return read


def _files(record: Mapping[str, Any]) -> dict[str, str]:
    """Path below the root to text, of everything that the record says."""
    schema = record.get("schema")
    if schema != SCHEMA:
        evidence = f"its schema is {schema!r}, not {SCHEMA}"
        raise UsageError("this is no record of a host", evidence=evidence, fix="gpuprov record > tree.json")
    try:
        texts = {
            **record["files"],
            **{path.lstrip("/"): "" for path in record["libraries"]},
            "proc/self/mountinfo": _CGROUPS[record["cgroup"]],
        }
        if record["kernel"] is not None:
            texts["proc/sys/kernel/osrelease"] = f"{record['kernel']}\n"
        if record["nvidia_smi"] is not None:
            place = record["nvidia_smi"] if _VERSION in texts else _SMI
            texts[place.lstrip("/")] = ""
        if isinstance(record["modeset"], bool) and all(isinstance(text, str) for text in texts.values()):
            return texts
    except (KeyError, TypeError, AttributeError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from error
    raise _damaged("a file's text is no text, or modeset is neither true nor false")


def _damaged(evidence: str) -> UsageError:
    return UsageError("the record is damaged", evidence=evidence, fix="gpuprov record > tree.json")


def _refuse_outside(path: str) -> None:
    """A record from elsewhere must not write elsewhere."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        evidence = "a file outside of the tree"
        raise UsageError(f"the record names {path!r}", evidence=evidence, fix="gpuprov record > tree.json")
