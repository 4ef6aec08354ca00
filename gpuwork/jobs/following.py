"""Whether a submission may begin that follows others: all of their runs have to be done before. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from msgspec import UNSET

from gpuprov.shapes.jobs import ENDED, LIVE
from gpuwork.errors import Refused, StoreError
from gpuwork.jobs.store import SUBMITTED, is_cancelled, list_open, read_run_record, read_submission
from gpuwork.untrusted_files import has_entry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.shapes.job_order import JobOrder
    from gpuwork.jobs.store import Submission

MAY: Final = "may"
WAITS: Final = "waits"
Verdict = tuple[Literal["may", "waits", "never"], str]
_DEEPEST: Final = 200  # jobs after jobs that are looked at


def earlier_of(order: JobOrder) -> tuple[str, ...]:
    """The ids of the submissions that an order follows."""
    return () if order.after is UNSET else tuple(order.after)


def judge(store: Path, order: JobOrder, *, depth: int = 0) -> Verdict:
    """Whether the runs of an order may begin, have to wait, or never begin; and why.

    Args:
        store: The folder of jobs.
        order: The order.
        depth: How many jobs follow this one, on the way here.
    """
    waits = ""
    for id_ in earlier_of(order):
        state, why = _judge_one(store, id_, depth)
        if state == "never":
            return state, why
        waits = waits or (why if state == WAITS else "")
    return (WAITS, waits) if waits else (MAY, "")


def _judge_one(store: Path, id_: str, depth: int) -> Verdict:
    if not has_entry(store / id_ / SUBMITTED):
        return "never", f"follows {id_}, which is not there any more"
    try:
        earlier = read_submission(store / id_)
    except StoreError:
        return "never", f"follows {id_}, whose records were changed"
    waits = False
    for number in range(earlier.order.runs):
        state = read_run_record(earlier.run_folder(number)).state
        if state == "done":
            continue
        if state in ENDED or (state == "waiting" and is_cancelled(earlier, number)):
            words = "was cancelled" if state not in ENDED or state == "cancelled" else state
            return "never", f"follows {earlier.run_id(number)}, which {words}"
        waits = True
    if waits and earlier_of(earlier.order) and depth < _DEEPEST:
        verdict, _ = judge(store, earlier.order, depth=depth + 1)
        if verdict == "never":
            return "never", f"follows {id_}, which never begins"
    return (WAITS, f"waits for {id_}") if waits else (MAY, "")


def require_earlier(store: Path, order: JobOrder, *, system: str) -> list[Submission]:
    """The submissions that an order follows and that have not ended.

    Raises:
        Refused: One is not there, is another system's, or did not end as it should.
    """
    found = []
    for id_ in earlier_of(order):
        state, why = _judge_one(store, id_, 0)
        fix = f"python3 -m gpuwork.jobs show {id_}"
        if state == "never":
            fix = fix if has_entry(store / id_ / SUBMITTED) else "python3 -m gpuwork.jobs list"
            raise Refused("the job would never begin; nothing was submitted", evidence=f"it {why}", fix=fix)
        if state == WAITS:
            earlier = read_submission(store / id_)
            if earlier.told.system != system:
                raise Refused(
                    f"job {id_} waits elsewhere; nothing was submitted",
                    evidence=f"it was submitted to {earlier.told.system}, and this one is for {system}",
                    fix=fix,
                )
            found.append(earlier)
    return found


def find_followers(store: Path, ids: Sequence[str]) -> list[Submission]:
    """The submissions that follow any of these, and have not all ended."""
    found = []
    for number in list_open(store):
        try:
            submission = read_submission(store / number)
        except StoreError:
            continue
        if set(earlier_of(submission.order)) & set(ids):
            found.append(submission)
    return found


def refuse_followed(store: Path, ids: Sequence[str]) -> None:
    """Raise Refused if a submission that may still begin follows one of these, whose end it has to find."""
    for follower in find_followers(store, ids):
        left = [
            number
            for number in range(follower.order.runs)
            if read_run_record(follower.run_folder(number)).state in LIVE and not is_cancelled(follower, number)
        ]
        if left and judge(store, follower.order)[0] != "never":
            raise Refused(
                "another job follows one of these and has not ended; nothing was removed",
                evidence=f"{follower.id} was submitted with --after {', '.join(earlier_of(follower.order))}",
                fix=f"python3 -m gpuwork.jobs cancel {follower.id}",
            )
