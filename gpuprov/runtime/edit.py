"""A container's config.json with the GPUs in it: pure functions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.runtime.request import is_gpu_hook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.gpu.device_numbers import DeviceNumbers
    from gpuprov.runtime.request import Spec

LEASE: Final = "gpuprov.lease"  # the annotation, which runc keeps in its state
POLICY: Final = "gpuprov.policy"  # the annotation of what a policy touches
CLOSED_MOUNT: Final = ("bind", "ro", "nosuid", "nodev", "rprivate")
OPEN_MOUNT: Final = ("rbind", "rw", "nosuid", "nodev", "rprivate")  # of a policy's that can be written to


@dataclass(frozen=True, kw_only=True)
class Additions:
    """What a container gets.

    Attributes:
        files: Paths in it to files of the host.
        environment: Variables; they replace those of the same name.
        lease: What the annotation says.
    """

    devices: tuple[DeviceNumbers, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    lease: Mapping[str, Any] = field(default_factory=dict)


def add_gpus(spec: Spec, additions: Additions) -> Spec:
    """The same with devices, their rules, mounts, variables and the annotation, and without NVIDIA's hook.

    GPUs of an earlier `create` of the bundle are taken back first.
    """
    edited = take_back(spec, LEASE)
    linux = edited.setdefault("linux", {})
    paths = {device.path for device in additions.devices}
    linux["devices"] = [
        *(one for one in linux.get("devices") or [] if one.get("path") not in paths),
        *map(_device, additions.devices),
    ]
    resources = linux.setdefault("resources", {})
    resources["devices"] = [*(resources.get("devices") or []), *map(_rule, additions.devices)]
    edited["mounts"] = [
        *(edited.get("mounts") or []),
        *(_mount(source, target) for target, source in additions.files.items()),
    ]
    process = edited.setdefault("process", {})
    names = {f"{name}=" for name in additions.environment}
    process["env"] = [
        *(line for line in process.get("env") or [] if not any(str(line).startswith(name) for name in names)),
        *(f"{name}={value}" for name, value in additions.environment.items()),
    ]
    hooks = edited.get("hooks") or {}
    if hooks.get("prestart"):
        hooks["prestart"] = [hook for hook in hooks["prestart"] if not is_gpu_hook(hook)]
    note = {
        **additions.lease,
        "devices": [asdict(device) for device in additions.devices],
        "files": list(additions.files),
    }
    edited["annotations"] = {**(edited.get("annotations") or {}), LEASE: json.dumps(note)}
    return edited


def take_back(spec: Spec, *names: str) -> Spec:
    """A copy without what an earlier `create` of the same bundle added.

    Args:
        names: Of the annotations that tell of it; all without any.
    """
    plain: Spec = json.loads(json.dumps(spec))  # a copy in a tenth of deepcopy's time and memory
    annotations = plain.get("annotations") or {}
    notes = [annotations.pop(name, None) or "{}" for name in names or (LEASE, POLICY)]
    try:
        told = [json.loads(note) for note in notes]
        devices = [(one["path"], one["major"], one["minor"]) for note in told for one in note.get("devices", [])]
        files = {file for note in told for file in note.get("files", [])}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return plain
    linux = plain.get("linux") or {}
    added = [one for one in devices if str(one[0]).startswith("/dev/nvidia")]
    if added:
        paths, rules = {path for path, *_ in added}, [("c", major, minor, "rw") for _, major, minor in added]
        linux["devices"] = [one for one in linux.get("devices") or [] if one.get("path") not in paths]
        resources = linux.get("resources") or {}
        resources["devices"] = [one for one in resources.get("devices") or [] if _key(one) not in rules]
    if files:
        plain["mounts"] = [
            one
            for one in plain.get("mounts") or []
            if one.get("destination") not in files or one.get("options") not in (list(CLOSED_MOUNT), list(OPEN_MOUNT))
        ]
    return plain


def own_files(spec: Spec, files: Mapping[str, str]) -> dict[str, str]:
    """The files that the container does not bring itself.

    Raises:
        HostNotReady: A folder that it mounts lies over their place: they would be made in that folder, on the host.
    """
    targets = [str(one.get("destination", "")).rstrip("/") for one in take_back(spec, LEASE).get("mounts") or []]
    covered = sorted({one for one in targets if one and any(file.startswith(f"{one}/") for file in files)})
    if covered:
        raise HostNotReady(
            f"the container mounts {covered[0]}, where files of the host have to be",
            evidence=f"such as {next(file for file in files if file.startswith(f'{covered[0]}/'))}",
            fix="mount it at another place; the driver's files need not be mounted",
        )
    return {target: source for target, source in files.items() if target not in targets}


def _device(device: DeviceNumbers) -> dict[str, Any]:
    return {
        "path": device.path,
        "type": "c",
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode,
        "uid": 0,
        "gid": 0,
    }


def _rule(device: DeviceNumbers) -> dict[str, Any]:
    return {"allow": True, "type": "c", "major": device.major, "minor": device.minor, "access": "rw"}


def _key(rule: Mapping[str, Any]) -> tuple[Any, ...]:
    return rule.get("type"), rule.get("major"), rule.get("minor"), rule.get("access")


def _mount(source: str, target: str) -> dict[str, Any]:
    return {"destination": target, "type": "bind", "source": source, "options": list(CLOSED_MOUNT)}
