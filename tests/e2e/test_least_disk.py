"""The README's first command on a machine with as little free disk space as `host prepare` takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.units import GIB
from tests.e2e.machine import HOME, container
from tests.e2e.test_full_pool import small_file_system

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

pytestmark = pytest.mark.long
DISK = "9G"
LEAST_FREE, LEAST_POOL, FOUR_NODES = 7 * GIB, 5 * GIB, GIB  # docs/host.md
BEFORE_ITS_LOOK = GIB // 4  # wheels, which are downloaded meanwhile, and logs
TAKEN = f"{HOME}/taken"


def test_make_up_makes_four_nodes_where_7_gib_are_free(
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is there
    place: Place,
    tmp_path: Path,
) -> None:
    with small_file_system(tmp_path / "disk", tmp_path / "mounted", DISK):
        disk = tmp_path / "mounted/pool"
        disk.mkdir()
        with container(place, tmp_path, "bookworm", disk=disk) as machine:
            machine.run("make", ".venv/bin/gpuprov")
            free = int(machine.run("df", "--output=avail", "-B1", "/").split()[-1])
            machine.run("fallocate", "--length", str(free - LEAST_FREE - BEFORE_ITS_LOOK), TAKEN)
            machine.run("make", "up")
            assert json.loads(machine.run("gpuprov", "--json", "verify"))["verdict"] == "pass"
            (pool,) = json.loads(machine.run("lxc", "query", "/1.0/storage-pools?recursion=1"))
            assert (pool["name"], pool["config"]["size"]) == ("gpuprov", f"{LEAST_POOL // GIB}GiB")
            space = json.loads(machine.run("lxc", "query", f"/1.0/storage-pools/{pool['name']}/resources"))["space"]
            assert space["used"] < FOUR_NODES
