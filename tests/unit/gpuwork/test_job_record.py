"""How tries of a run are counted, what its folder and Slurm say together, and how its log is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.shapes.base import encode, read, write
from gpuprov.shapes.job_run import JobRun
from gpuprov.shapes.limits import PIECE_BYTES
from gpuwork.jobs.batch import Queued
from gpuwork.jobs.log import read_piece
from gpuwork.jobs.overview import LOST, state_of_run
from gpuwork.jobs.run_record import LOST_TRIES, TryEnd, begin_try, end_try
from gpuwork.where import Where
from tests.schemas import validate

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.choices import JobState
    from gpuprov.shapes.job_run import RunState

AT = "2026-11-22T16:40:12Z"
HERE = Where(node="c001", gpus=("GPU-5fd4f087",), simulated=True, image="0123")


def tried(*kinds: JobState, retries: int = 0) -> JobRun:
    record = JobRun()
    for kind in kinds:
        assert record.state == "waiting"
        end = TryEnd(kind=kind, exit_status=0 if kind == "done" else 1, reason="why")
        record = end_try(begin_try(record, HERE, at=AT), end, retries=retries, at=AT)
    return record


@pytest.mark.parametrize(
    ("kinds", "retries", "state"),
    [
        (["done"], 0, "done"),
        (["failed"], 0, "failed"),
        (["failed"], 1, "waiting"),
        (["failed", "done"], 1, "done"),
        (["failed", "failed"], 1, "failed"),
        (["lost"], 0, "waiting"),
        (["lost", "failed"], 0, "failed"),
        (["lost"] * LOST_TRIES, 0, "waiting"),
        (["lost"] * (LOST_TRIES + 1), 0, "failed"),
        (["lost"] * (LOST_TRIES + 1), 1, "waiting"),
        (["waiting"] * 50, 0, "waiting"),
        (["cancelled"], 5, "cancelled"),
    ],
)
def test_how_often_a_run_is_tried(kinds: list[JobState], retries: int, state: str) -> None:
    record = tried(*kinds, retries=retries)
    assert (record.state, record.tries) == (state, len(kinds))


def test_a_run_whose_every_try_was_killed_says_so() -> None:
    assert tried("lost", "lost", "lost", "lost").reason == "4 tries were killed; of the last one: why"


def test_a_record_comes_back_as_it_was() -> None:
    record = tried("lost", "failed", "done", retries=1)
    validate(write(record))
    assert read(JobRun, encode(record)) == record


@pytest.mark.parametrize(
    "change",
    [
        {"state": "lost"},
        {"tries": -1},
        {"tries": True},
        {"gpus": ["$(reboot)"]},
        {"gpus": "GPU-1"},
        {"exit_status": 256},
        {"started": "yesterday"},
        {"more": 1},
        {"version": 2},
        {"schema": "gpuprov.grid-done/v1"},
    ],
)
def test_what_is_not_as_it_was_written_is_no_record(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at `\$|unknown field `more`"):
        read(JobRun, json.dumps({**write(tried("done")), **change}))


WAITS = Queued(state="waiting", node=None, reason="Resources")
RUNS = Queued(state="running", node="c001", reason=None)


@pytest.mark.parametrize(
    ("state", "queued", "cancelled", "expected"),
    [
        ("waiting", WAITS, False, ("waiting", "Resources")),
        ("waiting", RUNS, False, ("running", None)),
        ("running", RUNS, False, ("running", None)),
        ("running", WAITS, False, ("waiting", "Resources")),
        ("running", RUNS, True, ("running", "is being cancelled")),
        ("waiting", None, True, ("cancelled", None)),
        ("running", None, False, ("lost", LOST)),
        ("waiting", None, False, ("lost", LOST)),
        ("done", RUNS, True, ("done", None)),
        ("failed", None, False, ("failed", None)),
        ("cancelled", RUNS, True, ("cancelled", None)),
    ],
)
def test_what_a_run_left_and_what_slurm_says_are_one_state(
    state: RunState, queued: Queued | None, cancelled: bool, expected: tuple[str, str | None]
) -> None:
    assert state_of_run(JobRun(state=state), queued, cancelled=cancelled) == expected


def test_what_does_not_end_is_told_while_the_run_is_being_cancelled() -> None:
    record = JobRun(state="running", reason="2 of its processes do not end on c000: 7, 8")
    told = "is being cancelled; 2 of its processes do not end on c000: 7, 8"
    assert state_of_run(record, RUNS, cancelled=True) == ("running", told)


def test_a_log_is_read_in_pieces_that_keep_characters_whole(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert read_piece(log, 0, is_whole=False).text == ""
    text = "x" + "\u20ac" * PIECE_BYTES  # three bytes each
    log.write_text(text)
    position, found = 0, ""
    while position < log.stat().st_size:
        piece = read_piece(log, position, is_whole=False)
        assert len(piece.text.encode()) <= PIECE_BYTES
        found, position = found + piece.text, piece.next
    assert found == text


def test_half_a_character_at_the_end_is_told_once_nothing_more_is_written(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"a\xff\xe2\x82")
    piece = read_piece(log, 0, is_whole=False)
    assert (piece.text, piece.next, piece.size) == ("a\ufffd", 2, 4)
    piece = read_piece(log, 0, is_whole=True)
    assert (piece.text, piece.next) == ("a\ufffd\ufffd", 4)
    assert read_piece(log, 100, is_whole=True).text == ""


def test_a_link_is_not_read_as_a_log(tmp_path: Path) -> None:
    (tmp_path / "log.txt").symlink_to("/etc/passwd")
    assert read_piece(tmp_path / "log.txt", 0, is_whole=True).size == 0
