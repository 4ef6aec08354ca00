from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.drivers.base import NodeState
from gpuprov.drivers.node_processes import read_processes
from gpuprov.shapes.node import NodeLimits

if TYPE_CHECKING:
    from pathlib import Path

LIMITED = NodeState(name="c000", id="7f", status="running", limits=NodeLimits(processes=300))
STOPPED = NodeState(name="c000", status="stopped", limits=NodeLimits(processes=300))
PLACES = ("lxc.payload.{name}", "system.slice/docker-{id}.scope")
FREE = NodeState(name="c000", status="running")


def make_group(folder: Path, most: str, current: str) -> None:
    folder.mkdir(parents=True)
    (folder / "pids.max").write_text(f"{most}\n")
    (folder / "pids.current").write_text(f"{current}\n")


@pytest.mark.parametrize("place", ["pids/lxc.payload.c000", "lxc.payload.c000", "system.slice/docker-7f.scope"])
def test_the_group_that_has_the_node_s_limit_tells(tmp_path: Path, place: str) -> None:
    make_group(tmp_path / place, "300", "299")
    seen = [read_processes(node, PLACES, groups=tmp_path) for node in (LIMITED, FREE, STOPPED)]
    assert seen == [299, None, None]


@pytest.mark.parametrize(("most", "current"), [("max", "7"), ("200", "7"), ("300", ""), ("", "")])
def test_another_one_s_group_and_a_strange_one_tell_nothing(tmp_path: Path, most: str, current: str) -> None:
    assert read_processes(LIMITED, PLACES, groups=tmp_path) is None
    make_group(tmp_path / "lxc.payload.c000", most, current)
    assert read_processes(LIMITED, PLACES, groups=tmp_path) is None
