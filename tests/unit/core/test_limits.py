from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.activity import Activity
from gpuprov.core.errors import TimedOut
from gpuprov.core.execution import run
from gpuprov.core.limits import Limits, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE = Activity(ticks=3, moved_bytes=100)
SILENCE = Limits(silence_s=300.0)


def judge(limits: Limits, *looks: tuple[float, int, Activity]) -> list[str]:
    watch = Watch(limits, now_s=0.0)
    return [watch.judge(now_s=now_s, written=written, activity=activity) for now_s, written, activity in looks]


def test_who_does_nothing_is_over_the_limit() -> None:
    looks = [(100.0, 5, IDLE), (200.0, 5, IDLE), (399.0, 5, IDLE), (401.0, 5, IDLE)]
    assert judge(SILENCE, *looks) == ["", "", "", "did nothing for 300 s, after it had worked for 101 s"]


@pytest.mark.parametrize(
    "step",
    [
        lambda n: (n, IDLE),
        lambda n: (0, Activity(ticks=20 * n)),
        lambda n: (0, Activity(moved_bytes=n * 2**18)),
        lambda n: (0, Activity(ticks=1000 - n)),  # children end
    ],
    ids=["it says something", "it uses the CPU", "it moves bytes", "its children end"],
)
def test_who_works_may_take_as_long_as_it_takes(step: Callable[[int], tuple[int, Activity]]) -> None:
    looks = [(290.0 * number, *step(number)) for number in range(1, 100)]
    assert not any(judge(SILENCE, *looks))


def test_who_only_wakes_up_now_and_then_does_not_work() -> None:
    looks = [(5.0 * number, 0, Activity(ticks=number // 5, moved_bytes=number * 1000)) for number in range(62)]
    assert [bool(words) for words in judge(SILENCE, *looks)] == [False] * 60 + [True] * 2


def test_a_limit_for_all_holds_for_who_works_too() -> None:
    said = judge(Limits(total_s=10.0, silence_s=4.0), (3.0, 1, IDLE), (6.0, 2, IDLE), (9.0, 3, IDLE), (12.0, 4, IDLE))
    assert said == ["", "", "", "did not finish within 10 s"]
    assert judge(Limits(), (1e6, 0, IDLE)) == [""]


def test_it_is_looked_at_often_enough() -> None:
    looks = [Limits(total_s=9.0), Limits(silence_s=300.0), Limits(silence_s=2.0), Limits(total_s=0.1, silence_s=2.0)]
    assert [Watch(limits, now_s=0.0).look_s for limits in looks] == [9.0, 5.0, 0.5, 0.1]
    assert Watch(Limits(), now_s=0.0).look_s is None


@pytest.mark.slow
def test_a_silent_command_is_ended_and_its_last_words_are_told() -> None:
    with pytest.raises(TimedOut, match=r"sh did nothing for 0\.4 s") as caught:
        run(["sh", "-c", "echo I: installing; sleep 60"], timeout_s=Limits(silence_s=0.4))
    assert "I: installing" in caught.value.evidence


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import time\nfor n in range(40): print(n, flush=True); time.sleep(0.1)",
        "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: pass",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(n for n in range(40_000_000))'])",
    ],
    ids=["says", "computes", "has a child that computes"],
)
def test_a_command_that_works_is_left_alone(code: str) -> None:
    assert run([sys.executable, "-c", code], timeout_s=Limits(silence_s=2.0)).exit_code == 0
