"""What gpuprov records in labels and in its cache, for runs that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gpuprov.shapes.base import Shape
from gpuprov.shapes.node import Exposure

# `stopped`: the service that has it may have been stopped; `kept`: what it knows is in a file of this host
QueueFate = Literal["none", "stopped", "kept"]


class RecipeRecord(Shape, frozen=True, kw_only=True):
    """The parts of a recipe that people know by name.

    Attributes:
        fingerprint: Of the whole recipe.
        python: Python packages, as pip writes them.
        roles: The user's own roles, each with the hash of its content.
    """

    fingerprint: str
    base: str
    packages: tuple[str, ...]
    python: tuple[str, ...]
    roles: Mapping[str, str]


class SecurityIndex(Shape, frozen=True, kw_only=True):
    """What was published for a suite.

    Attributes:
        fetched: When, in seconds since the epoch.
        versions: The newest version of each package, by name.
    """

    fetched: float
    versions: Mapping[str, str]


class Replacement(Shape, frozen=True, kw_only=True):
    """A node that is being replaced.

    Attributes:
        id: The engine's own name for the old one.
        labels: Those of its labels by which the new one is designed.
        host: Name of the host that it is on.
        exposed: Its exposed ports.
        queue: What became of the queue that it has.
        keeper: The user whose files have the queue.
    """

    name: str
    id: str
    labels: Mapping[str, str]
    host: str = ""
    exposed: tuple[Exposure, ...] = ()
    queue: QueueFate = "none"
    keeper: str = ""
