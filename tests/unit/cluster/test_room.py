from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.room import refuse_without_room
from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from tests.fakes.world import World


@pytest.mark.parametrize(("free_mib", "nodes", "enough"), [(None, 99, True), (256, 4, True), (255, 4, False)])
def test_room_for_the_nodes(world: World, free_mib: int | None, nodes: int, enough: bool) -> None:
    world.engine.free_bytes = free_mib << 20 if free_mib else None
    if enough:
        refuse_without_room(world.driver, world.host, nodes=nodes)
    else:
        with pytest.raises(HostNotReady, match="4 nodes"):
            refuse_without_room(world.driver, world.host, nodes=nodes)
