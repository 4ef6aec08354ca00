"""What dockerd would hand to the runtime for a command line: as much of config.json as requests and policies read."""

from __future__ import annotations

import csv
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.gpu.order import VISIBLE
from gpuprov.runtime.engines import PROJECT
from gpuprov.runtime.judge import DEFAULT_CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.runtime.request import Spec
    from gpuprov.spec.docker_run import DockerRun

ALL: Final = "ALL"  # of capabilities
_HOOK: Final = "/nvidia-container-runtime-hook"
_NAMESPACES: Final = {"pid": "pid", "network": "network", "ipc": "ipc", "uts": "uts", "cgroupns": "cgroup"}
_ANY: Final = {"allow": True, "access": "rwm"}
_RULE: Final = re.compile(r"([abc]) ([0-9]+|\*):([0-9]+|\*) ([rwm]{1,3})", re.ASCII)
_USER: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})", re.ASCII)
_MOST_GPUS: Final = 10_000
_MOST_BYTES: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the command line does not say.

    Attributes:
        data_root: Of the daemon.
        features: What the daemon says of its security.
        image: Variables of the image.
        environment: Of whoever types it.
        folder: In which it is typed.
    """

    data_root: str = ""
    features: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()


@dataclass(frozen=True, kw_only=True)
class Start:
    """What would be started.

    Attributes:
        spec: Its config.json, in part.
        volumes: Names of Docker's volumes in it.
        project: Of compose; empty for none.
        left: What only a start shows.
    """

    spec: Spec
    volumes: tuple[str, ...] = ()
    project: str = ""
    left: tuple[str, ...] = ()


def describe_start(run: DockerRun, known: Known) -> Start:
    """The start of a container by a command line.

    Raises:
        UsageError: Docker would not take it either, or a file that it names cannot be read.
    """
    mounts = [*_volumes(run, known), *_mounts(run, known)]
    if run.last("ipc") == "host":
        mounts.append(_bind("/dev/shm", "/dev/shm"))  # noqa: S108 - as Docker does
    if run.is_set("use-api-socket"):
        mounts.append(_bind("/var/run/docker.sock", "/var/run/docker.sock"))
    variables = _variables(run, known)
    hooks: dict[str, Any] = {}
    if run.last("gpus"):
        variables = {**variables, VISIBLE: visible_of_gpus(run.last("gpus"))}
        hooks = {"prestart": [{"path": _HOOK}]}
    privileged = run.is_set("privileged")
    names = {name for _, name in _named(mounts)}
    left = [f"--volumes-from {name}: the mounts of that container" for name in run.all("volumes-from")]
    left += [
        f"--{option} {value}: whether that container has a namespace of the host"
        for option in _NAMESPACES
        if (value := run.last(option)).startswith("container:")
    ]
    spec = {
        "hostname": run.last("name") or run.last("hostname"),
        "process": {
            "env": [f"{name}={value}" for name, value in variables.items()],
            "user": _user(run.last("user")),
            "capabilities": {"bounding": _capabilities(run)},
        },
        "mounts": [{key: value for key, value in one.items() if key != "name"} for one in mounts],
        "annotations": _annotations(run),
        "hooks": hooks,
        "linux": {
            "namespaces": [{"type": name, "path": path} for name, path in _namespaces(run, known)],
            "devices": [one for text in run.all("device") for one in _device(text)],
            "resources": {"devices": [_ANY] if privileged else [_rule(one) for one in run.all("device-cgroup-rule")]},
            "maskedPaths": [] if privileged or "systempaths=unconfined" in run.all("security-opt") else ["/proc/kcore"],
        },
    }
    return Start(spec=spec, volumes=tuple(sorted(names)), project=_project(run), left=tuple(left))


def volume_folder(data_root: str, name: str) -> str:
    """Where Docker keeps what is in a volume."""
    return f"{data_root}/volumes/{name}/_data"


def _named(mounts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    yield from ((str(one["source"]), str(one["name"])) for one in mounts if "name" in one)


def _bind(source: str, target: str, *, read_only: bool = False, name: str = "") -> dict[str, Any]:
    told = {"destination": target, "type": "bind", "source": source, "options": ["rbind", "ro" if read_only else "rw"]}
    return {**told, "name": name} if name else told


def _volumes(run: DockerRun, known: Known) -> Iterator[dict[str, Any]]:
    for text in run.all("volume"):
        source, colon, rest = text.partition(":")
        if not colon:
            continue  # a volume without a name
        target, _, options = rest.partition(":")
        read_only = "ro" in options.split(",")
        if "/" in source or source in (".", ".."):
            yield _bind(str(known.folder / source), target, read_only=read_only)
        else:
            yield _bind(volume_folder(known.data_root, source), target, read_only=read_only, name=source)


def _mounts(run: DockerRun, known: Known) -> Iterator[dict[str, Any]]:
    for text in run.all("mount"):
        words = next(csv.reader([text]), [])
        told = {key.strip().lower(): value for key, _, value in (word.partition("=") for word in words)}
        kind = told.get("type", "volume")
        source = told.get("source", told.get("src", ""))
        target = told.get("target", told.get("destination", told.get("dst", "")))
        read_only = told.get("readonly", told.get("ro", "false")).lower() in ("", "1", "true")
        opened = [word for word in words if word.startswith("volume-opt=device=")]
        if kind == "bind":
            yield _bind(str(known.folder / source), target, read_only=read_only)
        elif kind == "volume" and opened:
            yield _bind(opened[0].removeprefix("volume-opt=device="), target, read_only=read_only)
        elif kind == "volume" and source:
            yield _bind(volume_folder(known.data_root, source), target, read_only=read_only, name=source)
        elif kind not in ("volume", "tmpfs", "image"):
            raise UsageError(
                f"--mount {excerpt(text)} has a type that gpuprov does not know",
                evidence="known: bind, volume, tmpfs, image",
                fix="--mount type=bind,source=/data,target=/data",
            )


def _variables(run: DockerRun, known: Known) -> dict[str, str]:
    """Those of the image, over which come those of files, and then those of options."""
    found = dict(text.partition("=")[::2] for text in known.image)
    for path in run.all("env-file"):
        lines = (line.lstrip() for line in _text(known.folder / path, "--env-file").splitlines())
        found |= _given([line for line in lines if line and not line.startswith("#")], known)
    return {**found, **_given(run.all("env"), known)}


def _given(texts: Sequence[str], known: Known) -> dict[str, str]:
    """A name alone has the value that it has here; where it has none, there is no such variable."""
    pairs = (text.partition("=") for text in texts)
    told = {name: value if equals else known.environment.get(name) for name, equals, value in pairs}
    return {name: value for name, value in told.items() if value is not None}


def visible_of_gpus(text: str) -> str:
    """What dockerd makes of `--gpus`: a number becomes the first so many; raises UsageError for what is no number."""
    words = next(csv.reader([text.strip("\"'") if text.startswith(("'", '"')) else text]), [])
    told = {key.strip(): value for key, equals, value in (word.partition("=") for word in words) if equals}
    listed = text.strip("\"'").partition("device=")[2]
    if listed:  # the shell may have taken the quotes around it
        return ",".join(word for word in listed.split(",") if "=" not in word)
    count = told.get("count", next((word for word in words if "=" not in word), "all"))
    if count in ("all", "-1"):
        return "all"
    if not count.isascii() or not count.isdecimal() or int(count) > _MOST_GPUS:
        what = f"--gpus {excerpt(text)} is no number of GPUs"
        raise UsageError(what, evidence="allowed: 2, all, device=UUID", fix="--gpus 1")
    return ",".join(map(str, range(int(count))))


def _user(text: str) -> dict[str, int]:
    """None that there is, where the image says which one it is."""
    match = _USER.fullmatch(text)
    return {"uid": int(match[1]), "gid": int(match[2])} if match else {"uid": -1, "gid": -1}


def _capabilities(run: DockerRun) -> list[str]:
    if run.is_set("privileged"):
        return [ALL]
    added, dropped = ([_capability(name) for name in run.all(option)] for option in ("cap-add", "cap-drop"))
    kept = set() if ALL in dropped else DEFAULT_CAPABILITIES - {*dropped}
    return sorted(kept | {*added})


def _capability(name: str) -> str:
    upper = name.upper()
    return upper if upper == ALL or upper.startswith("CAP_") else f"CAP_{upper}"


def _namespaces(run: DockerRun, known: Known) -> Iterator[tuple[str, str]]:
    yield "mount", ""
    for option, name in _NAMESPACES.items():
        value = run.last(option)
        if value == "host" or (option == "cgroupns" and not value and "name=cgroupns" not in known.features):
            continue
        yield name, value if value.startswith("container:") else ""
    if "name=userns" in known.features and run.last("userns") != "host":
        yield "user", ""


def _device(text: str) -> Iterator[dict[str, Any]]:
    """By its numbers on this host, where there is one."""
    path = text.partition(":")[0] if text.startswith("/") else text
    numbers: dict[str, Any] = {"type": "c", "major": None, "minor": None}
    with suppress(OSError, ValueError):
        seen = os.stat(path)  # noqa: PTH116 - also of what is no path
        kind = "b" if stat.S_ISBLK(seen.st_mode) else "c"
        if stat.S_ISBLK(seen.st_mode) or stat.S_ISCHR(seen.st_mode):
            numbers = {"type": kind, "major": os.major(seen.st_rdev), "minor": os.minor(seen.st_rdev)}
    yield {"path": path, **numbers}


def _rule(text: str) -> dict[str, Any]:
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"--device-cgroup-rule {excerpt(text)} is no rule",
            evidence="allowed: a type, numbers and access",
            fix="--device-cgroup-rule 'c 10:200 rw'",
        )
    major, minor = (None if one == "*" else int(one) for one in match.group(2, 3))
    return {"allow": True, "type": match[1], "major": major, "minor": minor, "access": match[4]}


def _annotations(run: DockerRun) -> dict[str, str]:
    return dict(text.partition("=")[::2] for text in run.all("annotation"))


def _project(run: DockerRun) -> str:
    labels = dict(text.partition("=")[::2] for text in run.all("label"))
    return labels.get(PROJECT, "")


def _text(path: Path, option: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES:,} bytes")  # noqa: TRY301
        return content.decode()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{option} {excerpt(str(path))} cannot be read", evidence=str(error), fix=f"ls -l {path}"
        ) from error
