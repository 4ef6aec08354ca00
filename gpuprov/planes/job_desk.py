"""Where jobs of a cluster are handed in and asked for: the program `gpuwork.jobs` in one of its nodes.

The node may be hostile: each question has a time limit, each answer a size limit (Driver.run) and a strict parser.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, TimedOut, UsageError
from gpuprov.core.excerpt import LINE, excerpt, last_words
from gpuprov.core.names import name_cluster
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.planes.job_answers import (
    parse_job_answer,
    read_complaint,
    read_jobs,
    read_log_piece,
    read_shown,
    read_submitted,
    read_workers,
)
from gpuprov.planes.work_place import PROJECTS, desk_argv, require_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpuprov.drivers.base import Driver, ExecResult
    from gpuprov.planes.job_answers import Complaint, JobList, JobRecord, LogPiece, ShownJobs, Submitted, WorkerRecord
    from gpuprov.spec.job_order import SubmitOrder

    Answer = TypeVar("Answer")

_SUBMIT_S: Final = 900.0  # 1 GiB is frozen, and 10,000 runs are ten commands of Slurm's
_CANCEL_S: Final = 60.0  # the program itself waits half as long
_ANSWER_S: Final = 90.0
_TIDY_S: Final = 60.0
_KINDS: Final[dict[int, type[GpuprovError]]] = {2: UsageError, 3: HostNotReady, 4: EngineError}
_TIMED_OUT: Final = 6
_OURS: Final = re.compile(r"python3 -m gpuwork\.jobs (?:list|(show|logs|cancel|wait) ([0-9.]{1,20}))", re.ASCII)
# A copy that a killed run has left goes with the next one; `-cmin`, as its other times are those of the project
_TIDY: Final = f"rm -rf -- \"$1\"; find /opt -maxdepth 1 -path '{PROJECTS}*' -cmin +1440 -exec rm -rf -- {{}} +"


class NotEnded(TimedOut):
    """Jobs had not ended when the time was over that the program was given."""


@dataclass(frozen=True, kw_only=True)
class JobDesk:
    """A node that takes jobs for its cluster.

    Attributes:
        driver: Reaches the node.
        node: Its name.
        cluster: Name of the cluster.
    """

    driver: Driver
    node: str
    cluster: str

    @contextmanager
    def holding(self, project: Iterable[bytes]) -> Iterator[str]:
        """Have a project in the node for the block, as root's, readable for all; gives its path there.

        Args:
            project: A tar, as `Driver.write_tree` takes it.

        Raises:
            EngineError: The node cannot hold it.
        """
        place = f"{PROJECTS}{secrets.token_hex(8)}"
        try:
            self.driver.write_tree(self.node, place, project)
            yield place
        finally:
            with suppress(GpuprovError):
                self.driver.run(self.node, ["sh", "-c", _TIDY, "sh", place], cwd="/", timeout_s=_TIDY_S)

    def submit(self, order: SubmitOrder, project: str | None) -> Submitted:
        """Hand jobs in; they have their own copy of the project when this returns.

        Args:
            order: What is to be run.
            project: A folder in the node.

        Raises:
            GpuprovError: It was refused, or nobody can tell whether it was submitted.
        """
        asked = json.dumps(order.document(project)).encode()
        try:
            return self._ask(
                lambda told: read_submitted(told, order.count), "submit", stdin=asked, limit_s=scaled_limit_s(_SUBMIT_S)
            )
        except TimedOut as error:
            fix = name_cluster("see whether it was submitted: gpuprov jobs", self.cluster)
            raise TimedOut(error.what, evidence=error.evidence, fix=fix) from error

    def list_jobs(self) -> JobList:
        """All jobs, or those of the newest submissions."""
        return self._ask(read_jobs, "list")

    def show(self, ids: Sequence[str]) -> ShownJobs:
        """Some jobs, and what they belong to."""
        return self._ask(read_shown, "show", *ids)

    def read_log(self, job: str, start: int) -> LogPiece:
        """A piece of a job's log."""
        return self._ask(lambda told: read_log_piece(told, job=job, start=start), "logs", job, "--from", str(start))

    def cancel(self, ids: Sequence[str]) -> tuple[JobRecord, ...]:
        """End jobs; returns them when they have ended."""
        return self._ask(read_jobs, "cancel", *ids, limit_s=_CANCEL_S + scaled_limit_s(_ANSWER_S)).jobs

    def wait(self, ids: Sequence[str], *, limit_s: int) -> tuple[JobRecord, ...] | None:
        """Jobs that have all ended; None where they had not when the time was over."""
        try:
            whole_s = limit_s + scaled_limit_s(_ANSWER_S)
            return self._ask(read_jobs, "wait", *ids, "--limit", str(limit_s), limit_s=whole_s).jobs
        except NotEnded:
            return None

    def list_workers(self, expected: int) -> tuple[WorkerRecord, ...]:
        """The workers that answer; no longer is waited when so many have."""
        return self._ask(read_workers, "workers", "--expect", str(expected))

    def _ask(
        self,
        read: Callable[[dict[str, Any]], Answer],
        *arguments: str,
        stdin: bytes = b"",
        limit_s: float | None = None,
    ) -> Answer:
        """What the program answers.

        Raises:
            GpuprovError: It complains, or what it says is no answer.
        """
        timeout_s = scaled_limit_s(_ANSWER_S) if limit_s is None else limit_s
        result = self.driver.run(self.node, desk_argv(*arguments), cwd="/", timeout_s=timeout_s, stdin=stdin)
        if not result.stdout.strip():
            require_program(result.stderr, self.node, self.cluster)
        try:
            told = parse_job_answer(result.stdout)
            complaint = read_complaint(told)
            if complaint is None:
                return read(told)
        except ValueError as error:
            raise self._unreadable(arguments[0], result, str(error)) from error
        raise self._as_error(complaint)

    def _as_error(self, complaint: Complaint) -> GpuprovError:
        kind = NotEnded if complaint.exit_code == _TIMED_OUT else _KINDS.get(complaint.exit_code, EngineError)
        return kind(
            excerpt(complaint.what),
            evidence=last_words(complaint.evidence, most=40) if complaint.evidence else "",
            fix=self._as_fix(complaint.fix),
        )

    def _as_fix(self, fix: str) -> str:
        """What to type on this host; what is to be typed in the node is shown as a node's words."""
        found = _OURS.fullmatch(fix)
        if found is None:
            return f"gpuprov shell {self.node}, and there: {excerpt(fix, LINE)}"
        verb, job = found.groups()
        return name_cluster(f"gpuprov jobs {verb} {job}" if verb else "gpuprov jobs", self.cluster)

    def _unreadable(self, verb: str, result: ExecResult, why: str) -> EngineError:
        said = (result.stderr or result.stdout)[-LINE:].strip() or f"exit status {result.exit_code}"
        return EngineError(
            f"{self.node} does not answer as the program for jobs does (`{verb}`)",
            evidence=f"{excerpt(why)}: {excerpt(said)}",
            fix=f"look into the node: gpuprov shell {self.node}",
        )
