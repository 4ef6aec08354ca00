"""Several processes at once, on one fake engine: exactly the right number win, and the others are told why not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import GpuprovError
from gpuprov.core.outcome import Outcome
from gpuprov.lifecycle.cluster_up import preview_changes
from gpuprov.lifecycle.rows import cluster_rows, list_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Ledger
    from tests.fakes.world import World

    Act = Callable[[], Outcome]

pytestmark = pytest.mark.slow

REPEATS = (1, 2, *(pytest.param(number, marks=pytest.mark.long) for number in range(3, 21)))
READ_S = 1.0  # far more than a reader needs, far less than any lock is held here
HOLD = """
import sys, time
from pathlib import Path
from gpuprov.core.group_files import Gates
from gpuprov.core.lock import host_lock
from gpuprov.core.reporter import Silent
sys.argv = ["gpuprov", "cluster", "up", "-n", "4"]
with host_lock(Silent(), gates=Gates(folder=Path({folder!r}))):
    print("held", flush=True)
    time.sleep(60)
"""


class Finish:
    """How a race ended: who changed something, who found it done, who was refused."""

    def __init__(self, acts: list[Act]) -> None:
        self._start = threading.Barrier(len(acts))
        with ThreadPoolExecutor(len(acts)) as pool:
            ends = list(pool.map(self._run, acts))
        self.won = [end for end in ends if isinstance(end, Outcome) and not end.unchanged]
        self.idle = [end for end in ends if isinstance(end, Outcome) and end.unchanged]
        self.refused = [end for end in ends if isinstance(end, GpuprovError)]
        assert len(self.won) + len(self.idle) + len(self.refused) == len(acts)
        for error in self.refused:
            assert error.what
            assert error.evidence
            assert error.fix

    def _run(self, act: Act) -> Outcome | GpuprovError:
        self._start.wait()
        try:
            return act()
        except GpuprovError as error:
            return error

    @property
    def counts(self) -> tuple[int, int, int]:
        return len(self.won), len(self.idle), len(self.refused)

    def enter(self, ledger: Ledger, race: str) -> None:
        won, idle, refused = self.counts
        ledger.add("race", where="fake", race=race, won=won, idle=idle, refused=refused)


@pytest.fixture
def networks(world: World) -> World:
    """A world whose networks are there, so that a race is about nodes."""
    world.create("first", role="plain", gpus="none")
    return world


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the host's lock."""
    argv = [sys.executable, "-c", HOLD.format(folder=str(tmp_path))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("_time", REPEATS)
def test_ten_for_one_name_with_one_wish(networks: World, ledger: Ledger, _time: int) -> None:
    finish = Finish([lambda: networks.create("web", role="plain")] * 10)
    finish.enter(ledger, "10 create-node, one name, the same options")
    assert finish.counts == (1, 9, 0)
    assert networks.names == ["first", "web"]


@pytest.mark.parametrize("_time", REPEATS)
def test_ten_for_one_name_with_ten_orders(networks: World, ledger: Ledger, _time: int) -> None:
    finish = Finish(
        [partial(networks.create, "web", role="plain", address=f"10.0.3.{100 + number}") for number in range(10)]
    )
    finish.enter(ledger, "10 create-node, one name, other options")
    assert finish.counts == (1, 0, 9)
    assert {error.what for error in finish.refused} == {"the name web is taken"}
    assert networks.names == ["first", "web"]


@pytest.mark.parametrize("_time", REPEATS)
def test_ten_for_one_address(networks: World, ledger: Ledger, _time: int) -> None:
    finish = Finish(
        [partial(networks.create, f"web{number}", role="plain", address="10.0.3.77") for number in range(10)]
    )
    finish.enter(ledger, "10 create-node, one address")
    assert finish.counts == (1, 0, 9)
    assert {error.what for error in finish.refused} == {"a node cannot have the address 10.0.3.77"}
    (winner,) = set(networks.names) - {"first"}
    assert all(winner in error.evidence for error in finish.refused)


@pytest.mark.parametrize("_time", REPEATS)
def test_ten_that_do_not_care_have_ten_addresses(networks: World, ledger: Ledger, _time: int) -> None:
    finish = Finish([partial(networks.create, f"web{number}", role="plain") for number in range(10)])
    finish.enter(ledger, "10 create-node, any address")
    assert finish.counts == (10, 0, 0)
    addresses = [node.attachments[0].address for node in networks.engine.nodes.values()]
    assert len(set(addresses)) == len(addresses) == 11


@pytest.mark.parametrize("_time", REPEATS)
def test_two_ups(world: World, ledger: Ledger, _time: int) -> None:
    finish = Finish([lambda: world.up(3)] * 2)
    finish.enter(ledger, "2 cluster up")
    assert finish.counts == (1, 1, 0)
    assert world.names == ["c000", "c001", "c002"]


@pytest.mark.parametrize("_time", REPEATS)
def test_two_ups_of_different_size(world: World, ledger: Ledger, _time: int) -> None:
    finish = Finish([lambda: world.up(3), lambda: world.up(2)])
    finish.enter(ledger, "cluster up -n 3 against -n 2")
    assert finish.counts == (2, 0, 0)
    count = len(world.names)
    assert count in (2, 3)
    assert world.up(count).unchanged


@pytest.mark.parametrize("_time", REPEATS)
@pytest.mark.parametrize("there", [False, True])
def test_up_against_down(world: World, ledger: Ledger, there: bool, _time: int) -> None:
    if there:
        world.up(2)
    finish = Finish([lambda: world.up(2), world.down])
    finish.enter(ledger, f"cluster up against down, {'of' if there else 'without'} a cluster")
    assert finish.refused == []
    if world.names:
        assert world.names == ["c000", "c001"]
        assert world.up(2).unchanged
        world.down()
    assert world.names == []
    assert world.engine.networks == {}


def test_a_killed_holder_of_the_lock_is_followed_at_once(
    world: World, holder: subprocess.Popen[str], ledger: Ledger
) -> None:
    ended: list[Outcome] = []
    waiting = threading.Thread(target=lambda: ended.append(world.up(2)))
    waiting.start()
    deadline_s = time.monotonic() + 10
    while not any(line.startswith("note waiting for") for line in world.reporter.lines):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    (said,) = [line for line in world.reporter.lines if line.startswith("note waiting for")]
    assert said.startswith(f"note waiting for process {holder.pid} of ")
    assert ": gpuprov cluster up -n 4, since " in said
    assert world.engine.nodes == {}
    began_s = time.monotonic()
    os.kill(holder.pid, signal.SIGKILL)
    waiting.join(10)
    took_s = time.monotonic() - began_s
    assert ended[0].changed
    assert took_s < 5
    ledger.add("race", where="fake", race="cluster up behind a killed holder of the lock", won=1, idle=0, refused=0)


def test_readers_never_wait(world: World, holder: subprocess.Popen[str]) -> None:
    assert holder.poll() is None
    began_s = time.monotonic()
    assert cluster_rows(world.driver, "lab") == ()
    assert list_rows(world.driver, everything=True) == ()
    assert preview_changes(world.driver, world.spec(2), world.host, reporter=world.reporter)
    assert time.monotonic() - began_s < READ_S
    assert not [line for line in world.reporter.lines if "waiting" in line]
