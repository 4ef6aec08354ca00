"""Processes that have ended and are still listed: which of them are, and when they are looked for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.machine import look
from gpuprov.machine.look import look_at_host
from gpuprov.machine.process_stat import parse_stat
from gpuprov.machine.zombies import Zombie, find_zombies
from tests.unit.gpu.conftest import RecordedHost
from tests.unit.machine.test_look import answering

if TYPE_CHECKING:
    from collections.abc import Callable


def add(root: Path, pid: int, *, state: str, threads: int = 1, name: str = "python3") -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    numbers = f"1 1 1 0 -1 4194304 1 0 0 0 5 5 0 0 20 0 {threads} 0 {pid * 100} 1 1"
    (folder / "stat").write_text(f"{pid} ({name}) {state} {numbers}\n")


def test_a_process_without_a_thread_left_is_a_zombie(tmp_path: Path) -> None:
    add(tmp_path, 7, state="Z", name="a) Z \x1b[2J")
    add(tmp_path, 8, state="Z", threads=2)  # its other thread goes on
    add(tmp_path, 9, state="S")
    add(tmp_path, 10, state="D")
    (tmp_path / "proc/11").mkdir()
    (tmp_path / "proc/11/stat").write_text("11 (cut) Z 1")
    assert find_zombies(tmp_path) == {Zombie(pid=7, name="a) Z \\x1b[2J", started="700")}


def test_the_kernel_s_own_words_are_read() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:  # a process that nothing else gives threads
        try:
            stat = parse_stat(Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8"))
        finally:
            process.kill()
    assert (stat.threads, stat.state in "RSD", int(stat.started) > 0) == (1, True, True)


def zombie(pid: int, started: str = "1") -> Zombie:
    return Zombie(pid=pid, name="python3", started=started)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({zombie(7)}, {zombie(7)}, {"7": "python3"}),
        (set(), {zombie(7)}, {}),  # it ended while NVML was asked
        ({zombie(7)}, set(), {}),  # its parent has asked meanwhile
        ({zombie(7)}, {zombie(7, "2")}, {}),
    ],
)
def test_only_who_had_ended_before_nvml_was_asked_and_is_there_after_it_counts(
    before: set[Zombie], after: set[Zombie], told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [before, after]
    asked: list[str] = []
    answer = answering({"gpus": []})

    def find(_root: Path) -> frozenset[Zombie]:
        asked.append("zombies")
        return frozenset(said.pop(0))

    def execute(*arguments: Any, **options: Any) -> Any:
        asked.append("nvml")
        return answer(*arguments, **options)

    monkeypatch.setattr(look, "find_zombies", find)
    run: Callable[..., Any] = execute
    seen = look_at_host(None, root=RecordedHost("one-gpu").root, execute=run, links=lambda: ())
    assert (seen.facts or {})["zombies"] == {"ended": told}
    assert asked == ["zombies", "nvml", "zombies"]
