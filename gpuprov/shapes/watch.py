"""`verify --watch`: what has changed since the round before."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.verify import CheckId, CheckStatus
from gpuprov.shapes.words import Moment

SeenVerdict = Literal["pass", "warn", "fail", "unknown", "absent", "ok", "error"]


class Problem(Shape, frozen=True, kw_only=True):
    """A check that is a problem."""

    id: CheckId
    status: CheckStatus
    evidence: str
    fix: str | None


class Change(Shape, frozen=True, kw_only=True):
    """What is other than in the round before with one node, or with the host.

    Attributes:
        node: Its name, or `host`; null for the cluster as a whole.
        before: Verdict in the round before, `absent` where the node was not there; of the cluster `ok` or `error`.
        after: The same for this round.
        simulated: Whether this says nothing about any real GPU.
        problems: Checks that are a problem now, and were none or another one before.
        well: Ids of checks that were a problem and pass now.
        error: Why the cluster could not be looked at.
    """

    node: str | None
    before: SeenVerdict
    after: SeenVerdict
    simulated: bool = False
    problems: tuple[Problem, ...] = ()
    well: tuple[CheckId, ...] = ()
    error: str | None = None


class Watch(Document, frozen=True, kw_only=True, tag="gpuprov.watch/v1"):
    """A line of `gpuprov verify --watch --json`: what has changed since the round before.

    Attributes:
        host: Name of the host.
        at: When it was looked at, in UTC.
    """

    at: Moment
    host: str
    changes: Annotated[tuple[Change, ...], Meta(min_length=1)]
