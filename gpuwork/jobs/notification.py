"""What `--notify` asks for: done once, when all runs of a submission have ended, and without an effect on them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from gpuprov.shapes.base import read
from gpuprov.shapes.job_run import JobRun, Notified
from gpuprov.shapes.jobs import ENDED
from gpuwork.errors import StoreError
from gpuwork.jobs.command import run_limited
from gpuwork.jobs.following import find_followers, judge
from gpuwork.jobs.order import WEBHOOKS
from gpuwork.jobs.store import is_cancelled, read_run_record, read_submission
from gpuwork.jobs.submitter import read_submitter
from gpuwork.jobs.workers import is_alive
from gpuwork.program import program_argv
from gpuwork.record import render, utc_moment
from gpuwork.shared_folder import write_file, write_once
from gpuwork.untrusted_files import has_entry, read_limited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuwork.jobs.store import Submission

FILE: Final = "notified.json"
COMMAND_S: Final = 60.0
WEBHOOK_S: Final = 10.0
_MOST_SAID: Final = 64 * 1024
_REASON: Final = 300
_CUT_OFF: Final = "it was begun, and how it ended was not recorded"


def main(store: str, *ids: str) -> None:
    """The program: notify of submissions that have ended."""
    settle(Path(store), ids)


def settle(store: Path, ids: Sequence[str]) -> None:
    """Notify of those of these submissions that have ended, and of those that follow them and now never begin."""
    with suppress(OSError, StoreError):
        for submission, runs in find_settled(store, ids):
            _notify(submission, runs)


def settle_aside(store: Path, ids: Sequence[str]) -> None:
    """The same in a process of its own, which is not waited for."""
    with suppress(OSError, StoreError):
        if find_settled(store, ids):
            argv = program_argv("gpuwork.jobs.notification", str(store), *ids, isolated=True)
            nothing = subprocess.DEVNULL
            argv = ["setsid", "--fork", *argv]  # which ends at once
            subprocess.run(argv, cwd="/", stdin=nothing, stdout=nothing, stderr=nothing, check=False)  # noqa: S603


def find_settled(store: Path, ids: Sequence[str]) -> list[tuple[Submission, list[JobRun]]]:
    """The submissions whose end nobody was notified of, and how their runs ended."""
    found, seen, left = [], set(ids), list(ids)
    while left:
        id_ = left.pop(0)
        try:
            submission = read_submission(store / id_)
        except StoreError:  # the list of jobs says why
            continue
        runs = _ended_runs(store, submission)
        if runs is None:
            continue
        if submission.order.notify is not UNSET and not has_entry(submission.folder / FILE):
            found.append((submission, runs))
        if any(run.state != "done" for run in runs):
            new = [follower.id for follower in find_followers(store, [id_]) if follower.id not in seen]
            seen.update(new)
            left += new
    return found


def read_notified(submission: Submission) -> Notified | None:
    """What came of it; None as long as it has not begun."""
    content = read_limited(submission.folder / FILE, within=submission.folder.parent)
    try:
        return None if content is None else read(Notified, content)
    except ValueError:
        return None


def _ended_runs(store: Path, submission: Submission) -> list[JobRun] | None:
    """How all runs ended; None while one may go on. The last one, which mostly ends last, is looked at first."""
    never = judge(store, submission.order)[0] == "never"
    ended = []
    for number in reversed(range(submission.order.runs)):
        record = read_run_record(submission.run_folder(number))
        if record.state not in ENDED:
            is_over = is_cancelled(submission, number) or (never and record.state == "waiting")
            if not is_over or is_alive(submission, number):
                return None
            record = JobRun(state="cancelled")
        ended.append(record)
    return ended


def _notify(submission: Submission, runs: list[JobRun]) -> None:
    path = submission.folder / FILE
    if write_once(path, render(Notified(at=_now(), ok=False, reason=_CUT_OFF))):  # of all who find the end, one does it
        reason = _carry_out(submission, _describe(submission, runs))
        write_file(path, render(Notified(at=_now(), ok=reason is None, reason=reason)))


def _describe(submission: Submission, runs: list[JobRun]) -> dict[str, object]:
    """What a webhook and a command are told."""
    states = [run.state for run in runs]
    submitter = read_submitter(submission.folder)
    return {
        "id": submission.id,
        "name": submission.order.title,
        "state": next((state for state in ("failed", "cancelled") if state in states), "done"),
        "runs": len(runs),
        "failed": states.count("failed"),
        "cancelled": states.count("cancelled"),
        "cluster": os.environ.get("SLURM_CLUSTER_NAME"),
        "user": submitter.name if submitter else None,
        "submitted": submission.told.submitted,
        "ended": max((run.ended for run in runs if run.ended), default=_now()),
    }


def _carry_out(submission: Submission, told: dict[str, object]) -> str | None:
    """Run the command, or call the webhook; why that failed, None if it did not."""
    value = str(submission.order.notify)
    is_webhook = value.startswith(WEBHOOKS)
    argv = program_argv("gpuwork.jobs.webhook", value, isolated=True) if is_webhook else shlex.split(value)
    limit_s = WEBHOOK_S if is_webhook else COMMAND_S
    env = {f"GPUPROV_{key}": str(told[word]) for key, word in (("JOB", "id"), ("STATE", "state"), ("NAME", "name"))}
    try:
        with tempfile.TemporaryFile() as stdin:
            stdin.write(json.dumps(told).encode())
            stdin.seek(0)
            done = run_limited(
                argv, limit_s=limit_s, most_bytes=_MOST_SAID, errors=subprocess.STDOUT, env={**os.environ, **env},
                cwd=submission.folder, stdin=stdin,
            )  # fmt: skip
    except (OSError, ValueError) as error:
        return str(error)[:_REASON]
    if done.is_late:
        return f"it had not ended after {limit_s:g} s"
    if len(done.said) > _MOST_SAID:
        return f"it printed more than {_MOST_SAID:,} bytes"
    if done.status == 0:
        return None
    lines = [line.strip() for line in done.said.decode(errors="replace").splitlines() if line.strip()]
    words = "".join(filter(str.isprintable, (lines or [""])[-1]))
    shown = f"exit status {done.status}"
    return (words or shown if is_webhook else f"{shown}{': ' if words else ''}{words}")[:_REASON]


def _now() -> str:
    return utc_moment(datetime.now(timezone.utc))
