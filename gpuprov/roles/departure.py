"""Nodes whose processes are about to end, and the work that ends with them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuprov.core.printable import printable


@dataclass(frozen=True, kw_only=True)
class Departure:
    """Nodes of a cluster whose processes are about to end.

    Attributes:
        nodes: All of them, of whatever role.
        lost: Those of them whose disk goes as well, or becomes an older one.
    """

    nodes: tuple[str, ...]
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    """Somebody's work that ends with nodes.

    Attributes:
        id: As the role's own commands take it.
        user: Whose it is; `?` if unknown.
        name: What its user calls it.
        place: The nodes that it is on, as people write them; empty while it waits.
        ending: Whether it has been told to end, and only its last processes are left.
    """

    id: str
    user: str = "?"
    name: str = "?"
    place: str = ""
    ending: bool = False

    def __str__(self) -> str:
        where = f"on {self.place}" if self.place else "waiting"
        return printable(f"{self.id} of {self.user} ({self.name}) {where}", lines=False)
