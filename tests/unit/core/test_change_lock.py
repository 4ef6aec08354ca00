from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.change_lock import change_lock
from gpuprov.core.group_files import Gates

if TYPE_CHECKING:
    from pathlib import Path

SOON_S = 0.2
LIMIT_S = 10.0


@pytest.mark.parametrize(("thing", "waits"), [("lxd c000", True), ("lxd c001", False), ("incus c000", False)])
def test_changes_of_one_thing_wait_for_each_other_and_others_do_not(tmp_path: Path, thing: str, waits: bool) -> None:
    gates, entered = Gates(folder=tmp_path / "gates"), threading.Event()

    def change() -> None:
        with change_lock(gates, thing):
            entered.set()

    other = threading.Thread(target=change)
    with change_lock(gates, "lxd c000"):
        other.start()
        assert entered.wait(SOON_S if waits else LIMIT_S) is not waits
    assert entered.wait(LIMIT_S)
    other.join()
