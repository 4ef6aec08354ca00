"""What is handed into a node from the host: character devices and mounts, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CharDevice:
    """A character device in a node."""

    path: str
    major: int
    minor: int
    mode: int = 0o666


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A file or folder of the host that appears in the node at `target`."""

    source: str
    target: str
    read_only: bool = True
