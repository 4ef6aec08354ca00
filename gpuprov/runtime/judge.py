"""What a policy refuses of a container, read from its config.json: pure functions."""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import few

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gpuprov.runtime.request import Spec
    from gpuprov.runtime.rules import Refusals

DEFAULT_CAPABILITIES: Final = frozenset(
    {
        *("CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD"),
        *("CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"),
        "CAP_SYS_CHROOT",
    }
)
_KINDS: Final = {"net": "network"}  # where OCI has another word
# Of memory and terminals, which each container has: null, zero, full, random, urandom, tty, console, ptmx, pts
_PLAIN: Final = frozenset(
    {*(("c", 1, minor) for minor in (3, 5, 7, 8, 9)), *(("c", 5, minor) for minor in (0, 1, 2)), ("c", 136, None)}
)
_VIRTUAL: Final = frozenset({"cgroup", "cgroup2", "devpts", "mqueue", "proc", "sysfs", "tmpfs"})
_BINDS: Final = frozenset({"bind", "rbind"})
_SHOWN: Final = 5
_SHARED_MEMORY: Final = re.compile(r"/containers/[0-9a-f]{64}/mounts/shm")
_VOLUME: Final = re.compile(r"/volumes/[^/]+/_data(?=/|\Z)")
_INIT: Final = "docker-init"


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a policy does to a container.

    Attributes:
        rule: Its key in the policy, such as `refuse.devices`.
        what: In words.
        refused: Whether the container is not started for it.
    """

    rule: str
    what: str
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What config.json does not say.

    Attributes:
        container: Its id.
        data_root: Docker's folder for volumes and for files of containers.
        real: Paths of the host to where they lead.
        mounted: Places on which something is mounted.
        host_namespaces: Paths that lead to namespaces of the host.
    """

    container: str
    data_root: str = ""
    real: Mapping[str, str] = field(default_factory=dict)
    mounted: frozenset[str] = frozenset()
    host_namespaces: frozenset[str] = frozenset()


def judge(spec: Spec, refuse: Refusals, around: Surroundings) -> tuple[Step, ...]:
    """What stands in the way of a start."""
    linux = spec.get("linux") or {}
    found: list[tuple[str, list[str]]] = []
    if refuse.privileged:
        found.append(("privileged", [*_privileges(linux)]))
    if refuse.namespaces:
        found.append(("namespaces", [*_host_namespaces(linux, refuse.namespaces, around)]))
    if refuse.mounts_outside is not None:
        found.append(("mounts_outside", [*_foreign_mounts(spec, refuse.mounts_outside, around)]))
    if refuse.devices:
        found.append(("devices", [*_devices(linux)]))
    if refuse.capabilities:
        found.append(("capabilities", more_capabilities((spec.get("process") or {}).get("capabilities"))))
    return tuple(Step(rule=f"refuse.{rule}", what=_listed(what), refused=True) for rule, what in found if what)


def judge_process(process: Mapping[str, Any], refuse: Refusals, own: object) -> tuple[Step, ...]:
    """What stands in the way of a process that is to enter a container.

    Args:
        process: As an engine tells it, such as of `docker exec --privileged`.
        refuse: What the policy does not allow.
        own: The container's own capabilities, with which it was started.
    """
    more = [name for name in more_capabilities(process.get("capabilities")) if name not in more_capabilities(own)]
    rules = [name for name in ("privileged", "capabilities") if getattr(refuse, name)]
    return tuple(Step(rule=f"refuse.{rule}", what=_listed(more), refused=True) for rule in rules[:1] if more)


def require_allowed(steps: Iterable[Step]) -> None:
    """Go on unless a step is a refusal.

    Raises:
        UsageError: One is.
    """
    refused = [f"{step.rule}: {step.what}" for step in steps if step.refused]
    if refused:
        raise UsageError(
            "the policy of this host refuses it",
            evidence="; ".join(refused),
            fix="leave that out; what the policy says: gpuprov gate status",
        )


def more_capabilities(told: object) -> list[str]:
    """Those that are not Docker's default ones, in whichever set they are."""
    sets = told.values() if isinstance(told, dict) else ()
    names = {str(name).upper() for one in sets for name in (one if isinstance(one, list) else ())}
    return sorted(names - DEFAULT_CAPABILITIES)


def host_sources(spec: Spec) -> Iterator[tuple[str, str, bool]]:
    """Of each mount that brings something of the host: source, target, and whether it is read-only."""
    for one in spec.get("mounts") or []:
        options = {str(option) for option in one.get("options") or []}
        if one.get("type") not in _VIRTUAL or options & _BINDS:
            yield str(one.get("source", "")), str(one.get("destination", "")), "ro" in options


def _privileges(linux: Mapping[str, Any]) -> Iterator[str]:
    if any(_is_any(rule) for rule in _allowed_rules(linux)):
        yield "every device of the host can be opened"
    if not linux.get("maskedPaths"):
        yield "/proc and /sys are open"


def _host_namespaces(linux: Mapping[str, Any], kinds: Iterable[str], around: Surroundings) -> Iterator[str]:
    told = {one.get("type"): str(one.get("path") or "") for one in linux.get("namespaces") or []}
    for kind in kinds:
        path = told.get(_KINDS.get(kind, kind))
        if path is None or path in around.host_namespaces:
            yield kind


def _foreign_mounts(spec: Spec, allowed: Sequence[str], around: Surroundings) -> Iterator[str]:
    folders = [around.real.get(folder, folder) for folder in allowed]
    for source, target, read_only in host_sources(spec):
        real = around.real.get(source, source)
        if any(_is_below(real, folder) for folder in folders) or _is_docker_s(real, target, around):
            continue
        if target == f"/sbin/{_INIT}" and read_only and os.path.basename(real) == _INIT:  # noqa: PTH119 - a text
            continue
        yield f"{real} at {target}" if real == source else f"{source}, which leads to {real}, at {target}"


def _is_docker_s(real: str, target: str, around: Surroundings) -> bool:
    """Whether Docker itself mounts it: a file of this container, or a volume, which is on Docker's own disk."""
    if not around.data_root or not _is_below(real, around.data_root):
        return False
    inner = real.removeprefix(around.data_root.rstrip("/"))
    if around.container and _is_below(inner, f"/containers/{around.container}"):
        return True
    if target == "/dev/shm" and _SHARED_MEMORY.fullmatch(inner):  # noqa: S108 - of another container
        return True
    volume = _VOLUME.match(inner)
    if volume is None:
        return False
    folder = around.data_root.rstrip("/") + volume[0]
    return not any(_is_below(place, folder) for place in around.mounted)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _devices(linux: Mapping[str, Any]) -> Iterator[str]:
    paths = {}
    for one in linux.get("devices") or []:
        key = one.get("type"), one.get("major"), one.get("minor")
        paths[key] = str(one.get("path"))
        if key not in _PLAIN:
            yield paths[key]
    for rule in _allowed_rules(linux):
        key = rule.get("type"), rule.get("major"), rule.get("minor")
        if key not in paths and not {key, (*key[:2], None)} & _PLAIN:
            yield "every device" if _is_any(rule) else f"{key[0]} {_number(key[1])}:{_number(key[2])}"


def _allowed_rules(linux: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rules by which devices can be opened; to make their nodes alone is no harm."""
    for rule in (linux.get("resources") or {}).get("devices") or []:
        if rule.get("allow") and set(str(rule.get("access") or "rwm")) - {"m"}:
            yield {**rule, **{key: None for key in ("major", "minor") if rule.get(key) in (None, -1)}}


def _is_any(rule: Mapping[str, Any]) -> bool:
    return rule.get("type") in (None, "", "a") or rule.get("major") is None


def _number(number: object) -> str:
    return "*" if number is None else str(number)


def _listed(texts: Collection[str]) -> str:
    return few(list(dict.fromkeys(texts)), _SHOWN)
