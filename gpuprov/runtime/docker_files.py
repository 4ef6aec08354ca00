"""Docker's containers by its own files: a dockerd that starts begins those of `--restart` before it answers anybody.

Labels that were changed are not in them, but only nodes have such, so the files suffice where there is no node.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gpuprov.runtime.engines import CLUSTER, PROJECT, Told

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES: Final = 8_000_000  # of one container


def read_files(data_root: Path) -> Told | None:
    """What Docker would answer; None where one of its containers may be a node, or the files cannot be read."""
    names: dict[str, str] = {}
    projects: dict[str, str] = {}
    try:
        for folder in (data_root / "containers").iterdir():
            said = _read(folder / "config.v2.json")
            labels = said["Config"].get("Labels") or {}
            if labels.get(CLUSTER):
                return None
            names[folder.name] = str(said["Name"]).lstrip("/")
            if labels.get(PROJECT):
                projects[folder.name] = str(labels[PROJECT])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return Told(names=names, projects=projects)


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than {_MOST_BYTES} bytes")
    said: dict[str, Any] = json.loads(content)
    return said
