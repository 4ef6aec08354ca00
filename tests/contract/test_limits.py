"""What a job does to its node, it does not do to the host or to other nodes: processes and memory of each are limited.

The limits are small, for these tests share their machine.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import GpuprovError
from gpuprov.core.exhaustion import NO_PROCESS, is_used_up
from gpuprov.drivers.base import ENDED_FIRST
from gpuprov.drivers.node_processes import read_processes
from gpuprov.shapes.node import Mount, NodeLimits
from gpuprov.spec.shared_folder import SHARED
from tests.contract.engines import PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.engines import Bench

LIMITS = NodeLimits(processes=200, memory_bytes=256 << 20)
ASLEEP = f"4719.{PROCESS}"  # seconds of a sleep that is these tests' own

BOMB = f"""
import os
nothing = os.open(os.devnull, os.O_RDWR)
for _ in range(1000):
    if os.fork() == 0:
        for stream in range(3):  # else whoever ran this would wait for all of them
            os.dup2(nothing, stream)
        os.execvp("sleep", ["sleep", "{ASLEEP}"])
"""
HOG = """
kept = []
for _ in range(1024):
    kept.append(b"x" * (1 << 20))
print("has it all")
"""


def count_asleep() -> int:
    """Of the whole host."""
    wanted, found = f"sleep\0{ASLEEP}\0".encode(), 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += path.read_bytes() == wanted
    return found


def test_a_fork_bomb_and_a_memory_hog_stay_in_their_node(bench: Bench) -> None:
    limits = {"processes": LIMITS.processes, "memory_bytes": LIMITS.memory_bytes, "gives_way": True}
    name, other = (bench.create(start=True, **limits) for _ in range(2))
    state = bench.driver.find_node(name)
    assert state
    assert state.limits == LIMITS
    if not bench.real:
        return
    for node in (name, other):
        bench.await_boot(node)
    assert bench.sh(name, "cat /proc/self/oom_score_adj") == str(ENDED_FIRST)
    hog = bench.driver.run(name, ["python3", "-c", HOG], timeout_s=60.0)
    assert hog.exit_code in (1, 137, -9), hog  # MemoryError, or killed
    assert "has it all" not in hog.stdout
    assert bench.sh(name, "echo lives") == "lives"
    with suppress(GpuprovError):  # it may not even hear how the bomb ended
        bench.driver.run(name, ["python3", "-c", BOMB], timeout_s=20.0)
    assert 50 < count_asleep() < LIMITS.processes  # type: ignore[operator]
    full = bench.driver.find_node(name)
    assert full
    assert is_used_up(read_processes(full, bench.driver.process_groups) or 0, 200)
    told = ""
    try:
        told = bench.driver.run(name, ["sh", "-c", "sleep 1 & wait"], timeout_s=20.0).stderr
    except GpuprovError as error:
        told = f"{error.what}: {error.fix}"
    used_up = f"{name} has used up its 200 processes: gpuprov stop {name} --force"
    assert NO_PROCESS.search(told) or used_up in told, told
    assert bench.sh(other, "echo lives") == "lives"
    assert subprocess.run(["true"], check=False).returncode == 0
    bench.driver.delete_node(name)
    assert count_asleep() == 0


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A folder of the host with room for 1 MiB and 60 files, which anybody may write."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M,nr_inodes=60,mode=1777", "none", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


FILLS = {
    "bytes": "head -c 4000000 /dev/zero > /shared/one",
    "inodes": "for n in $(seq 100); do : > /shared/$n || exit 1; done",
}


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("what", FILLS)
def test_a_job_that_fills_a_folder_fails_and_nothing_else_does(bench: Bench, tiny: Path, what: str) -> None:
    mounts = (Mount(source=str(tiny), target=SHARED, read_only=False),)
    name, other = bench.create(start=True, mounts=mounts), bench.create(start=True)
    for node in (name, other):
        bench.await_boot(node)
    filled = bench.driver.run(name, ["sh", "-c", FILLS[what]], timeout_s=60.0)
    assert filled.exit_code != 0
    assert "No space left on device" in filled.stderr
    for node in (name, other):
        assert bench.sh(node, "echo lives > /root/file && cat /root/file") == "lives"
    bench.driver.stop_node(name)
    bench.driver.start_node(name)
    bench.driver.delete_node(bench.create(start=True))
