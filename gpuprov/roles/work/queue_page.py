"""A page that a node shows to a browser: that of a cluster's queue, or of a run of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROGRAM: Final = ("python3", "-I", "-m", "gpuwork.relay")


@dataclass(frozen=True, kw_only=True)
class NodePage:
    """A page that a node shows to itself alone.

    Attributes:
        node: Its name.
        port: Of 127.0.0.1 in the node.
        fix: What to type where the page does not answer.
    """

    node: str
    port: int
    fix: str

    @property
    def relay_argv(self) -> list[str]:
        """The command in the node that ties its stdin and stdout to the page."""
        return [*PROGRAM, str(self.port)]


@dataclass(frozen=True, kw_only=True)
class QueuePage(NodePage):
    """The page of a queue, which asks who wants to see it.

    Attributes:
        user: Who is let in.
        password: By this password.
    """

    user: str
    password: str
