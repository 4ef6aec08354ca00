"""`gpuprov jobs --state --last`."""

from __future__ import annotations

import pytest

from gpuprov.roles.work.job_choice import JobChoice
from gpuprov.shapes.jobs import Job, Jobs

STATES = {"9": "done", "10.0": "failed", "10.1": "done", "11": "running"}
LISTED = Jobs(
    jobs=tuple(
        Job(id=id_, name="x", state=state, submitted="?", log="/l")  # type: ignore[arg-type]
        for id_, state in STATES.items()
    )
)


@pytest.mark.parametrize(
    ("states", "last", "expected"),
    [
        ((), None, ["9", "10.0", "10.1", "11"]),
        ((), 2, ["10.0", "10.1", "11"]),
        (("done",), None, ["9", "10.1"]),
        (("done", "failed"), 1, ["10.0", "10.1"]),
        (("lost",), 5, []),
    ],
)
def test_jobs_are_chosen_by_state_and_of_those_the_newest(
    states: tuple[str, ...], last: int | None, expected: list[str]
) -> None:
    chosen = JobChoice(states=frozenset(states), last=last).of(LISTED)
    assert [job.id for job in chosen.jobs] == expected
