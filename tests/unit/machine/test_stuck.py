"""Processes that hang in the driver: which are found, and which waits are none of gpuprov's business."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.machine.stuck import driver_function, find_stuck

if TYPE_CHECKING:
    from pathlib import Path

IN_DRIVER = """[<0>] rwsem_down_write_slowpath+0x2ca/0x6b0
[<0>] os_acquire_rwlock_write+0x35/0x50 [nvidia]
[<0>] nvidia_ioctl+0x1c5/0x8a0 [nvidia]
"""
ON_DISK = """[<0>] folio_wait_bit_common+0x13d/0x350
[<0>] ext4_file_read_iter+0x55/0x160 [ext4]
"""


def add(root: Path, pid: int, *, state: str = "D", stack: str = "", wchan: str = "0", switches: int = 7) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = f"1 1 1 0 -1 4194304 1 0 0 0 5 5 0 0 20 0 1 0 {pid * 100} 1 1"
    (folder / "stat").write_text(f"{pid} (a) D \x1b[2J) {state} {numbers}\n")
    (folder / "stack").write_text(stack)
    (folder / "wchan").write_text(wchan)
    (folder / "status").write_text(f"Name:\ta\nvoluntary_ctxt_switches:\t{switches}\n")


def add_thread(root: Path, pid: int, thread: int, **how: str) -> None:
    """Let a process have one thread more, beside its first one."""
    add(root / f"proc/{pid}/task/parent", thread, **how)  # type: ignore[arg-type]
    (root / f"proc/{pid}/task/parent/proc/{thread}").rename(root / f"proc/{pid}/task/{thread}")
    stat = root / f"proc/{pid}/stat"
    stat.write_text(stat.read_text().replace("20 0 1 0", "20 0 2 0"))


@pytest.mark.parametrize("first", ["S", "Z"])
def test_any_thread_of_a_process_may_be_the_one_that_is_stuck(tmp_path: Path, first: str) -> None:
    add(tmp_path, 4711, state=first)
    add_thread(tmp_path, 4711, 4713, stack=IN_DRIVER)
    found = find_stuck(tmp_path, watch_s=1.0, sleep=lambda _: None)
    assert [one.rpartition(") ")[0].rpartition(" ")[2] for one in found.waiting] == ["(4711"]
    assert (found.hidden, found.watched_s) == (0, 1.0)


def test_threads_that_wait_for_work_are_not_watched(tmp_path: Path) -> None:
    add(tmp_path, 4711, state="S")
    add_thread(tmp_path, 4711, 4713, state="S", stack=IN_DRIVER)
    assert find_stuck(tmp_path, sleep=never).waiting == ()


def never(_seconds: float) -> None:
    pytest.fail("nothing waits, so nothing is watched")


def test_a_process_that_does_not_come_back_is_stuck(tmp_path: Path) -> None:
    add(tmp_path, 4711, stack=IN_DRIVER)
    add(tmp_path, 4712, wchan="os_acquire_mutex")
    add(tmp_path, 1, state="S", stack=IN_DRIVER)
    found = find_stuck(tmp_path, watch_s=2.0, sleep=lambda _: None)
    name = "a) D \\x1b[2J"
    assert sorted(found.waiting) == [
        f"{name} (4711) in os_acquire_rwlock_write",
        f"{name} (4712) in os_acquire_mutex",
    ]
    assert (found.hidden, found.watched_s) == (0, 2.0)


@pytest.mark.parametrize("change", ["runs", "ends", "another"])
def test_a_process_that_runs_meanwhile_is_not(tmp_path: Path, change: str) -> None:
    add(tmp_path, 4711, stack=IN_DRIVER)

    def sleep(_seconds: float) -> None:
        if change == "ends":
            (tmp_path / "proc/4711/stat").unlink(missing_ok=True)
        else:
            add(tmp_path, 4711, stack=IN_DRIVER, switches=8 if change == "runs" else 7)
        if change == "another":
            path = tmp_path / "proc/4711/stat"
            path.write_text(path.read_text().replace("471100", "999999"))

    found = find_stuck(tmp_path, watch_s=30.0, sleep=sleep)
    assert (found.waiting, found.watched_s < 30.0) == ((), True)


def test_a_wait_for_something_else_is_not_watched(tmp_path: Path) -> None:
    add(tmp_path, 1, stack=ON_DISK)
    add(tmp_path, 2, wchan="folio_wait_bit_common")
    add(tmp_path, 3, state="R", wchan="nvidia_ioctl")
    assert find_stuck(tmp_path, sleep=never).waiting == ()
    assert find_stuck(tmp_path / "nothing", sleep=never).waiting == ()


def test_where_a_process_of_another_user_waits_is_not_known(tmp_path: Path) -> None:
    add(tmp_path, 5)
    found = find_stuck(tmp_path, watch_s=1.0, sleep=lambda _: None)
    assert (found.waiting, found.hidden) == ((), 1)


def test_the_innermost_function_of_the_driver_is_named() -> None:
    assert driver_function(IN_DRIVER) == "os_acquire_rwlock_write"
    assert driver_function("[<0>] uvm_va_space_down_write+0x3/0x9 [nvidia_uvm]") == "uvm_va_space_down_write"
    assert driver_function(ON_DISK) == ""
