"""What Docker is told of jobs, and what it says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers.base import JobTerms, NodeRequest
from gpuprov.drivers.docker.blueprint import NODE_LABEL, dump_blueprint, plan_blueprint
from gpuprov.drivers.docker.job_documents import add_terms, parse_job
from gpuprov.shapes.node import Exposure
from tests.unit.drivers.test_docker_documents import render

if TYPE_CHECKING:
    from gpuprov.drivers.base import JobState

LABELS = {"gpuprov.cluster": "(jobs)", "gpuprov.role": "job", "gpuprov.fingerprint": "f"}
REQUEST = NodeRequest(name="train.run", image="base", labels=LABELS, environment={"A": "b"})


def body(terms: JobTerms, name: str = "train.run") -> dict[str, Any]:
    request = replace(REQUEST, name=name, terms=terms)
    return add_terms(render(request, job=True), terms, name)


def test_a_job_in_the_foreground_goes_with_its_command() -> None:
    made = body(JobTerms(), name="job-00112233")
    assert made["HostConfig"]["AutoRemove"] is True
    assert made["HostConfig"]["RestartPolicy"] == {"Name": "no"}
    assert (made["User"], made["Hostname"]) == ("", "job-00112233")
    assert (made["Tty"], made["OpenStdin"]) == (False, False)


def test_a_detached_one_stays_and_has_all_that_was_asked_for() -> None:
    exposure = Exposure(host_port=8080, node_port=80)
    made = body(
        JobTerms(
            detached=True, restart="on-failure", tries=3, user="1000:1000", published=(exposure,), unset=("OF_IMAGE",)
        )
    )
    host = made["HostConfig"]
    assert (host["AutoRemove"], host["RestartPolicy"]) == (False, {"Name": "on-failure", "MaximumRetryCount": 3})
    assert host["PortBindings"] == {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]}
    assert (made["User"], made["Hostname"]) == ("1000:1000", "train")
    assert "A=b" in made["Env"]
    assert "OF_IMAGE" in made["Env"], "without a value, Docker takes the image's away"


def test_one_with_a_terminal_has_a_standard_input_that_ends_with_ours() -> None:
    made = body(JobTerms(reads=True, terminal=True))
    assert [made[key] for key in ("Tty", "OpenStdin", "StdinOnce", "AttachStdin")] == [True] * 4
    assert made["HostConfig"]["AutoRemove"] is True


def listed(state: str, status: str, *, job: bool = True) -> JobState | None:
    blueprint = plan_blueprint(REQUEST, uid="u1", job=job)
    return parse_job(
        {
            "Id": "0" * 64,
            "Names": ["/train.run"],
            "Labels": {**LABELS, NODE_LABEL: dump_blueprint(blueprint)},
            "State": state,
            "Status": status,
            "Command": "python3 train.py",
            "Created": 1764313200,
            "HostConfig": {"NetworkMode": "bridge"},
        }
    )


@pytest.mark.parametrize(
    ("state", "status", "code", "complete"),
    [
        ("running", "Up 5 minutes", None, True),
        ("exited", "Exited (137) 2 hours ago", 137, True),
        ("exited", "Exited (0) 1 second ago", 0, True),
        ("restarting", "Restarting (1) 3 seconds ago", None, True),
        ("created", "Created", None, False),
    ],
)
def test_how_far_a_job_is(state: str, status: str, code: int | None, *, complete: bool) -> None:
    job = listed(state, status)
    assert job is not None
    assert (job.state, job.words, job.exit_code, job.node.complete) == (state, status, code, complete)
    assert (job.node.name, job.command, job.created) == ("train.run", "python3 train.py", "2025-11-28T07:00:00Z")


def test_a_node_is_no_job() -> None:
    assert listed("running", "Up 5 minutes", job=False) is None
