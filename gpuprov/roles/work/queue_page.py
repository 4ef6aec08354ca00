"""A page that a node shows to a browser: that of a cluster's queue, or of a run of a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

PROGRAM: Final = ("python3", "-I", "-m", "gpuwork.relay")


@dataclass(frozen=True, kw_only=True)
class NodeService(ABC):
    """What a node serves, and this host can lead a port to.

    Attributes:
        node: Its name.
        fix: What to type where it does not answer.
        title: What people call it.
    """

    node: str
    fix: str
    title: ClassVar[str] = "page"

    @property
    @abstractmethod
    def relay_argv(self) -> list[str]:
        """The command in the node that ties its stdin and stdout to the service."""


@dataclass(frozen=True, kw_only=True)
class NodePage(NodeService):
    """A page that a node shows to itself alone.

    Attributes:
        port: Of 127.0.0.1 in the node.
    """

    port: int

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
