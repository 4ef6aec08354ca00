from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.room import refuse_few
from gpuprov.core.errors import HostNotReady
from gpuprov.machine.kernel_limits import INOTIFY, KEYS, LIMITS, KernelLimit
from gpuprov.machine.local import LocalHost
from tests.fakes.driver import FakeDriver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.world import World


def set_limit(root: Path, limit: KernelLimit, text: str) -> None:
    path = root / "proc/sys" / limit.key.replace(".", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("text", "value"), [("128\n", 128), ("", None), ("many\n", None)])
def test_a_limit_is_read(tmp_path: Path, text: str, value: int | None) -> None:
    set_limit(tmp_path, KEYS, text)
    limits = LocalHost(root=tmp_path).limits()
    assert limits == {"inotify": None, "keys": value, "neighbours": None, "pids": None, "threads": None}


@pytest.mark.parametrize(
    ("limit", "value", "nodes", "refused"),  # nodes: running, new
    [
        (INOTIFY, 128, (0, 21), False),
        (INOTIFY, 128, (0, 22), True),
        (INOTIFY, 128, (20, 2), True),
        (INOTIFY, 128, (20, 1), False),
        (INOTIFY, 1024, (0, 253), False),
        (KEYS, 200, (0, 20), False),
        (KEYS, 200, (10, 11), True),
    ],
)
def test_nodes_that_a_limit_cannot_carry_are_refused(
    world: World, tmp_path: Path, limit: KernelLimit, value: int, nodes: tuple[int, int], refused: bool
) -> None:
    running, new = nodes
    for number in range(running):
        world.engine.add_foreign_node(f"n{number}", status="running")
    world.engine.add_foreign_node("asleep", status="stopped")
    for other in LIMITS.values():
        set_limit(tmp_path, other, "65536")
    set_limit(tmp_path, limit, f"{value}\n")
    if not refused:
        refuse_few(world.driver, LocalHost(root=tmp_path).limits(), new)
        return
    with pytest.raises(HostNotReady, match=limit.key.replace(".", r"\.")) as caught:
        refuse_few(world.driver, LocalHost(root=tmp_path).limits(), new)
    assert f"it is {value}" in caught.value.evidence
    assert caught.value.fix.startswith("sudo gpuprov host prepare")


def test_an_engine_without_systemd_in_its_nodes_takes_next_to_nothing(world: World, tmp_path: Path) -> None:
    set_limit(tmp_path, INOTIFY, "1")

    class Lean(FakeDriver):
        capabilities = frozenset({"expose-live"})

    refuse_few(Lean(world.engine), LocalHost(root=tmp_path).limits(), 100)
