"""How Ansible reaches a node: through the engine, by an entry point that the caller names.

`provision` does not know the drivers, and the connection plugin runs in a process of its own. So the workflow
hands over the name of a function (`module:function`) in an environment variable; the plugin opens it there.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from gpuprov.core.activity import WORK_LINE, parse_work
from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.activity import Activities

ENTRY_VARIABLE = "GPUPROV_OPEN_TRANSPORT"
OWNER_VARIABLE = "GPUPROV_PROCESS"  # the process that runs the play


class Transport(Protocol):
    """What the connection plugin needs of an engine."""

    def run(self, node: str, argv: list[str], environment: Mapping[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
        """Run a command as root in a running node; exit status, standard output, standard error."""

    def look(self, node: str, argv: list[str]) -> str:
        """What a short command prints that changes nothing."""

    def put(self, node: str, path: str, content: bytes) -> None:
        """Write a file that only root of the node may read."""

    def get(self, node: str, path: str) -> bytes:
        """Read a file of the node."""

    def close(self) -> None:
        """Let go of what is kept for the next question, of which there may be more."""


class OpenTransport(Protocol):
    """What the entry point names."""

    def __call__(self, engine: str) -> Transport:
        """Reach the nodes of this engine."""


def owner_lives(pid: str) -> bool:
    """Whether the process that started a play still runs.

    Ansible goes on when that one is killed, and the next build's node may have the name of the last one's.
    """
    return Path("/proc", pid).is_dir()


def load_entry(entry: str) -> OpenTransport:
    """Import `module:function`.

    Raises:
        UsageError: It is not of that form, or there is no such function.
    """
    module, _, function = entry.partition(":")
    try:
        return cast("OpenTransport", getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"{ENTRY_VARIABLE} does not describe a connection to nodes",
            evidence=f"{entry!r}: {error}",
            fix=f"unset {ENTRY_VARIABLE}  # gpuprov sets it for its own plays",
        ) from error


def look_into(entry: str, node: str, engine: str) -> Activities:
    """What the processes of a node do."""
    return parse_work(load_entry(entry)(engine).look(node, ["sh", "-c", WORK_LINE]))
