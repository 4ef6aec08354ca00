"""What the program `gpuwork.jobs` in a node answers, read strictly: root in the node can say anything in its place.

Texts that a job can have written are shortened and made printable here, so that one job cannot hide the others.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from gpuprov.core.excerpt import excerpt
from gpuprov.spec.job_order import SCHEMA as ORDER
from gpuprov.spec.job_order import SubmitOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Accepts = Callable[[object], bool]

JobStatus = Literal["waiting", "running", "done", "failed", "cancelled", "lost"]
PIECE_BYTES: Final = 256 * 1024
SUBMITTED: Final = "gpuprov.job-submitted/v1"
JOBS: Final = "gpuprov.jobs/v1"
SHOWN: Final = "gpuprov.jobs-shown/v1"
LOG: Final = "gpuprov.job-log/v1"
WORKERS: Final = "gpuprov.workers/v1"
ERROR: Final = "gpuprov.error/v1"
_CHARACTER: Final = 3  # bytes of one that is not there in full
_REASON: Final = 300
_NAME: Final = 255
_MANY: Final = 1_000_000
_DEEPEST: Final = 20
_NUMBER: Final = r"[1-9][0-9]{0,8}"
JOB_ID: Final = re.compile(rf"{_NUMBER}(\.(0|[1-9][0-9]{{0,5}}))?", re.ASCII)


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
        submitted: When it was handed in; as all times in UTC, such as `2026-11-22T16:40:12Z`, or `?`.
        started: When its last try began.
        ended: When its last try ended.
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


@dataclass(frozen=True, kw_only=True)
class WorkerRecord:
    """A process that takes work from a queue, for one GPU.

    Attributes:
        name: UUID of its GPU, @, and its node.
        pid: Of its process, in the node.
        gpu: UUID of the GPU that its work sees.
        busy: Whether it is at a run or another task.
        task_gpu: UUID of the GPU that a task on it saw just now; None if it was busy.
    """

    name: str
    node: str
    pid: int
    gpu: str
    busy: bool
    task_gpu: str | None


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """An error of the program's, in its own words."""

    what: str
    evidence: str
    fix: str
    exit_code: int


def parse_job_answer(text: str) -> dict[str, Any]:
    """The document of an answer; raises ValueError where it is none."""

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

    try:
        told = json.loads(text, object_pairs_hook=_unique, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(told, dict) or type(told.get("version")) is not int or told["version"] != 1:
        raise ValueError("it is not a document of version 1")
    return told


def read_complaint(told: Mapping[str, Any]) -> Complaint | None:
    """The error that an answer is; None where it is none. Raises ValueError for a wrong one."""
    if told.get("schema") != ERROR:
        return None
    (error,) = _fields(told, ERROR, {"error": lambda value: isinstance(value, dict)})
    texts = {name: _text(100_000) for name in ("what", "evidence", "fix")}
    what, evidence, fix, code = _pick(error, {**texts, "exit_code": _whole(1, 255)})
    return Complaint(what=what, evidence=evidence, fix=fix, exit_code=code)


def read_submitted(told: Mapping[str, Any], count: int | None) -> Submitted:
    """What was submitted, in as many runs as were asked for; raises ValueError for anything else."""
    number, jobs = _fields(told, SUBMITTED, {"id": _matching(re.compile(_NUMBER)), "jobs": _is_list})
    expected = [number] if count is None else [f"{number}.{run}" for run in range(count)]
    if jobs != expected:
        raise ValueError("its jobs are not those that were ordered")
    return Submitted(id=number, jobs=tuple(jobs))


def read_jobs(told: Mapping[str, Any]) -> JobList:
    """Jobs; raises ValueError for anything else."""
    more: dict[str, Accepts] = {"older": _whole(0, 10**9)} if "older" in told else {}
    jobs, *older = _fields(told, JOBS, {"jobs": _is_list, **more})
    return JobList(jobs=tuple(map(_read_job, jobs)), older=older[0] if older else 0)


def read_shown(told: Mapping[str, Any]) -> ShownJobs:
    """Jobs and their submissions; raises ValueError for anything else."""
    jobs, submissions = _fields(told, SHOWN, {"jobs": _is_list, "submissions": _is_list})
    return ShownJobs(jobs=tuple(map(_read_job, jobs)), submissions=tuple(map(_read_submission, submissions)))


def read_log_piece(told: Mapping[str, Any], *, job: str, start: int) -> LogPiece:
    """Part of the log of a job; raises ValueError for anything else, or for another part."""
    kinds: dict[str, Accepts] = {
        "id": _matching(JOB_ID),
        "state": _is_status,
        "text": _text(PIECE_BYTES),
        "next": _whole(start, start + PIECE_BYTES),
        "size": _whole(0, 2**62),
        "whole": _is_flag,
    }
    number, state, text, following, size, whole = _fields(told, LOG, kinds)
    if number.partition(".")[0] != job.partition(".")[0]:
        raise ValueError(f"it is the log of {number}")
    if following < min(size, start + PIECE_BYTES) - _CHARACTER:
        raise ValueError("it is less of the log than there is")
    return LogPiece(id=number, state=state, start=start, text=text, next=following, size=size, whole=whole)


def read_workers(told: Mapping[str, Any]) -> tuple[WorkerRecord, ...]:
    """The workers that answered; raises ValueError for anything else."""
    workers, _ = _fields(told, WORKERS, {"workers": _is_list, "waiting": _whole(0, 2**40)})
    return tuple(WorkerRecord(**dict(zip(_WORKER, _pick(one, _WORKER), strict=True))) for one in workers)


def _read_job(told: object) -> JobRecord:
    _pick(told, _JOB)
    row = dict(cast("dict[str, Any]", told))
    for name, most in (("node", _NAME), ("reason", _REASON)):
        row[name] = None if row[name] is None else excerpt(row[name], most)
    return JobRecord(**{**row, "gpus": tuple(row["gpus"])})


def _read_submission(told: object) -> ShownSubmission:
    number, submitted, code, folder, slurm, order = _pick(told, _SUBMISSION)
    _pick(order, _ORDER)
    fields = {name: order[name] for name in _ORDER if name not in ("schema", "version", "project")}
    asked = SubmitOrder(**{**fields, "command": tuple(order["command"])})
    return ShownSubmission(
        id=number, submitted=submitted, code=code, folder=folder, slurm=tuple(slurm), order=asked,
        project=order["project"],
    )  # fmt: skip


def _unique(found: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(found)
    if len(told) < len(found):
        raise ValueError("it has a key twice")
    return told


def _fields(told: Mapping[str, Any], schema: str, kinds: Mapping[str, Accepts]) -> list[Any]:
    """The values of a document of that schema that has these keys and no others."""
    if told.get("schema") != schema:
        raise ValueError(f"its schema is not {schema}")
    return _pick({name: told[name] for name in told if name not in ("schema", "version")}, kinds)


def _pick(told: object, kinds: Mapping[str, Accepts]) -> list[Any]:
    """The values of an object that has these keys and no others, each of its kind."""
    if not isinstance(told, dict) or told.keys() != kinds.keys():
        raise ValueError(f"an object has other keys than {', '.join(kinds)}")
    wrong = [name for name, is_right in kinds.items() if not is_right(told[name])]
    if wrong:
        raise ValueError(f"{wrong[0]} is {str(told[wrong[0]])[:100]!r}")
    return [told[name] for name in kinds]


def _is_text(value: object) -> bool:
    """A string without halves of characters, which could not be shown."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _text(most: int) -> Accepts:
    return lambda value: _is_text(value) and len(cast("str", value)) <= most


def _matching(pattern: re.Pattern[str]) -> Accepts:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _whole(low: int, high: int) -> Accepts:
    return lambda value: type(value) is int and low <= value <= high


def _or_none(kind: Accepts) -> Accepts:
    return lambda value: value is None or kind(value)


def _listing(kind: Accepts) -> Accepts:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_shallow(value: object, depth: int = 0) -> bool:
    """Whether a value can be written as JSON again, however it was nested."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth <= _DEEPEST and all(_is_shallow(item, depth + 1) for item in inner)


def _is_status(value: object) -> bool:
    return isinstance(value, str) and value in get_args(JobStatus)


_MOMENT: Final = _matching(re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII))
_PATH: Final = _matching(re.compile(r"/[^\x00-\x1f\x7f\ud800-\udfff]{0,4095}"))
_NAMED: Final = _matching(re.compile(r"[A-Za-z0-9._:?-]{0,64}", re.ASCII))
_PRINTED: Final = _matching(re.compile(r"[!-~]{1,300}", re.ASCII))
_JOB: Final[Mapping[str, Accepts]] = {
    "id": _matching(JOB_ID),
    "name": _NAMED,
    "state": _is_status,
    "tries": _whole(0, _MANY),
    "node": _or_none(_is_text),
    "gpus": _listing(_matching(re.compile(r"[A-Za-z0-9/-]{1,100}", re.ASCII))),
    "simulated": _is_flag,
    "exit_status": _or_none(_whole(0, 255)),
    "submitted": lambda value: value == "?" or _MOMENT(value),
    "started": _or_none(_MOMENT),
    "ended": _or_none(_MOMENT),
    "log": _PATH,
    "reason": _or_none(_is_text),
}
_WORKER: Final[Mapping[str, Accepts]] = {
    "name": _PRINTED,
    "node": _PRINTED,
    "pid": _whole(1, 2**32),
    "gpu": _PRINTED,
    "busy": _is_flag,
    "task_gpu": _or_none(_PRINTED),
}
_SUBMISSION: Final[Mapping[str, Accepts]] = {
    "id": _matching(re.compile(_NUMBER, re.ASCII)),
    "submitted": _MOMENT,
    "code": _or_none(_matching(re.compile(r"[0-9a-f]{64}", re.ASCII))),
    "folder": _PATH,
    "slurm": _listing(_whole(0, 2**32)),
    "order": lambda value: isinstance(value, dict),
}
_ORDER: Final[Mapping[str, Accepts]] = {
    "schema": lambda value: value == ORDER,
    "version": _whole(1, 1),
    "command": _listing(_is_text),
    "function": _or_none(_text(1000)),
    "arguments": lambda value: isinstance(value, dict) and _is_shallow(value),
    "project": _or_none(_PATH),
    "name": _or_none(_NAMED),
    "count": _or_none(_whole(1, _MANY)),
    "at_most": _or_none(_whole(1, _MANY)),
    "time_limit_s": _or_none(_whole(1, 2**40)),
    "memory_bytes": _or_none(_whole(1, 2**60)),
    "gpus": _whole(0, 1000),
    "retries": _whole(0, 1000),
}
