"""When commands of jobs ran, as Docker says it of containers and by events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuprov.drivers.base import NodeRequest
from gpuprov.drivers.docker.blueprint import NODE_LABEL, dump_blueprint, plan_blueprint
from gpuprov.drivers.docker.job_times import parse_time, parse_times

LABELS = {"gpuprov.cluster": "(jobs)", "gpuprov.role": "job", "gpuprov.gpus": "GPU-1", "gpuprov.submitter": "ann"}
REQUEST = NodeRequest(name="train.run", image="base", labels=LABELS)
NEVER = "0001-01-01T00:00:00Z"


def labels(*, job: bool = True, name: str = "train.run") -> dict[str, str]:
    blueprint = plan_blueprint(replace(REQUEST, name=name), uid="u1", job=job)
    return {**LABELS, NODE_LABEL: dump_blueprint(blueprint)}


def inspected(began: str, ended: str, *, running: bool = False, **more: Any) -> dict[str, Any]:
    state = {"StartedAt": began, "FinishedAt": ended, "Running": running, "Restarting": False, **more}
    return {"Id": "a", "Name": "/train.run", "Config": {"Labels": labels()}, "State": state}


def event(action: str, second: float, identity: str = "a", **attributes: str) -> dict[str, Any]:
    told = {"name": "train.run", "image": "base", **labels(), **attributes}
    return {"Action": action, "timeNano": int(second * 10**9), "Actor": {"ID": identity, "Attributes": told}}


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T00:01:00.25Z", 60.25),
        ("1970-01-01T00:01:00.123456789Z", 60.123456789),
        (NEVER, None),
        ("", None),
        (None, None),
        ("soon", None),
    ],
)
def test_a_moment_is_read(text: str | None, second: float | None) -> None:
    assert parse_time(text) == (None if second is None else pytest.approx(second))


def test_a_container_tells_its_last_start_and_its_last_end() -> None:
    (job,) = parse_times([inspected("1970-01-01T00:01:00Z", NEVER, running=True)], [])
    assert (job.id, job.name, job.marks, job.there, job.running) == ("a", "train.run", ((60.0, True),), True, True)
    assert job.labels == LABELS
    (job,) = parse_times([inspected("1970-01-01T00:01:00Z", "1970-01-01T00:00:50Z", running=True)], [])
    assert set(job.marks) == {(60.0, True), (50.0, False)}
    (job,) = parse_times([inspected(NEVER, NEVER)], [])
    assert (job.marks, job.running) == ((), False)
    (job,) = parse_times([inspected("1970-01-01T00:01:00Z", NEVER, running=True, Restarting=True)], [])
    assert job.running is False


def test_events_tell_of_what_was_removed() -> None:
    (job,) = parse_times([], [event("start", 60), event("die", 61.5, exitCode="0")])
    assert (job.marks, job.there, job.running) == (((60.0, True), (61.5, False)), False, False)
    assert job.labels["gpuprov.submitter"] == "ann"


def test_a_command_so_short_that_its_start_is_told_after_its_end_ran_once() -> None:
    there = inspected("1970-01-01T00:01:00Z", "1970-01-01T00:01:00.01Z")
    (job,) = parse_times([there], [event("start", 60.02), event("die", 60.04)])
    assert [second for second, begins in job.marks if begins] == [60.0]


@pytest.mark.parametrize(
    "attributes",
    [
        {"name": "other"},  # a container that somebody made of its image
        {NODE_LABEL: ""},
        {NODE_LABEL: "{"},
        {NODE_LABEL: labels(job=False)[NODE_LABEL]},
    ],
)
def test_what_is_no_job_of_ours_is_left_out(attributes: dict[str, str]) -> None:
    assert parse_times([], [event("die", 60, **attributes)]) == []
