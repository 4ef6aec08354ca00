"""The record of `gpuprov run`: what is counted of containers, whatever becomes of them, of gpuprov and of the disk."""

from __future__ import annotations

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_GPUS, LABEL_PROCESS
from gpuprov.gpu.waiting_for_gpus import Patience
from gpuprov.lifecycle.run_job import run_attached_job, run_job
from gpuprov.lifecycle.run_record import join_marks, uses_of_runs
from gpuprov.machine import run_records
from gpuprov.machine.run_records import KEPT_MONTHS, RunRecords
from gpuprov.shapes.run_order import RunOrder
from gpuprov.shapes.run_span import RunSpan
from tests.fakes.driver import FakeDriver
from tests.fakes.faults import Killed
from tests.fakes.orders import nested
from tests.unit.lifecycle.test_runs import GONE, Bay, bay

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.roles.usage import Uses

__all__ = ["bay"]
T0 = 1_795_000_000.0
SPAN = RunSpan(
    id="a", name="train", person="ann", image="plain", gpus=("GPU-1",), simulated=True, began=T0, ended=T0 + 60, seen=T0
)


class Clock:
    """A time that goes by when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_s = T0
        monkeypatch.setattr(time, "time", lambda: self.at_s)

    def forward(self, seconds: float) -> None:
        self.at_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def count(bay: Bay, since_s: float = T0 - 3600, until_s: float | None = None) -> Uses:
    return uses_of_runs(bay.host, (since_s, time.time() if until_s is None else until_s))


def seconds(bay: Bay) -> list[tuple[str, int, bool]]:
    return [(use.job, use.seconds, use.running) for use in count(bay).uses]


def run(bay: Bay, *, attach: Any = None, **order: Any) -> int:
    made = RunOrder(argv=("true",), **nested(gpus="1", image="gpuprov-image-plain", **order))
    options: dict[str, Any] = {"patience": Patience(), "reporter": bay.world.reporter}
    driver = FakeDriver(bay.world.engine)
    if attach:
        return run_attached_job(driver, made, bay.host, attach=attach, **options)
    return run_job(driver, made, bay.host, write=lambda *_: None, **options)


@pytest.mark.parametrize(
    ("marks", "spans"),
    [
        ([], []),
        ([(1, True)], [(1, None)]),
        ([(5, False), (1, True)], [(1, 5)]),
        ([(1, True), (1.01, True), (5, False), (5.02, False)], [(1, 5)]),
        ([(1, True), (5, False), (7, True)], [(1, 5), (7, None)]),
        ([(1, True), (7, True), (8, False)], [(1, 8)]),  # an end that nobody knows
        ([(3, False)], []),
        ([(3, False), (4, True), (4, False)], [(4, 4)]),
    ],
)
def test_starts_and_ends_are_put_together(
    marks: list[tuple[float, bool]], spans: list[tuple[float, float | None]]
) -> None:
    assert join_marks(marks) == spans


def test_one_that_runs_counts_up_to_now_and_one_that_ended_no_more(bay: Bay, clock: Clock) -> None:
    bay.begin(gpus="2")
    clock.forward(90)
    (use,) = count(bay).uses
    assert (use.job, use.seconds, use.running, len(use.gpus), use.nodes) == ("train", 90, True, 2, ("here",))
    bay.end("stop", "train")
    clock.forward(1000)
    assert seconds(bay) == [("train", 90, False)]
    bay.end("rm", "train")
    bay.world.engine.remembered.clear()
    assert seconds(bay) == [("train", 90, False)]
    assert count(bay).simulated


def test_one_that_is_started_again_counts_for_each_time_that_it_ran(bay: Bay, clock: Clock) -> None:
    bay.begin()
    clock.forward(10)
    bay.end("stop", "train")
    clock.forward(1000)
    node = bay.world.engine.nodes["train.run"]
    node.status = "running"
    node.marks = [(T0 + 10, False), (clock.at_s, True)]  # all that an engine keeps of a container itself
    clock.forward(5)
    assert seconds(bay) == [("train", 15, True)]
    bay.end("rm", "train", force=True)
    assert seconds(bay) == [("train", 15, False)]
    assert [use.seconds for use in count(bay, T0 + 8, T0 + 1012).uses] == [4], "cut to the window"


def test_what_was_removed_behind_gpuprov_counts_by_what_the_engine_remembers(bay: Bay, clock: Clock) -> None:
    bay.begin()
    clock.forward(20)
    bay.world.driver.delete_node("train.run")
    clock.forward(1000)
    assert seconds(bay) == [("train", 20, False)]
    bay.world.engine.remembered.clear()
    assert seconds(bay) == [("train", 20, False)], "what was told once is told again"


def test_what_nobody_knows_the_end_of_counts_up_to_when_it_was_seen_and_that_is_said(bay: Bay, clock: Clock) -> None:
    bay.begin()
    clock.forward(5000)
    assert seconds(bay) == [("train", 5000, True)]
    clock.forward(5000)
    bay.world.driver.delete_node("train.run")
    bay.world.engine.remembered.clear()
    found = count(bay)
    assert [use.seconds for use in found.uses] == [5000]
    assert "when 1 containers of `gpuprov run` ended is not known, such as train" in found.notes[0]


def test_a_command_in_the_foreground_is_on_record_when_it_is_gone(bay: Bay) -> None:
    run(bay, name="eval")
    bay.world.engine.remembered.clear()
    assert [name for name, _, _ in seconds(bay)] == ["eval"]


@pytest.mark.parametrize("forgets", [False, True])
def test_so_is_one_that_had_the_terminal(bay: Bay, clock: Clock, *, forgets: bool) -> None:
    def attach(_argv: Sequence[str]) -> int:
        node = bay.world.engine.nodes["shell.run"]
        if not forgets:
            node.status = "running"
            node.marks.append((clock.at_s, True))
            bay.world.engine.remembered.append(node)
        clock.forward(30)
        return 3

    assert run(bay, attach=attach, name="shell") == 3
    assert seconds(bay) == [("shell", 30, False)]


def test_the_end_of_one_of_a_killed_gpuprov_is_on_record(bay: Bay, clock: Clock) -> None:
    bay.world.engine.faults.raise_at(Killed(), "run_job:done")
    bay.world.engine.faults.raise_at(Killed(), "read_job_times")
    with pytest.raises(Killed):
        run(bay, name="killed")
    bay.world.engine.faults.clear()
    (node,) = bay.world.engine.nodes.values()
    clock.forward(40)
    node.labels[LABEL_PROCESS] = GONE
    bay.begin()  # which removes what the killed one left
    bay.world.engine.remembered.clear()
    clock.forward(2)
    assert sorted(seconds(bay)) == [("killed", 40, False), ("train", 2, True)]


def test_what_has_no_gpu_leaves_no_record(bay: Bay) -> None:
    bay.begin(gpus="0")
    bay.end("rm", "train", force=True)
    assert not bay.host.run_records.place.exists()
    assert count(bay).uses == ()


def test_labels_of_others_are_not_believed(bay: Bay) -> None:
    bay.begin()
    bay.world.engine.nodes["train.run"].labels[LABEL_GPUS] = "x\n" * 1000
    bay.host.run_records.place.joinpath(f"{time.strftime('%Y-%m')}.jsonl").unlink(missing_ok=True)
    assert count(bay).uses == ()


def test_on_a_full_disk_the_container_runs_and_what_is_missing_is_said(
    bay: Bay, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_file: int, _text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        assert bay.begin() == "train"
        run(bay, name="eval")
        (said,) = (line for line in bay.world.reporter.lines if "of eval" in line)
        assert said.startswith(
            "warn `gpuprov usage` may lack GPU hours of eval, which could not be put on record: [Err"
        )
        clock.forward(7)
        assert seconds(bay)[0] == ("train", 7, True), "the engine knows it"
        assert "what the engines know of `gpuprov run` could not be put on record" in count(bay).notes[0]
        patch.setattr(os, "write", lambda _file, text: len(text) - 1)
        assert "the disk is full" in count(bay).notes[0]
    assert count(bay).notes == ()


def test_an_engine_that_does_not_answer_hides_nothing_that_is_on_record(
    bay: Bay, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bay.begin()
    clock.forward(5)
    bay.end("stop", "train")

    def fail(*_: object) -> None:
        raise EngineError("fake does not respond", evidence="connection refused", fix="gpuprov doctor")

    monkeypatch.setattr(FakeDriver, "read_job_times", fail)
    found = count(bay)
    assert [use.seconds for use in found.uses] == [5]
    assert found.notes == ("fake does not answer: containers of `gpuprov run` count as far as is on record",)
    assert bay.end("rm", "train") == ("removed train",)
    (said,) = (line for line in bay.world.reporter.lines if "could not be put on record" in line)
    assert said.endswith("connection refused")


def test_damaged_lines_are_said_and_the_rest_counts(bay: Bay, clock: Clock) -> None:
    bay.begin()
    (file,) = bay.host.run_records.place.iterdir()
    with file.open("ab") as record:
        record.write(b'\x00\xff\n{"id": 7}\n[[[[\n{"id":"a","name"')  # the last one without its end
    clock.forward(5)
    bay.end("rm", "train", force=True)
    bay.world.engine.remembered.clear()
    found = count(bay)
    assert [use.seconds for use in found.uses] == [5]
    assert found.notes == ("4 lines of the record of `gpuprov run` are damaged, and left out",)


def test_what_is_no_file_is_said(bay: Bay) -> None:
    records = bay.host.run_records
    records.prepare()
    os.mkfifo(records.place / f"{time.strftime('%Y-%m', time.gmtime())}.jsonl")
    bay.begin()
    assert "is not a regular file" in bay.world.reporter.lines[-1]
    found = count(bay)
    assert [use.job for use in found.uses] == ["train"]
    assert "cannot be read" in found.notes[0]


def test_several_add_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    records = RunRecords(folder=tmp_path / "runs")
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda _: records.add([SPAN, SPAN]), range(100)):
            pass
    found = records.read(0)
    assert (found.spans, found.damaged) == ((SPAN,) * 200, 0)


def test_thirteen_months_are_kept_and_a_month_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RunRecords(folder=tmp_path / "runs")
    records.prepare()
    for month in range(1, 13):
        (records.place / f"2024-{month:02}.jsonl").touch()
        (records.place / f"2025-{month:02}.jsonl").touch()
    (records.place / "notes").touch()
    records.add([SPAN])
    left = sorted(path.name for path in records.place.iterdir())
    assert len(left) == KEPT_MONTHS + 1
    assert left[0] == "2025-01.jsonl"
    monkeypatch.setattr(run_records, "MOST_BYTES", 400)
    with pytest.raises(OSError, match="is full"):
        records.add([SPAN, SPAN])


def test_a_folder_is_given_to_a_group_and_made_once(tmp_path: Path) -> None:
    records = RunRecords(folder=tmp_path / "deep" / "runs", group=os.getegid())
    assert records.prepare()
    assert not records.prepare()
    assert records.place.stat().st_mode & 0o7777 == 0o2770
    records.add([SPAN])
    (file,) = records.place.iterdir()
    assert file.stat().st_mode & 0o7777 == 0o660
