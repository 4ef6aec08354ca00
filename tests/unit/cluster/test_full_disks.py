from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.full_disks import describe_fullness, find_full_disks
from gpuprov.core.disk import Disk
from gpuprov.core.units import GIB

if TYPE_CHECKING:
    from tests.fakes.world import World

FOLDER = "/srv/gpuprov/lab"


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (16, ""),
        (15, "it is 85 % full: 15.0 GiB of 100.0 GiB free; see what uses it: gpuprov doctor"),
        (
            5,
            "it is 95 % full: 5.0 GiB of 100.0 GiB free, and work will soon fail; see what uses it: gpuprov doctor",
        ),
    ],
)
def test_a_disk_is_told_of_before_it_is_full(free: int, said: str) -> None:
    assert describe_fullness("it", Disk(total_bytes=100 * GIB, free_bytes=free * GIB)) == said


def test_storage_and_shared_folder_are_told_of_and_nothing_that_cannot_be_seen(world: World) -> None:
    assert find_full_disks(world.driver, world.host, FOLDER) == ()
    world.engine.free_bytes = 4 * GIB
    world.host.folders.disks[FOLDER] = Disk(total_bytes=100 * GIB, free_bytes=10 * GIB)
    storage, shared = find_full_disks(world.driver, world.host, FOLDER)
    assert storage.startswith("the storage of fake is 96 % full: 4.0 GiB of 100.0 GiB free, and work will soon fail")
    assert shared.startswith("/srv/gpuprov/lab is 90 % full")
