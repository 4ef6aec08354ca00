"""What the services that give work are told of hosts that do not answer, and of nodes that are back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import recorded_whole
from gpuprov.roles.registry import roles_of

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.orders import UnreachableOrder


def tell_roles(driver: Driver, order: UnreachableOrder) -> tuple[str, ...]:
    """Tell them; returns a line for each node that is kept from work, or given some again.

    Raises:
        GpuprovError: It could not be said.
    """
    state = observe_cluster(driver, order.cluster)
    whole = recorded_whole(state)
    changed: list[str] = []
    for role in roles_of(member.role for member in (whole.members if whole else ())):
        for host, since in order.away.items():
            names = [member.name for member in whole.on(host) if member.role == role.name] if whole else []
            changed += role.mark_away(driver, state, names, host=host, since=since)
        changed += role.mark_back(driver, state, order.back)
    return tuple(changed)
