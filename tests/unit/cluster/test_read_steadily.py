from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut, UsageError
from gpuprov.lifecycle.changing import read_steadily

if TYPE_CHECKING:
    from tests.fakes.world import World


class Clock:
    """Time that goes by when one sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_s(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


FAILED = EngineError("lxd could not run a command in c001", evidence="Instance is not running", fix="look")


def test_what_another_run_has_changed_meanwhile_is_read_again(world: World) -> None:
    world.begin_with(2)
    reads: list[int] = []

    def read() -> str:
        reads.append(1)
        if len(reads) < 3:
            world.engine.nodes.pop(f"c00{len(reads) - 1}")
            raise FAILED
        return "seen"

    assert read_steadily(world.driver, "lab", read, clock=Clock()) == "seen"


@pytest.mark.parametrize("error", [FAILED, TimedOut("w", evidence="e", fix="f"), UsageError("w", evidence="e")])
def test_what_fails_though_nothing_changes_is_an_error(world: World, error: GpuprovError) -> None:
    world.begin_with(1)
    reads: list[int] = []

    def read() -> None:
        reads.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        read_steadily(world.driver, "lab", read, clock=Clock())
    assert caught.value is error
    assert len(reads) == 1


def test_a_cluster_that_never_rests_is_said(world: World) -> None:
    world.begin_with(1)
    node = world.engine.nodes["c000"]

    def read() -> None:
        node.status = "stopped" if node.status == "running" else "running"
        raise FAILED

    with pytest.raises(EngineError, match="cluster lab was changed by another run while it was read") as caught:
        read_steadily(world.driver, "lab", read, clock=Clock())
    assert "Instance is not running" in caught.value.evidence
    assert "gpuprov cluster status lab" in caught.value.fix
