"""What a run leaves of itself: how often it was begun, where, and how its last try ended. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gpuwork.strict import (
    exactly,
    is_flag,
    is_moment,
    listing,
    matching,
    optional,
    parse_strict_json,
    read_fields,
    text_up_to,
    whole,
)

if TYPE_CHECKING:
    from gpuwork.jobs.job import JobState
    from gpuwork.where import Where

SCHEMA: Final = "gpuprov.job-run/v1"
LOST_TRIES: Final = 3
MOST_GPUS: Final = 64
MOST_BYTES: Final = 64 * 1024
_MANY: Final = 1_000_000
_FIELDS: Final = {
    "schema": exactly(SCHEMA),
    "version": exactly(1),
    "state": exactly("waiting", "running", "done", "failed", "cancelled"),
    "tries": whole(0, _MANY),
    "failed": whole(0, _MANY),
    "lost": whole(0, _MANY),
    "node": optional(text_up_to(255)),
    "gpus": listing(matching(r"[A-Za-z0-9/-]{1,100}"), most=MOST_GPUS),
    "simulated": is_flag,
    "image": optional(text_up_to(255)),
    "started": optional(is_moment),
    "ended": optional(is_moment),
    "exit_status": optional(whole(0, 255)),
    "reason": optional(text_up_to(1000)),
}


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run as its folder has it.

    Attributes:
        state: `waiting` between two tries.
        tries: How often it was begun.
        failed: How many of these tries failed.
        lost: How many were killed, so that nothing is known of how they would have ended.
        image: The fingerprint of the node's image.
    """

    state: JobState = "waiting"
    tries: int = 0
    failed: int = 0
    lost: int = 0
    node: str | None = None
    gpus: tuple[str, ...] = ()
    simulated: bool = False
    image: str | None = None
    started: str | None = None
    ended: str | None = None
    exit_status: int | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class TryEnd:
    """How a try ended.

    Attributes:
        kind: `lost` if it was killed; `waiting` if it was stopped from outside and may be begun again.
        exit_status: Of the command; None if it was ended.
        reason: Why it is not done.
        is_final: Whether another try would fail in the same way.
    """

    kind: JobState
    exit_status: int | None = None
    reason: str | None = None
    is_final: bool = False


def begin_try(record: RunRecord, where: Where, *, at: str) -> RunRecord:
    """A run whose next try begins."""
    return replace(
        record,
        state="running",
        tries=record.tries + 1,
        node=where.node,
        gpus=where.gpus,
        simulated=where.simulated,
        image=where.image,
        started=at,
        ended=None,
        exit_status=None,
        reason=None,
    )


def end_try(record: RunRecord, end: TryEnd, *, retries: int, at: str) -> RunRecord:
    """A run whose try ended: as its last one, or `waiting` for the next.

    A try that failed counts against the retries. One that was killed says nothing of the run, so there are
    `LOST_TRIES` more of them. After one that is final there is none.
    """
    failed, lost = record.failed + (end.kind == "failed"), record.lost + (end.kind == "lost")
    state, reason = end.kind, end.reason
    if end.kind == "failed" and failed <= retries and not end.is_final:
        state = "waiting"
    if end.kind == "lost":
        is_last = lost > retries + LOST_TRIES
        state = "failed" if is_last else "waiting"
        reason = f"{lost} tries were killed; of the last one: {reason}" if is_last else reason
    return replace(record, state=state, failed=failed, lost=lost, ended=at, exit_status=end.exit_status, reason=reason)


def record_document(record: RunRecord) -> dict[str, Any]:
    """The record as JSON."""
    return {"schema": SCHEMA, "version": 1, **asdict(record), "gpus": list(record.gpus)}


def parse_record(content: bytes) -> RunRecord:
    """A record; raises ValueError for what is none."""
    told = read_fields(parse_strict_json(content), _FIELDS)
    fields = {name: value for name, value in told.items() if name not in ("schema", "version")}
    return RunRecord(**{**fields, "gpus": tuple(fields["gpus"])})
