"""What a container's config.json does not say: where paths of the host lead, and whose its namespaces are."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.runtime.judge import Surroundings, host_sources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.runtime.request import Spec

_NAMESPACES: Final = ("pid", "net", "ipc", "uts", "user", "cgroup")
_PLACE: Final = 4  # the word of mountinfo
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def observe_surroundings(
    spec: Spec, *, container: str, data_root: str, allowed: Iterable[str], bundle: Path, proc: Path = Path("/proc")
) -> Surroundings:
    """Look at what a judgement of the container needs.

    Args:
        spec: Its config.json.
        container: Its id.
        data_root: Docker's own folder; empty where there is none.
        allowed: Folders of the host that may be mounted.
        bundle: The folder of config.json, from which paths without a root count.
    """
    root = os.path.realpath(data_root) if data_root else ""
    sources = {source for source, _, _ in host_sources(spec)}
    namespaces = (str(one.get("path") or "") for one in (spec.get("linux") or {}).get("namespaces") or [])
    return Surroundings(
        container=container,
        data_root=root,
        real={path: os.path.realpath(bundle / path) for path in {*sources, *allowed}},
        mounted=frozenset(read_mount_points(proc)),
        host_namespaces=frozenset(path for path in namespaces if path and _is_of_host(path, proc)),
    )


def read_mount_points(proc: Path = Path("/proc")) -> list[str]:
    """Places of this machine on which something is mounted."""
    lines = (proc / "self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    words = (line.split(" ") for line in lines)
    return [_ESCAPED.sub(lambda match: chr(int(match[1], 8)), line[_PLACE]) for line in words if len(line) > _PLACE]


def _is_of_host(path: str, proc: Path) -> bool:
    """Whether it is a namespace of the machine's first process, or of the engine's."""
    for process in ("1", "self"):
        for name in _NAMESPACES:
            with suppress(OSError):
                if os.path.samefile(path, proc / process / "ns" / name):  # noqa: PTH121 - also of what is no Path
                    return True
    return False
