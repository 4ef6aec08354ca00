"""The lines of the member protocol: what the gpuprov of two hosts say to each other."""

from __future__ import annotations

from msgspec import Raw

from gpuprov.shapes.base import Shape


class Line(Shape, frozen=True, kw_only=True, tag_field="kind"):
    """One of them."""

    @property
    def kind(self) -> str:
        """Its name."""
        return str(self.__struct_config__.tag)


class Hello(Line, frozen=True, kw_only=True, tag="hello"):
    """The first word of a member."""

    protocol: int
    version: str
    host: str


class Request(Line, frozen=True, kw_only=True, tag="request"):
    """What is asked of it.

    Attributes:
        host: How the one who asks names this host.
        document: The order of that verb.
    """

    verb: str
    host: str
    document: Raw


class Beat(Line, frozen=True, kw_only=True, tag="beat"):
    """A sign of life."""


class PhaseSaid(Line, frozen=True, kw_only=True, tag="phase"):
    """A phase begins or ends."""

    name: str
    state: str


class NodeSaid(Line, frozen=True, kw_only=True, tag="node"):
    """What becomes of a node."""

    name: str
    state: str


class NoteSaid(Line, frozen=True, kw_only=True, tag="note"):
    """A note for whoever typed the command."""

    text: str


class WarnSaid(Line, frozen=True, kw_only=True, tag="warn"):
    """A warning for them."""

    text: str


class Result(Line, frozen=True, kw_only=True, tag="result"):
    """The last word."""

    document: Raw


class Failure(Line, frozen=True, kw_only=True, tag="error"):
    """The last word, where there is no result."""

    what: str
    evidence: str
    fix: str
    exit_code: int


AnyLine = Hello | Request | Beat | PhaseSaid | NodeSaid | NoteSaid | WarnSaid | Result | Failure
