"""What the program `gpuwork.jobs` in a node answers, read strictly: root in the node can say anything in its place.

Texts that a job can have written are shortened and made printable here, so that one job cannot hide the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from gpuprov.core.answer_kinds import (
    fields_of,
    is_bool,
    is_list,
    is_string,
    items_of,
    matches,
    number_in,
    or_none,
    pick,
    text_of,
)
from gpuprov.core.excerpt import excerpt
from gpuprov.spec.job_order import SCHEMA as ORDER
from gpuprov.spec.job_order import SubmitOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.answer_kinds import Accepts

JobStatus = Literal["waiting", "running", "done", "failed", "cancelled", "lost"]
PIECE_BYTES: Final = 256 * 1024
SUBMITTED: Final = "gpuprov.job-submitted/v1"
JOBS: Final = "gpuprov.jobs/v1"
SHOWN: Final = "gpuprov.jobs-shown/v1"
LOG: Final = "gpuprov.job-log/v1"
_CHARACTER: Final = 3  # bytes of one that is not there in full
_REASON: Final = 300
_NAME: Final = 255
_MOST_GPUS: Final = 64
_MANY: Final = 1_000_000
_DEEPEST: Final = 20
_NUMBER: Final = r"[1-9][0-9]{0,8}"
SUBMISSION_ID: Final = matches(re.compile(_NUMBER, re.ASCII))
JOB_ID: Final = re.compile(rf"{_NUMBER}(\.(0|[1-9][0-9]{{0,5}}))?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class JobSubmitter:
    """Who handed a job in, as its folder says, in which whoever can submit can write.

    Attributes:
        name: Of an account of `host`.
        known_by: `login` or `user`, which a kernel said, or `claim`.
        ssh_from: The address that ssh came from, as a variable said.
    """

    name: str
    host: str
    known_by: str
    ssh_from: str | None


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """One run of what was submitted.

    Attributes:
        id: Of the submission, such as `7`; run 3 of a submission with a count is `7.3`.
        name: As its user calls it.
        state: `lost` if its plane no longer has it and it left no end.
        tries: How often it was begun.
        node: Where it runs, or ran last.
        gpus: UUIDs of the GPUs that it sees.
        simulated: Whether these are simulated.
        exit_status: Of the command; None if it has not ended, or was ended from outside.
        submitter: Who handed it in; None where the node does not know.
        submitted: When it was handed in; as all times in UTC, such as `2026-11-22T16:40:12Z`, or `?`.
        started: When its last try began.
        ended: When it ended.
        log: Path in the nodes of what it printed.
        reason: Why it waits, failed or is lost.
    """

    id: str
    name: str
    state: JobStatus
    tries: int
    node: str | None
    gpus: tuple[str, ...]
    simulated: bool
    exit_status: int | None
    submitted: str
    started: str | None
    ended: str | None
    log: str
    reason: str | None
    submitter: JobSubmitter | None = None


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """The id of what was submitted, and of each of its runs."""

    id: str
    jobs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class JobList:
    """Jobs, and how many older submissions are left out."""

    jobs: tuple[JobRecord, ...]
    older: int = 0


@dataclass(frozen=True, kw_only=True)
class ShownSubmission:
    """What was submitted at once.

    Attributes:
        submitted: When.
        code: The hash of the project's files.
        folder: Its own, in the nodes.
        slurm: Ids of Slurm's arrays.
        order: What was asked for.
        project: The folder that the project was copied from.
    """

    id: str
    submitted: str
    code: str | None
    folder: str
    slurm: tuple[int, ...]
    order: SubmitOrder
    project: str | None


@dataclass(frozen=True, kw_only=True)
class ShownJobs:
    """Jobs, and what they belong to."""

    jobs: tuple[JobRecord, ...]
    submissions: tuple[ShownSubmission, ...]


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """Part of a job's log.

    Attributes:
        start: The byte at which it begins.
        text: What the log has there.
        next: Where the next piece begins.
        size: Of the whole log, in bytes.
        whole: The job has ended, and nothing comes after this piece.
    """

    id: str
    state: JobStatus
    start: int
    text: str
    next: int
    size: int
    whole: bool


def read_submitted(told: Mapping[str, Any], count: int | None) -> Submitted:
    """What was submitted, in as many runs as were asked for; raises ValueError for anything else."""
    number, jobs = fields_of(told, SUBMITTED, {"id": SUBMISSION_ID, "jobs": is_list})
    expected = [number] if count is None else [f"{number}.{run}" for run in range(count)]
    if jobs != expected:
        raise ValueError("its jobs are not those that were ordered")
    return Submitted(id=number, jobs=tuple(jobs))


def read_jobs(told: Mapping[str, Any]) -> JobList:
    """Jobs; raises ValueError for anything else."""
    more: dict[str, Accepts] = {"older": number_in(0, 10**9)} if "older" in told else {}
    jobs, *older = fields_of(told, JOBS, {"jobs": is_list, **more})
    return JobList(jobs=tuple(map(_read_job, jobs)), older=older[0] if older else 0)


def read_shown(told: Mapping[str, Any]) -> ShownJobs:
    """Jobs and their submissions; raises ValueError for anything else."""
    jobs, submissions = fields_of(told, SHOWN, {"jobs": is_list, "submissions": is_list})
    return ShownJobs(jobs=tuple(map(_read_job, jobs)), submissions=tuple(map(_read_submission, submissions)))


def read_log_piece(told: Mapping[str, Any], *, job: str, start: int) -> LogPiece:
    """Part of the log of a job; raises ValueError for anything else, or for another part."""
    kinds: dict[str, Accepts] = {
        "id": matches(JOB_ID),
        "state": _is_status,
        "text": text_of(PIECE_BYTES),
        "next": number_in(start, start + PIECE_BYTES),
        "size": number_in(0, 2**62),
        "whole": is_bool,
    }
    number, state, text, following, size, is_whole = fields_of(told, LOG, kinds)
    if number.partition(".")[0] != job.partition(".")[0]:
        raise ValueError(f"it is the log of {number}")
    if following < min(size, start + PIECE_BYTES) - _CHARACTER:
        raise ValueError("it is less of the log than there is")
    return LogPiece(id=number, state=state, start=start, text=text, next=following, size=size, whole=is_whole)


def _read_job(told: object) -> JobRecord:
    if not isinstance(told, dict):
        raise ValueError("a job is no object")  # noqa: TRY004
    row = dict(told)
    submitter = row.pop("submitter", None)  # an image of an earlier version tells none
    pick(row, _JOB)
    for name, most in (("node", _NAME), ("reason", _REASON)):
        row[name] = None if row[name] is None else excerpt(row[name], most)
    if submitter is not None:
        pick(submitter, _SUBMITTER)
        submitter = JobSubmitter(**cast("dict[str, Any]", submitter))
    return JobRecord(**{**row, "gpus": tuple(row["gpus"][:_MOST_GPUS]), "submitter": submitter})


def _read_submission(told: object) -> ShownSubmission:
    number, submitted, code, folder, slurm, order = pick(told, _SUBMISSION)
    pick(order, _ORDER)
    fields = {name: order[name] for name in _ORDER if name not in ("schema", "version", "project")}
    asked = SubmitOrder(**{**fields, "command": tuple(order["command"])})
    return ShownSubmission(
        id=number, submitted=submitted, code=code, folder=folder, slurm=tuple(slurm), order=asked,
        project=order["project"],
    )  # fmt: skip


def _is_shallow(value: object, depth: int = 0) -> bool:
    """Whether a value can be written as JSON again, however it was nested."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth <= _DEEPEST and all(_is_shallow(item, depth + 1) for item in inner)


def _is_status(value: object) -> bool:
    return isinstance(value, str) and value in get_args(JobStatus)


_MOMENT: Final = matches(re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII))
_PATH: Final = matches(re.compile(r"/[^\x00-\x1f\x7f\ud800-\udfff]{0,4095}"))
_NAMED: Final = matches(re.compile(r"[A-Za-z0-9._:?-]{0,64}", re.ASCII))
_JOB: Final[Mapping[str, Accepts]] = {
    "id": matches(JOB_ID),
    "name": _NAMED,
    "state": _is_status,
    "tries": number_in(0, _MANY),
    "node": or_none(is_string),
    "gpus": items_of(matches(re.compile(r"[A-Za-z0-9/-]{1,100}", re.ASCII))),
    "simulated": is_bool,
    "exit_status": or_none(number_in(0, 255)),
    "submitted": lambda value: value == "?" or _MOMENT(value),
    "started": or_none(_MOMENT),
    "ended": or_none(_MOMENT),
    "log": _PATH,
    "reason": or_none(is_string),
}
_SUBMITTER: Final[Mapping[str, Accepts]] = {
    "name": matches(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@$-]{0,63}", re.ASCII)),
    "host": matches(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)),
    "known_by": lambda value: value in ("login", "user", "claim"),
    "ssh_from": or_none(matches(re.compile(r"[0-9A-Fa-f.:%a-z]{2,64}", re.ASCII))),
}
_SUBMISSION: Final[Mapping[str, Accepts]] = {
    "id": SUBMISSION_ID,
    "submitted": _MOMENT,
    "code": or_none(matches(re.compile(r"[0-9a-f]{64}", re.ASCII))),
    "folder": _PATH,
    "slurm": items_of(number_in(0, 2**32)),
    "order": lambda value: isinstance(value, dict),
}
_ORDER: Final[Mapping[str, Accepts]] = {
    "schema": lambda value: value == ORDER,
    "version": number_in(1, 1),
    "command": items_of(is_string),
    "function": or_none(text_of(1000)),
    "arguments": lambda value: isinstance(value, dict) and _is_shallow(value),
    "project": or_none(_PATH),
    "name": or_none(_NAMED),
    "count": or_none(number_in(1, _MANY)),
    "at_most": or_none(number_in(1, _MANY)),
    "time_limit_s": or_none(number_in(1, 2**40)),
    "memory_bytes": or_none(number_in(1, 2**60)),
    "gpus": number_in(0, 1000),
    "retries": number_in(0, 1000),
}
