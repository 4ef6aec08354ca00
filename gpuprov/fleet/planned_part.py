"""What a host would change for its part of a cluster, as it answers to `plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.link.answers import read_answer, strictly
from gpuprov.shapes.members import PlannedHost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.shapes.base import Told
    from gpuprov.shapes.whole import Member


@dataclass(frozen=True, kw_only=True)
class PlannedPart:
    """A host's answer to `plan`.

    Attributes:
        lines: One for each change.
        mine: Its nodes as they would be.
        secret: What they share now; empty where there is none.
        kept: One line for each node that stays though the spec does not have it.
        older: One line for nodes with an older image that lacks the same.
        unlimited: A line for nodes that stay without limits of processes and memory.
    """

    lines: tuple[str, ...]
    mine: tuple[Member, ...]
    secret: bytes = field(repr=False)
    kept: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    unlimited: tuple[str, ...] = ()


def read_planned_part(told: Told, host: str, homes: Mapping[str, str]) -> PlannedPart:
    """The answer of a host.

    Args:
        told: As it came.
        homes: The host on which each node is, or is to be.

    Raises:
        GpuprovError: It is none, or it plans a node of another host.
    """
    read = read_answer(PlannedHost, told, host)
    mine = read.whole.on(host)
    strictly(lambda: _refuse_others(mine, host, homes), host)
    return PlannedPart(
        lines=read.plan,
        mine=mine,
        secret=read.secret,
        kept=read.kept,
        older=read.older,
        unlimited=read.unlimited,
    )


def _refuse_others(mine: Iterable[Member], host: str, homes: Mapping[str, str]) -> None:
    for member in mine:
        if homes.get(member.name, host) != host:
            raise ValueError(f"it plans {member.name}, which is on {homes[member.name]}")
