"""How many GPUs a person may have at once on workers: a job over the limit waits, says why, and begins after."""

from __future__ import annotations

import json
from threading import Event
from typing import TYPE_CHECKING

import pytest

from gpuwork.broker import QUEUE
from gpuwork.errors import Elsewhere
from gpuwork.jobs import people
from gpuwork.jobs.one import run_one
from gpuwork.jobs.people import count_free, place_of_owner, read_limits
from gpuwork.jobs.store import read_submission
from gpuwork.worker.keeper import Keeper
from gpuwork.worker.runs import LeashedRuns
from gpuwork.worker.tasks import make_run
from tests.fakes.brokerfolder import count_messages

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real runs


class Submitters:
    """Says who submits next."""

    def __init__(self, limits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limits = limits
        self._monkeypatch = monkeypatch

    def __call__(self, name: str, **more: str) -> None:
        told = {"name": name, "host": "hoff", "known_by": "login", "ssh_from": None, **more}
        self._monkeypatch.setenv("GPUWORK_SUBMITTER", json.dumps(told))


@pytest.fixture
def stop() -> Event:
    return Event()


@pytest.fixture
def submitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitters:
    """Of a cluster in which ann may have one GPU at once, and bob none."""
    limits = tmp_path / "limits"
    limits.write_text("ann 1\nbob 0\n")
    monkeypatch.setattr(people, "LIMITS", limits)
    return Submitters(limits, monkeypatch)


def reasons(queued: Jobs) -> dict[str, str | None]:
    return {row["id"]: row["reason"] for row in queued.rows()}


def test_a_job_over_the_limit_waits_and_says_why(queued: Jobs, submitter: Submitters, stop: Event) -> None:
    submitter("ann")
    first, second = (queued.submitted("true", gpus=1) for _ in range(2))
    submitter("root", person="ann")
    third = queued.submitted("true", gpus=1)
    submitter("carl")
    other = queued.submitted("true", gpus=1)
    submitter("ann")
    without = queued.submitted("true")
    why = "ann has 1 GPU, as many as they may at once"
    with place_of_owner(read_submission(first)) as (_place,):
        assert reasons(queued) == {"1": why, "2": why, "3": why, "4": None, "5": None}
        for folder in (second, third):
            with pytest.raises(Elsewhere, match="as many as they may at once"):
                run_one(folder, 0, stop=stop)
        assert [run_one(folder, 0, stop=stop).state for folder in (other, without)] == ["done", "done"]
    assert set(reasons(queued).values()) == {None}
    assert [run_one(folder, 0, stop=stop).state for folder in (second, third)] == ["done", "done"]


def test_who_may_have_none_waits_for_ever(queued: Jobs, submitter: Submitters, stop: Event) -> None:
    submitter("bob")
    folder = queued.submitted("true", gpus=1)
    assert reasons(queued) == {"1": "bob may have no GPU"}
    with pytest.raises(Elsewhere, match="bob may have no GPU"):
        run_one(folder, 0, stop=stop)
    submitter.limits.write_text("ann 1\n")
    assert run_one(folder, 0, stop=stop).state == "done"


def test_what_was_over_the_limit_begins_when_another_run_ends(
    bed: WorkerBed, queued: Jobs, submitter: Submitters
) -> None:
    submitter("ann")
    first = queued.submitted("true", gpus=1)
    queued.submit("true", gpus=1, count=2)
    runs = LeashedRuns(bed.jobs, mark="w")
    bed.lose_messages()
    with place_of_owner(read_submission(first)):
        assert make_run(bed.app(), runs, "2", 0) == "ann has 1 GPU, as many as they may at once"
        assert not (queued.folder / "2/runs/0").exists()
        keeper = Keeper(bed.app(), bed.jobs, begun=lambda: 0, is_busy=lambda: False)
        assert keeper.look() == []
    assert count_messages(bed.broker, QUEUE) == (0, 0)
    assert make_run(bed.app(), runs, "1", 0) == "done"
    assert count_messages(bed.broker, QUEUE) == (1, 0)
    bed.lose_messages()
    assert keeper.look() == [("2", [0])], "as many as have a place"


def test_garbage_in_place_of_limits_and_of_places_ends_nothing(
    queued: Jobs, submitter: Submitters, stop: Event
) -> None:
    submitter.limits.write_bytes(b"ann\nann two\n\xff\xfe 1\nann 2 3\nbob -1\n")
    assert read_limits() == {"\ufffd\ufffd": 1}
    submitter.limits.write_text("ann 1\n")
    submitter("ann")
    folder = queued.submitted("true", gpus=1)
    (queued.folder / ".people").write_text("no folder")
    assert count_free(read_submission(folder)) == 1
    assert run_one(folder, 0, stop=stop).state == "done"
