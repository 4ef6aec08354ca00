"""When commands of jobs ran: what Docker keeps of containers, and the last 256 events of all, which go with dockerd.

A container has the last start and the last end alone, and goes with its removal. Events have every start and end, also
of what was removed, with the labels that it had.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.silence_limit import silence_limit_s
from gpuprov.drivers.base import LABEL_ROLE, ROLE_JOB
from gpuprov.drivers.docker.api import NotFound
from gpuprov.drivers.docker.documents import blueprint_of, parse_labels
from gpuprov.drivers.job_times import JobTimes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpuprov.drivers.docker.api import DockerApi

_MOST_BYTES: Final = 16 * 1024**2
_OURS: Final = f"{LABEL_ROLE}={ROLE_JOB}"
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?Z", re.ASCII)
_NEVER: Final = "0001"  # the year of what has not happened
_NANO: Final = 10**9


def read_times(api: DockerApi, names: Collection[str] | None) -> list[JobTimes]:
    """Ask for both, the containers first: what is removed meanwhile is among the events."""
    wanted = _list_jobs(api) if names is None else names
    inspected = []
    for one in wanted:
        with contextlib.suppress(NotFound):
            inspected.append(api.get(f"/containers/{one}/json"))
    filters: dict[str, list[str]] = {"type": ["container"], "event": ["start", "die"], "label": [_OURS]}
    if names is not None:
        filters["container"] = list(names)
    asked = {"since": "1", "until": f"{time.time():.9f}", "filters": filters}
    with api.reading("/events", timeout_s=silence_limit_s(), **asked) as events:
        text = events.read(_MOST_BYTES)
    return parse_times(inspected, map(json.loads, text.splitlines()))


def _list_jobs(api: DockerApi) -> list[str]:
    return [str(one["Id"]) for one in api.get("/containers/json", all=1, filters={"label": [_OURS]})]


@dataclass
class _Job:
    name: str
    labels: Mapping[str, str]
    marks: list[tuple[float, bool]] = field(default_factory=list)
    there: bool = False
    running: bool = False


def parse_times(inspected: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]) -> list[JobTimes]:
    """The jobs of inspected containers and of events; what gpuprov did not make is none."""
    jobs: dict[str, _Job] = {}
    for document in inspected:
        labels = _labels_of(document["Id"], document["Name"], document["Config"]["Labels"])
        if labels is None:
            continue
        state = document["State"]
        began, ended = parse_time(state["StartedAt"]), parse_time(state["FinishedAt"])
        marks = [(second, begins) for second, begins in ((began, True), (ended, False)) if second is not None]
        jobs[document["Id"]] = _Job(
            name=document["Name"].removeprefix("/"),
            labels=labels,
            marks=marks,
            there=True,
            running=bool(state["Running"]) and not state.get("Restarting"),
        )
    ends = {identity: max((s for s, begins in job.marks if not begins), default=0.0) for identity, job in jobs.items()}
    for event in events:
        identity, told = event["Actor"]["ID"], event["Actor"]["Attributes"]
        labels = _labels_of(identity, told.get("name", ""), told)
        if labels is None:
            continue
        job = jobs.setdefault(identity, _Job(name=told["name"], labels=labels))
        second, begins = event["timeNano"] / _NANO, event["Action"] == "start"
        if begins and job.there and not job.running and second > ends[identity]:
            continue  # of a command so short that Docker tells its start after its end
        job.marks.append((second, begins))
    return [
        JobTimes(
            id=identity,
            name=job.name,
            labels=job.labels,
            marks=tuple(job.marks),
            there=job.there,
            running=job.running,
        )
        for identity, job in jobs.items()
    ]


def _labels_of(identity: str, name: str, labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """A job's own labels; None where it is none, or has them from a container that it was copied from."""
    listed = {"Id": identity, "Names": [f"/{name.removeprefix('/')}"], "Labels": labels or {}}
    blueprint = blueprint_of(listed)
    if blueprint is None or not blueprint.job:
        return None
    return parse_labels({key: value for key, value in (labels or {}).items() if key in blueprint.own_labels})


def parse_time(text: object) -> float | None:
    """A moment as Docker writes it, in seconds since 1970; None where it has not come."""
    found = _TIME.fullmatch(str(text or ""))
    if found is None or found[1].startswith(_NEVER):
        return None
    moment = datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return moment.timestamp() + float(found[2] or 0)
