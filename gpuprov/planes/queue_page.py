"""The page on which the queue of a cluster shows itself to a browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROGRAM: Final = ("python3", "-m", "gpuwork.relay")


@dataclass(frozen=True, kw_only=True)
class QueuePage:
    """A page that a node shows to itself alone.

    Attributes:
        node: Its name.
        port: Of 127.0.0.1 in the node.
        user: Who is let in.
        password: By this password.
        fix: What to type where the page does not answer.
    """

    node: str
    port: int
    user: str
    password: str
    fix: str

    @property
    def relay_argv(self) -> list[str]:
        """The command in the node that ties its stdin and stdout to the page."""
        return [*PROGRAM, str(self.port)]
