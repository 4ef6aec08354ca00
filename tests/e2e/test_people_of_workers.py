"""People on a queue of workers: whose a job is, and how many GPUs they may have at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

SPEC = """\
jobs: {submit_as: true}
people: [{name: ann, uid: 10001, gpus: 1}, {name: bob, uid: 10002}]
"""


class Queue:
    """A cluster of two workers, and jobs of people."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.here = ("--cluster", place.cluster)

    def submit(self, person: str, seconds: int) -> str:
        argv = ("submit", *self.here, "--as", person, "--no-project", "--", "sleep", str(seconds))
        return self.gpuprov(*argv).stdout.strip()

    def job(self, number: str) -> dict[str, Any]:
        found: dict[str, Any] = self.gpuprov.json("jobs", "show", number, *self.here)["jobs"][0]
        return found

    def wait_for(self, number: str, state: str) -> None:
        wait = Wait(what=f"job {number}", timeout_s=90, fix="gpuprov jobs", interval_s=0.5)
        wait.until(lambda: self.job(number)["state"], lambda found: found == state)


@pytest.fixture(scope="module")
def queue(gpuprov: Gpuprov, place: Place, lxc: object) -> Iterator[Queue]:  # noqa: ARG001
    file = gpuprov.folder / "people.yaml"
    file.write_text(place.spec(nodes="role: worker", gpus="per_node: 1", share="true") + SPEC)
    gpuprov("cluster", "up", "-f", str(file), "--no-verify")
    yield Queue(gpuprov, place)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


def test_a_job_over_the_limit_waits_says_why_and_begins_when_another_ends(queue: Queue) -> None:
    first = queue.submit("ann", 600)
    queue.wait_for(first, "running")
    second = queue.submit("ann", 0)
    other = queue.submit("bob", 0)
    queue.wait_for(other, "done")  # by the worker that is free
    waiting = queue.job(second)
    assert (waiting["state"], waiting["reason"]) == ("waiting", "ann has 1 GPU, as many as they may at once")
    assert waiting["submitter"]["person"] == "ann"
    assert queue.gpuprov.in_node(queue.place.node(1), "cat", "/etc/gpuprov/people/limits") == "ann 1\n"
    refused = queue.gpuprov("person", "rm", "ann", *queue.here, expect=2).stderr
    assert f"{second} of ann (sleep) waiting" in refused
    queue.gpuprov("jobs", "cancel", first, *queue.here, "--as", "ann")
    queue.wait_for(second, "done")
    listed = queue.gpuprov.json("jobs", *queue.here, "--as", "ann")["jobs"]
    assert {job["id"] for job in listed} == {first, second}
    assert "is not of ann" in queue.gpuprov("jobs", "logs", other, *queue.here, "--as", "ann", expect=2).stderr
    rows = queue.gpuprov.json("usage", *queue.here, "--by", "person")["rows"]
    assert {row["name"] for row in rows} == {"ann", "bob"}
