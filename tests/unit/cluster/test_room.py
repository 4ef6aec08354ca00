from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.room import find_room, refuse_few, refuse_without_room
from gpuprov.core.errors import HostNotReady
from gpuprov.core.units import GIB
from gpuprov.shapes.members import Room

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


def test_the_room_that_is_left_is_what_is_not_refused(world: World) -> None:
    world.engine.memory_bytes, world.engine.free_bytes = 8 * GIB, 256 << 20
    low: dict[str, int | None] = {"inotify": 128, "keys": None, "neighbours": 1}
    for number in range(3):
        world.engine.add_foreign_node(f"n{number}", status="running")
    room = find_room(world.driver, low, promised_gib=6)
    assert room == Room(nodes=18, memory_bytes=2 * GIB, disk_bytes=256 << 20)
    refuse_few(world.driver, low, 18)
    with pytest.raises(HostNotReady):
        refuse_few(world.driver, low, 19)
    enough: dict[str, int | None] = {"inotify": 1024, "keys": 1000}
    assert find_room(world.driver, enough, promised_gib=9) == Room(memory_bytes=0, disk_bytes=256 << 20)
