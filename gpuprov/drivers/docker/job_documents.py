"""What Docker is told of a job besides what every node has, and what it says of one: pure functions."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from gpuprov.core.names import name_of_run
from gpuprov.drivers.base import JobState
from gpuprov.drivers.docker.documents import blueprint_of, parse_container

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.base import JobTerms

_ENDED = re.compile(r"Exited \((\d{1,3})\)")


def add_terms(body: Mapping[str, Any], terms: JobTerms, name: str) -> dict[str, Any]:
    """The body that makes a job's container, with its terms in it.

    Args:
        body: As it would make a node of the same blueprint.
        terms: The job's.
        name: Of its container.
    """
    policy: dict[str, Any] = {"Name": terms.restart}
    if terms.tries:
        policy["MaximumRetryCount"] = terms.tries
    return {
        **body,
        "Hostname": name_of_run(name),
        "User": terms.user,
        "Env": [*body["Env"], *terms.unset],  # a name without a value takes the image's away
        "Tty": terms.terminal,
        "OpenStdin": terms.reads,
        "StdinOnce": terms.reads,
        "AttachStdin": terms.reads,
        "HostConfig": {**body["HostConfig"], "AutoRemove": not terms.detached, "RestartPolicy": policy},
    }


def parse_job(document: Mapping[str, Any]) -> JobState | None:
    """The job that a listed container is; None where it is none of ours."""
    blueprint = blueprint_of(document)
    if blueprint is None or not blueprint.job:
        return None
    words = str(document.get("Status") or "")
    ended = _ENDED.match(words)
    created = dt.datetime.fromtimestamp(int(document.get("Created") or 0), tz=dt.timezone.utc)
    return JobState(
        node=parse_container(document, labels={}),
        state=str(document["State"]),
        words=words or str(document["State"]),
        command=str(document.get("Command") or ""),
        created=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        exit_code=int(ended[1]) if ended else None,
    )
